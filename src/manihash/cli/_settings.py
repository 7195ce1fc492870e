"""Build the hasher of a recipe from the options of a command."""

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

if TYPE_CHECKING:
    from manihash import Hasher

_TYPES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a name",
    NoneType: "none",
}
_OWN_OPTIONS = {"n_bits": "--bits", "random_state": "--seed"}


def make_hasher(name: str, bits: int, seed: int, settings: Sequence[str] | None = None) -> "Hasher":
    """Return the unfitted hasher of a recipe with the settings of ``--set``."""
    from manihash import recipe
    from manihash.checks import positive_int

    positive_int(bits, "--bits")
    positive_int(seed, "--seed", least=0)
    hasher: Hasher = recipe(name, n_bits=bits, random_state=seed)
    values = dict(_parsed(setting) for setting in settings or ())
    _check_names(name, hasher, values)
    for setting, value in values.items():
        _check_type(name, hasher, setting, value)
    return recipe(name, n_bits=bits, random_state=seed, **values)


def _check_names(name: str, hasher: "Hasher", values: Mapping[str, Any]) -> None:
    """Raise if a setting is not a parameter of the recipe; the message lists the parameters that exist."""
    known = hasher.get_params()
    for setting in (setting for setting in values if setting not in known):
        part, nested, _ = setting.rpartition("__")
        if part in known and not hasattr(known[part], "get_params"):
            raise ValueError(
                f"got --set {setting}, but {part} of {name} is {known[part]!r} and has no parameters: "
                "set another parameter, or use another recipe"
            )
        owner, prefix = (part, part + nested) if part in known else (name, "")
        siblings = [k for k in known if k.startswith(prefix) and "__" not in k.removeprefix(prefix)]
        close = get_close_matches(setting, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"got --set {setting}, which is not a parameter of {name}{hint}: {owner} has "
            f"{', '.join(k for k in siblings if k not in _OWN_OPTIONS)}"
        )


def _check_type(name: str, hasher: "Hasher", setting: str, value: Any) -> None:
    """Raise if a value is not of the type that its constructor declares, or would have no effect."""
    known = hasher.get_params()
    if setting in ("first__n_bits", "second__n_bits"):
        raise ValueError(
            f"got --set {setting}: --bits is divided among both parts. Lengths of their own are set in "
            f"Python, recipe({name!r}, n_bits=None, first__n_bits=16, second__n_bits=48)"
        )
    if value is not None and hasattr(known[setting], "get_params"):
        raise ValueError(
            f"got --set {setting}={value}, but {setting} of {name} is a part: set its parameters, such as "
            f"--set {next(k for k in known if k.startswith(setting + '__'))}=VALUE"
        )
    part, _, parameter = setting.rpartition("__")
    owner = known[part] if part else hasher
    declared = _declared(type(owner), parameter)
    if not _accepts(declared, value):
        expected = " or ".join(_type_names(declared))
        raise ValueError(f"got --set {setting}={value!r}: {parameter} of {part or name} must be {expected}")


def _declared(owner: type, parameter: str) -> Any:
    """Return the declared type of a parameter; Any if its module imports the type for type checkers only."""
    declared = inspect.signature(owner).parameters[parameter].annotation
    if not isinstance(declared, str):
        return declared
    try:
        return eval(declared, vars(sys.modules[owner.__module__]))
    except NameError:
        return Any


def _accepts(declared: Any, value: Any) -> bool:
    """Return whether a value is of a declared type; unknown types accept every value."""
    if get_origin(declared) in (Union, UnionType):
        return any(_accepts(each, value) for each in get_args(declared))
    if get_origin(declared) is tuple:
        types = get_args(declared)
        return isinstance(value, tuple) and len(value) == len(types) and all(map(_accepts, types, value))
    if isinstance(value, bool):
        return declared is bool or declared not in _TYPES
    return declared not in _TYPES or isinstance(value, (int, float) if declared is float else declared)


def _type_names(declared: Any) -> list[str]:
    """Return what the types that a parameter accepts are called."""
    if get_origin(declared) in (Union, UnionType):
        return [name for each in get_args(declared) for name in _type_names(each)]
    if get_origin(declared) is tuple:
        return [f"({', '.join(_type_names(each)[0] for each in get_args(declared))})"]
    return [_TYPES.get(declared, "an object")]


def _parsed(setting: str) -> tuple[str, Any]:
    """Return name and value of ``name=value``: a number, true, false, none, a tuple, or else a string."""
    name, equals, text = setting.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"got --set {setting!r}: expected name=value, such as --set n_neighbors=3")
    if name in _OWN_OPTIONS:
        raise ValueError(f"got --set {name}: use {_OWN_OPTIONS[name]} instead")
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.strip().lower() in words:
        return name, words[text.strip().lower()]
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return name, text
    return name, tuple(value) if isinstance(value, list) else value
