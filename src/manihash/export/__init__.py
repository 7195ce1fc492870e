"""Fitted hashers as files that other programs run: ONNX."""

from manihash.export.compare import OnnxComparison, compare_onnx
from manihash.export.encoder import export_onnx

__all__ = ["OnnxComparison", "compare_onnx", "export_onnx"]
