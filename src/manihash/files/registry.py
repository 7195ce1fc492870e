"""The classes that model files can hold: the estimators of manihash, and those that a program has registered.

A file names its classes. A name is looked up here and never imported from a path in the file, so that a file
cannot run code: a class of another package must have been registered by the program that loads the file.
"""

from functools import cache
from importlib import import_module
from typing import Any

from manihash.errors import ModelFileError

# The public classes of these modules are known under their names.
_HOMES = ("hashers", "induction", "rotation", "base", "embeddings")
_registered: dict[str, type] = {}


def register_class(name: str, cls: type) -> None:
    """Let model files hold a class under a name; raise if the name belongs to another class."""
    taken = _registered.get(name) or own_classes().get(name)
    if taken not in (None, cls) and not _is_new_version(taken, cls):
        raise ValueError(
            f"the name {name!r} belongs to {taken!r}: register {cls.__name__} under another name"
        )
    _registered[name] = cls


def is_registered(name: str) -> bool:
    """Whether a program has registered a class under this name."""
    return name in _registered


def _is_new_version(old: Any, new: type) -> bool:
    """Whether a class was defined again, as a cell of a notebook that runs twice does."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


@cache
def own_classes() -> dict[str, type]:
    """The estimators of manihash by their names."""
    modules = [import_module(f"manihash.{home}") for home in _HOMES]
    values = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {
        name: value
        for name, value in values.items()
        if hasattr(value, "get_params") and not name.startswith("Hasher")
    }


def is_model(cls: type) -> bool:
    """Whether a class is a model, which a file can hold for itself, and not a part of models."""
    return hasattr(cls, "save")


def model_class(name: str) -> Any:
    """The class of a model, by its name in the file."""
    if not is_model(cls := part_class(name)):
        raise ModelFileError(f"the file holds a {name}, which is part of a model and not a model")
    return cls


def part_class(name: str) -> Any:
    """The class of a model or of a part of one, by its name in the file."""
    found = _registered.get(name) or own_classes().get(name) if isinstance(name, str) else None
    if found is None:
        raise ModelFileError(
            f"the file names the class {name!r}, which is not registered in this program: import the module "
            f"that calls manihash.register({name!r}, …), or upgrade manihash if it is one of its classes"
        )
    return found


def name_in_files(cls: type) -> str | None:
    """The name of a class in model files; None if files cannot hold it."""
    own = own_classes().get(cls.__name__)
    if own is cls:
        return cls.__name__
    return next((name for name, known in _registered.items() if known is cls), None)
