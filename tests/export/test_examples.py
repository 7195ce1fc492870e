"""The examples of docs/guide/onnx.md: the files they read, and the one in JavaScript if Node can run it."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.extra
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("files")
    subprocess.run([sys.executable, EXAMPLES / "onnx_files.py", folder], check=True)
    return folder


def test_python(folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(folder / "encoder.onnx")
    rows = np.fromfile(folder / "rows.f32", np.float32).reshape(-1, 64)
    codes, _ = session.run(None, {"rows": rows})
    assert codes.tobytes() == (folder / "codes.bin").read_bytes()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
@pytest.mark.skipif(
    not (EXAMPLES / "onnx-web" / "node_modules").is_dir(), reason="run npm install in examples/onnx-web"
)
def test_javascript(folder):
    found = subprocess.run(
        ["node", EXAMPLES / "onnx-web" / "node.js", folder], capture_output=True, text=True, timeout=60
    )
    assert found.stdout == "297 codes, 0 of 2376 bytes differ\n", found.stderr
