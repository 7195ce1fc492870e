"""Profile a fit and an encode with py-spy: ``make profile``.

py-spy samples all threads that are not idle. A line shows the share of samples in which a function of
manihash was the innermost one of the package on a thread's stack, including its calls of numpy and scipy.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import manihash
from manihash import load, load_dataset, recipe

PACKAGE = f"{Path(manihash.__file__).parent}/"
SAMPLES_PER_SECOND = 200
SHOWN = 15


def work(step: str, name: str, data: str, model: Path) -> None:
    """The step that is profiled, in its own process: fit and save a model, or load it and encode."""
    X = load_dataset(data).X_train
    hasher = load(model) if step == "encode" else recipe(name, random_state=0)
    start = time.perf_counter()
    if step == "fit":
        hasher.fit(X)
    else:
        hasher.encode(X)
    print(f"\n{step} {name} on {data}: {time.perf_counter() - start:.2f} s")
    if step == "fit":
        hasher.save(model)


def profile(step: str, name: str, data: str, folder: Path) -> Counter[str]:
    """Number of samples of each function of manihash while the step runs."""
    stacks = folder / f"{step}.txt"
    py_spy = [Path(sys.executable).parent / "py-spy", "record", "--format", "raw", "--full-filenames", "-F"]
    py_spy += ["--rate", str(SAMPLES_PER_SECOND), "--output", stacks, "--"]
    again = [sys.executable, __file__, "--recipe", name, "--data", data, "--step", step]
    again += ["--model", folder / "model.mhash"]
    done = subprocess.run([*py_spy, *again], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"py-spy failed:\n{done.stderr}")
    print(*(line for line in done.stdout.splitlines() if line.startswith(step)))
    return samples(stacks.read_text())


def samples(stacks: str) -> Counter[str]:
    """Samples by innermost function of the package, without imports and the reading of the dataset."""
    found: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [frame for frame in stack.split(";") if PACKAGE in frame]
        imports = any(frame.startswith("<module>") for frame in frames)
        reads = any(f"{PACKAGE}datasets/" in frame for frame in frames)
        if frames and not imports and not reads:
            function, _, place = frames[-1].rpartition(" (")
            module = place.split(PACKAGE)[1].split(".py")[0].replace("/", ".")
            found[f"{module}.{function}"] += int(count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="imh-tsne")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--step", choices=["fit", "encode"], help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        work(asked.step, asked.recipe, asked.data, asked.model)
        return
    with tempfile.TemporaryDirectory() as folder:
        for step in ("fit", "encode"):
            found = profile(step, asked.recipe, asked.data, Path(folder))
            for name, count in found.most_common(SHOWN):
                print(f"  {count / found.total():6.1%}  {name}")


if __name__ == "__main__":
    main()
