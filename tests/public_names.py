"""The public names of manihash: those at the top, and those of its packages."""

from importlib import import_module

import manihash

# Estimators, and everything that was documented at the top before: complete numpydoc.
PACKAGES = ("hashers", "embeddings", "base", "rotation", "maintenance", "advice", "export", "errors")


def public_names(packages=PACKAGES):
    """Every public name, such as "IMH" and "embeddings.TSNE", and its value."""
    found = {name: getattr(manihash, name) for name in manihash.__all__}
    for package in packages:
        module = import_module(f"manihash.{package}")
        found |= {f"{package}.{name}": getattr(module, name) for name in module.__all__ if name not in found}
    return found
