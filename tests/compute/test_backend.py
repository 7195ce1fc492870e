"""The two backends have one interface, and ``backend`` picks between them without importing torch."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from manihash.compute import backend, numpy_backend, torch_backend


def test_both_backends_export_the_same_names():
    assert numpy_backend.__all__ == torch_backend.__all__ == sorted(set(numpy_backend.__all__))


@pytest.mark.parametrize("name", numpy_backend.__all__)
def test_functions_of_both_backends_take_the_same_arguments(name):
    ours, theirs = (inspect.signature(getattr(module, name)) for module in (numpy_backend, torch_backend))
    arguments = [(each.name, each.kind, each.default) for each in ours.parameters.values()]
    assert arguments == [(each.name, each.kind, each.default) for each in theirs.parameters.values()]


@pytest.mark.parametrize("X", [np.zeros((2, 2)), [[0.0]], None, np.zeros((2, 2), int).view(np.matrix)])
def test_whatever_is_not_a_tensor_belongs_to_numpy(X):
    assert backend(X) is numpy_backend


@pytest.mark.extra
def test_a_tensor_belongs_to_torch():
    torch = pytest.importorskip("torch")
    assert backend(torch.zeros((2, 2))) is torch_backend


def test_the_backend_of_an_array_is_found_without_torch():
    code = (
        "import sys, numpy as np; from manihash.compute import backend; backend(np.zeros((2, 2)));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.extra
@pytest.mark.parametrize("name", sorted(numpy_backend.SHARED))
def test_a_shared_function_is_that_of_the_library(name):
    torch = pytest.importorskip("torch")
    assert getattr(numpy_backend, name) is getattr(np, name)
    assert getattr(torch_backend, name) is getattr(torch, name)
    for module in (numpy_backend, torch_backend):
        assert not hasattr(module, "nonsense")
