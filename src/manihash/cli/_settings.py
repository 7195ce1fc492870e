"""Build the hasher of a recipe from the options of a command."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manihash import Hasher

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


def _parsed(setting: str) -> tuple[str, Any]:
    """Return name and value of ``name=value``; the value is parsed as JSON, or else a string."""
    name, equals, text = setting.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"got --set {setting!r}: expected name=value, such as --set n_neighbors=3")
    if name in _OWN_OPTIONS:
        raise ValueError(f"got --set {name}: use {_OWN_OPTIONS[name]} instead")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text
