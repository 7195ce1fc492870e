"""Load-test the search API: ``make bench-serve`` (needs MNIST). Writes docs/results/serve.json.

69,000 rows of MNIST in 64 bits; requests with 784 numbers, answers with ten ids. Servers are measured in
turn, in rounds, so that a busy machine slows all of them: manihash serve, which ranks by the real values of
queries or, if requests ask for it, by Hamming distance; the same server with a constant answer; and an exact
FAISS index of the vectors behind the same framework.
"""

import argparse
import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from _results import record
from load import Load, drive, request_bytes

from manihash import HammingIndex, load_dataset, recipe

K, CLIENTS, SECONDS = 10, (1, 16, 128), 2.5
HAMMING = "manihash, Hamming"
ROUNDS = {"manihash": 5, HAMMING: 5, "constant": 5, "faiss": 1}
FAISS_QUERIES = 2000  # at once: FAISS takes a minute for more
REQUESTS, MALFORMED = 100_000, 100  # one of so many is malformed
KILLS = 20


def prepare(folder: Path) -> np.ndarray:
    """Write model, index and vectors of MNIST into a folder; return the queries."""
    data = load_dataset("mnist")
    if (folder / "vectors.npy").exists():
        return data.X_test
    hasher = recipe("imh-tsne", n_bits=64, random_state=0).fit(data.X_train)
    hasher.save(folder / "model.mhash")
    index = HammingIndex(hasher.encode(data.X_train), 64)
    index.made_by = hasher.lineage_["id"]
    index.save(folder / "codes.mhx")
    np.save(folder / "vectors.npy", data.X_train)
    return data.X_test


def run_server(kind: str, folder: Path) -> None:
    """Serve a constant answer, or the answers of FAISS, in the framework of manihash serve."""
    from manihash import load
    from manihash.web.api import bodies
    from manihash.web.api.endpoints import Api
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service
    from manihash.web.application import application, json_answer
    from manihash.web.server import run

    index = HammingIndex.load(folder / "codes.mhx")
    api = Api(Service(load(folder / "model.mhash"), index, Limits()))
    ids = [list(range(K))]
    constant = {"ids": ids, "distances": ids, "ranked_by": "hamming"}

    async def answer_constant(request: Any) -> Any:
        bodies.content_type(request)
        await bodies.read_body(request, api.limits.body_bytes)
        return json_answer(constant)

    if kind == "faiss":
        import faiss

        flat = faiss.IndexFlatL2(784)
        flat.add(np.load(folder / "vectors.npy").astype(np.float32))

        async def answer_faiss(request: Any) -> Any:
            body = await bodies.read_body(request, api.limits.body_bytes)
            distances, ids = flat.search(np.array(orjson.loads(body)["vectors"], np.float32), K)
            return json_answer({"ids": ids, "distances": distances, "ranked_by": "euclidean"})

    handler = answer_constant if kind == "constant" else answer_faiss
    routes = [api.route("/v1/search", handler, "POST")]
    run(application(routes, host="127.0.0.1"), port=0, announce=lambda url: print(url, flush=True))


class Server:
    """A server in its own process."""

    def __init__(self, *args: str | Path) -> None:
        command = [sys.executable, *map(str, args)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = next((line for line in self.process.stdout or () if "http://" in line), "")
        self.port = int(line.split("http://127.0.0.1:")[1].split()[0])

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident memory in MB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def server(*args: str | Path) -> Iterator[Server]:
    """Start a server, and stop it at the end of the block."""
    started = Server(*args)
    try:
        yield started
    finally:
        started.process.terminate()
        started.process.wait()


def serve_command(folder: Path, *options: str) -> list[str | Path]:
    return ["-m", "manihash", "serve", folder / "model.mhash", folder / "codes.mhx", "--port", "0", *options]


def searches(queries: np.ndarray, n: int, **options: bool) -> list[bytes]:
    """Requests with n queries each."""
    batches = [queries[i : i + n].tolist() for i in range(0, len(queries) - n + 1, n)]
    bodies = [orjson.dumps({"vectors": batch, "k": K} | options) for batch in batches]
    return [request_bytes("/v1/search", body) for body in bodies]


def measured(started: Server, requests: list[bytes], clients: int) -> dict[str, float]:
    before = started.cpu_seconds()
    load: Load = drive(started.port, requests, clients, seconds=SECONDS)
    cpu = (started.cpu_seconds() - before) / len(load.latencies)
    assert not load.unanswered
    return {
        "per_second": load.per_second,
        "p50_ms": load.percentile(50),
        "p99_ms": load.percentile(99),
        "server_cpu_us": cpu * 1e6,
    }


def load_test(folder: Path, queries: np.ndarray) -> list[dict[str, Any]]:
    """Medians over the rounds, for each server, number of clients and number of queries per request.

    Takes 5 minutes.
    """
    script = Path(__file__)
    found: dict[tuple[str, int, int], list[dict[str, float]]] = {}
    with (
        server(*serve_command(folder)) as ours,
        server(script, "--server", "constant", "--folder", folder) as constant,
        server(script, "--server", "faiss", "--folder", folder) as flat,
    ):
        servers = {"manihash": ours, HAMMING: ours, "constant": constant, "faiss": flat}
        requests = {(n, by): searches(queries, n, symmetric=by) for n in (1, 100) for by in (False, True)}
        for done in range(max(ROUNDS.values())):
            for n, clients in itertools.product((1, 100), CLIENTS):
                for name, started in servers.items():
                    if done < ROUNDS[name] and (name != "faiss" or n * clients <= FAISS_QUERIES):
                        result = measured(started, requests[n, name == HAMMING], clients)
                        found.setdefault((name, n, clients), []).append(result)
    rows = []
    for (name, n, clients), results in found.items():
        medians = {key: statistics.median(r[key] for r in results) for key in results[0]}
        constants = found["constant", n, clients][: len(results)]
        shares = [r["per_second"] / c["per_second"] for r, c in zip(results, constants, strict=True)]
        ratios = {
            "share_of_constant": statistics.median(shares),
            "p99_over_p50": statistics.median(r["p99_ms"] / r["p50_ms"] for r in results),
        }
        rows.append({"server": name, "queries": n, "clients": clients, **medians, **ratios})
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    return rows


def malformed_test(folder: Path, queries: np.ndarray) -> dict[str, Any]:
    """Wrong answers, unanswered requests and memory after many requests, 1 % of which are malformed."""
    from manihash import load

    index, hasher = HammingIndex.load(folder / "codes.mhx"), load(folder / "model.mhash")
    expected = index.search(hasher.encode(queries), K, asymmetric=hasher.embed(queries))[1].tolist()
    good = searches(queries, 1)
    rng = random.Random(0)
    wrong: list[int] = []

    def request(i: int) -> bytes:
        if i % MALFORMED:
            return good[i % len(good)]
        body = bytearray(good[i % len(good)].partition(b"\r\n\r\n")[2])
        cut = rng.choice(["cut", "byte", "width", "text", "empty"])
        if cut == "cut":
            body = body[: rng.randrange(len(body))]
        elif cut == "byte":
            body[rng.randrange(10, 1000)] = 0xFF
        elif cut == "width":
            body = bytearray(orjson.dumps({"vectors": [[1.0] * rng.choice([0, 783, 785])]}))
        elif cut == "text":
            body = bytearray(orjson.dumps({"vectors": [["1"] * 784]}))
        else:
            body = bytearray()
        return request_bytes("/v1/search", bytes(body))

    def check(i: int, status: int, body: bytes) -> None:
        right = (
            (status == 200 and orjson.loads(body)["ids"] == [expected[i % len(good)]])
            if i % MALFORMED
            else (status == 400 and set(orjson.loads(body)) == {"error"})
        )
        if not right:
            wrong.append(i)

    with server(*serve_command(folder)) as started:
        drive(started.port, request, 16, total=REQUESTS // 20, check=check)
        before = started.memory()
        load_ = drive(started.port, request, 16, total=REQUESTS, check=check)
        after = started.memory()
    answered = len(load_.latencies)
    result = {
        "requests": REQUESTS,
        "malformed": REQUESTS // MALFORMED,
        "wrong_answers": len(wrong),
        "unanswered": REQUESTS - answered,
        "memory_growth_mb": round(after - before, 1),
    }
    print(result, flush=True)
    return result


def kill_test(folder: Path, queries: np.ndarray) -> dict[str, Any]:
    """Kill a server at random moments while rows are added, and look for the rows it has acknowledged."""

    requests = [request_bytes("/v1/rows", orjson.dumps({"vectors": [q]})) for q in queries[:50].tolist()]
    acknowledged: set[int] = set()
    rng = random.Random(0)
    lost = 0

    def check(i: int, status: int, body: bytes) -> None:
        assert status == 200, body
        acknowledged.update(orjson.loads(body)["ids"])

    for _ in range(KILLS):
        started = Server(*serve_command(folder, "--writable"))
        timer = threading.Timer(rng.uniform(0.1, 2.0), started.process.send_signal, [signal.SIGKILL])
        timer.start()
        drive(started.port, requests, 16, check=check)
        started.process.wait()
        present = set(HammingIndex.load(folder / "codes.mhx").ids.tolist())
        lost += len(acknowledged - present)
    result = {"kills": KILLS, "acknowledged_rows": len(acknowledged), "lost_rows": lost}
    print(result, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="load,malformed,kill")
    parser.add_argument("--folder", type=Path, help="keep model and index here, and use them again")
    parser.add_argument("--server", choices=["constant", "faiss"])
    options = parser.parse_args()
    if options.server:
        run_server(options.server, options.folder)
        return
    tests = {"load": load_test, "malformed": malformed_test, "kill": kill_test}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        queries = prepare(folder)
        for part in options.parts.split(","):
            record("serve", part, tests[part](folder, queries))


if __name__ == "__main__":
    main()
