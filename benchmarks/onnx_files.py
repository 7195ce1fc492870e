"""ONNX files of models of MNIST: bits that differ from ``encode``, time of one row: ``make bench-onnx``.

A time is a multiple of the bare product 1 x 784 x 400 in onnxruntime: one thread, medians, measured in turns.
Writes ``docs/results/onnx.json``.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
from _results import record
from onnx import TensorProto, helper, numpy_helper

from manihash import IMH, Hybrid, load_dataset
from manihash.base import KMeansBase, LargeBase
from manihash.embeddings import PCA as PCAEmbedding
from manihash.export import compare_onnx
from manihash.hashers import AGH, ITQ, KLSH, KSH, SH, SpH

WIDTH, POINTS, REPEATS, CALLS = 784, 400, 5, 400
SMALL = {"base": KMeansBase(POINTS), "embedding": PCAEmbedding()}
MODELS = {
    "IMH, 400 base points": IMH(64, **SMALL),
    "IMH, 400 base points, normalize": IMH(64, **SMALL, normalize=True),
    "IMH, 2,000 base points in cells": IMH(64, base=LargeBase(2_000), embedding=PCAEmbedding()),
    "AGH, two layers": AGH(64, base=KMeansBase(POINTS), layers=2),
    "Hybrid of IMH and ITQ": Hybrid(IMH(32, **SMALL), ITQ(32)),
    "ITQ": ITQ(64),
    "SH": SH(64),
    "SpH": SpH(64),
    "KLSH": KLSH(64),
    "KSH": KSH(64),
}


def opened(path: Path) -> onnxruntime.InferenceSession:
    """A file, to be run on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def bare_product(path: Path) -> None:
    """Write a graph of one product 1 x 784 x 400."""
    C = np.random.default_rng(0).normal(size=(WIDTH, POINTS)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "C"], ["product"])],
        "product",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, ["batch", POINTS])],
        [numpy_helper.from_array(C, "C")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)


def seconds(session: onnxruntime.InferenceSession, row: Any) -> float:
    """The median time of one row."""
    times = []
    for _ in range(CALLS):
        start = perf_counter()
        session.run(None, {"rows": row})
        times.append(perf_counter() - start)
    return median(times)


def measured(name: str, X: Any, y: Any, Q: Any, folder: Path) -> dict[str, float]:
    """The differing bits and the time of one row of a model's files."""
    hasher, product = MODELS[name].set_params(random_state=0).fit(X, y), opened(folder / "product.onnx")
    found: dict[str, float] = {}
    for precision in ("float32", "float64"):
        path = folder / "encoder.onnx"
        hasher.to_onnx(path, double=precision == "float64")
        compared, session = compare_onnx(path, hasher, Q), opened(path)
        times = [(seconds(session, Q[:1]), seconds(product, Q[:1])) for _ in range(REPEATS)]
        found |= {"bits": compared.bits, f"{precision}, bits that differ": compared.different_bits}
        found[f"{precision}, one row in products"] = round(median(own / bare for own, bare in times), 2)
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    data = load_dataset("mnist")
    X, y, Q = data.X_train[:10_000], data.y_train[:10_000], data.X_train[20_000:40_000].astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        bare_product(Path(folder) / "product.onnx")
        for name in MODELS:
            found = measured(name, X.astype(np.float32), y, Q, Path(folder))
            record("onnx", name, found, machine={"onnxruntime": onnxruntime.__version__})
            print(name, found, flush=True)


if __name__ == "__main__":
    main()
