"""Every public name has complete numpydoc: parameters, returns, attributes, and an example that runs."""

import inspect

import pytest

import manihash

validate = pytest.importorskip("numpydoc.validate").validate

# What numpydoc asks for beyond our rules: a longer summary, links to other names, examples for every method.
NOT_ASKED = {"ES01", "SA01", "SA04", "GL01"}
NOT_ASKED_OF_METHODS = {"EX01"}


def public_methods(name):
    value = getattr(manihash, name)
    if not inspect.isclass(value):
        return []
    return sorted(
        f"{name}.{method}"
        for method, member in vars(value).items()
        if not method.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    )


@pytest.mark.parametrize("name", manihash.__all__)
def test_a_public_name_has_complete_numpydoc(name):
    found = {code: text for code, text in validate(f"manihash.{name}")["errors"] if code not in NOT_ASKED}
    assert not found


@pytest.mark.parametrize("name", [method for name in manihash.__all__ for method in public_methods(name)])
def test_a_public_method_has_complete_numpydoc(name):
    ignored = NOT_ASKED | NOT_ASKED_OF_METHODS
    found = {code: text for code, text in validate(f"manihash.{name}")["errors"] if code not in ignored}
    assert not found
