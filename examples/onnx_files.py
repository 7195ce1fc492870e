"""Write encoder.onnx, rows.f32 and codes.bin, which the other examples read and compare: digits, 64 bits."""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from manihash import recipe

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
X = load_digits().data.astype(np.float32)  # (1797, 64)
hasher = recipe("imh-tsne", n_bits=64, random_state=0).fit(X[:1500])
hasher.to_onnx(folder / "encoder.onnx")
X[1500:].tofile(folder / "rows.f32")  # 297 rows of 64 numbers, little-endian
hasher.encode(X[1500:]).tofile(folder / "codes.bin")  # 297 rows of 8 bytes
