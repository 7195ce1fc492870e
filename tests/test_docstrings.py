"""Every public name has complete numpydoc: parameters, returns, attributes, and an example that runs."""

import inspect

import pytest
from public_names import public_names

validate = pytest.importorskip("numpydoc.validate").validate

# Rules of numpydoc that we do not follow: extended summaries, links to other names, examples for methods.
NOT_REQUIRED = {"ES01", "SA01", "SA04", "GL01"}
NOT_REQUIRED_OF_METHODS = {"EX01"}


def public_methods():
    """The public methods and properties of all public classes, also inherited ones, each under one name."""
    found = {}
    for name, value in public_names().items():
        for member_name in dir(value) if inspect.isclass(value) else ():
            member = inspect.getattr_static(value, member_name)
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            ours = inspect.isfunction(function) and function.__module__.startswith("manihash.")
            if ours and not member_name.startswith("_"):
                found.setdefault(function, f"{name}.{member_name}")
    return sorted(found.values())


@pytest.mark.parametrize("name", sorted(public_names()))
def test_a_public_name_has_complete_numpydoc(name):
    found = {code: text for code, text in validate(f"manihash.{name}")["errors"] if code not in NOT_REQUIRED}
    assert not found


@pytest.mark.parametrize("name", public_methods())
def test_a_public_method_has_complete_numpydoc(name):
    ignored = NOT_REQUIRED | NOT_REQUIRED_OF_METHODS
    found = {code: text for code, text in validate(f"manihash.{name}")["errors"] if code not in ignored}
    assert not found
