"""Recipes and their settings, as the commands take them."""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from manihash import Hasher

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the recipe or, after two underscores, of one of its parts; may be repeated: "
        "--set n_neighbors=3 --set embedding__perplexity=30",
    ),
]

_OTHERWISE = {"n_bits": "--bits", "random_state": "--seed"}


def make_hasher(name: str, bits: int, seed: int, settings: Sequence[str] | None = None) -> "Hasher":
    """An unfitted hasher by the name of its recipe, with the settings of ``--set``."""
    from manihash import recipe
    from manihash.checks import positive_int

    positive_int(bits, "--bits")
    positive_int(seed, "--seed", least=0)
    hasher: Hasher = recipe(name, n_bits=bits, random_state=seed)
    values = dict(_parsed(setting) for setting in settings or ())
    _check_names(name, hasher, values)
    return recipe(name, n_bits=bits, random_state=seed, **values)


def _check_names(name: str, hasher: "Hasher", values: Mapping[str, Any]) -> None:
    """Raise where a setting is none of the recipe's options, with those of the part that was meant."""
    options = hasher.get_params()
    for option in (option for option in values if option not in options):
        part, nested, _ = option.rpartition("__")
        if part in options and not hasattr(options[part], "get_params"):
            raise ValueError(
                f"--set {option} came, but {part} of {name} is {options[part]!r} and has no options: "
                "set what the recipe has, or choose another (`manihash info` lists them)"
            )
        owner, before = (part, part + nested) if part in options else (name, "")
        beside = [o for o in options if o.startswith(before) and "__" not in o.removeprefix(before)]
        close = get_close_matches(option, options, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"--set {option} came, which is no option of {name}{hint}: {owner} has "
            f"{', '.join(o for o in beside if o not in _OTHERWISE)}"
        )


def _parsed(setting: str) -> tuple[str, Any]:
    """``name=value`` in two, the value read as JSON where it is JSON and as a string where not."""
    name, equals, text = setting.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"--set {setting!r} came: name=value was wanted, such as --set n_neighbors=3")
    if name in _OTHERWISE:
        raise ValueError(f"--set {name} came: use {_OTHERWISE[name]} for it")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text
