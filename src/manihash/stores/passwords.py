"""Addresses of stores without their passwords, and the check that an address can be read only one way."""

import re
from urllib.parse import SplitResult, unquote, urlsplit

_SECRET = re.compile(r"pass(word|wd|phrase)?$|pwd|secret|token|api_?key", re.IGNORECASE)
# The user and the password of an address: the password may contain any character, also unencoded ones.
# pathlib writes one slash instead of two.
_USER = re.compile(
    r"^((?:[\w+.-]{2,}://?|(?:postgres(?:ql)?|(?:milvus|clickhouse|qdrant)(?:\+https)?):)[^:@/?#]*):(.*)@",
    re.DOTALL,
)
_OPTION = re.compile(r"([^?&;#\s=]+)(\s*=\s*)('[^']*'|[^&;#\s]*)")

_WORD = re.compile(r"[\w+.-][^\s'\"]*")  # without an opening bracket before it


def mask_password(url: str) -> str:
    """Return the address with its passwords replaced by ``***``.

    It hides too much rather than too little: without percent-encoding, everything up to the last ``@`` may
    belong to the password. Options whose decoded names look like that of a secret are hidden too.
    """
    return _OPTION.sub(_masked_option, _USER.sub(r"\1:***@", url))


def mask_passwords_in(text: str) -> str:
    """Return a text with the passwords of all addresses in it replaced by ``***``."""
    return mask_password(_WORD.sub(lambda word: mask_password(word[0]), text))


def split_address(url: str) -> SplitResult:
    """Return the parts of the URL of a server.

    Raise if host and port are invalid, or if special characters of a password, which are not percent-encoded,
    change how the URL is read.
    """
    _, _, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    path, _, query = rest[len(authority) :].partition("?")
    names = [option.partition("=")[0] for option in query.split("&")]
    if authority.count("@") > 1 or "#" in rest or "@" in path or any("@" in name for name in names):
        raise ValueError(
            f"{mask_password(url)!r} has a special character in the user, the password or the database: "
            "percent-encode it (@ as %40, / as %2F, ? as %3F, # as %23, : as %3A, % as %25)"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port if "," not in parts.netloc else None  # libpq accepts a list of hosts
    except ValueError:  # its message contains a part of the address
        raise ValueError(
            f"{mask_password(url)!r} has an invalid host or port: expected user:password@host:port, with "
            "special characters of the password percent-encoded (: as %3A)"
        ) from None
    return parts


def _masked_option(option: re.Match[str]) -> str:
    """The option ``name=value``, with the value hidden if the name is that of a secret."""
    name, equals, _ = option.groups()
    return f"{name}{equals}***" if _SECRET.search(unquote(name)) else option[0]
