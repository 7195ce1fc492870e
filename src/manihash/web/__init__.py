"""Servers on this machine: the search API and the pages to explore codes; needs ``manihash[web]``."""

from manihash.checks import extra

for _library in ("starlette", "uvicorn", "httptools", "orjson", "msgspec"):
    extra(_library, "web")
