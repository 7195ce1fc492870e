"""Fitted hashers as files that other programs run: ONNX."""
