"""Addresses of upstreams: what `http(s)://host[:port][/path]` may look like, for the configuration and the network."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"(?!.{{254}}){_LABEL}(?:\.{_LABEL})*\.?")
"""As the DNS takes it (RFC 1035 §2.3.4), and `_`, which container names have."""
_NOT_PRINTABLE = re.compile(r"[^\x21-\x7e]|\\")


def split_address(address: str) -> SplitResult:
    """The parts of an address; `port` is None or 1 to 65535.

    Raises ValueError saying what is wrong, without repeating the address, which may hold a password. Names of other
    alphabets are refused, not encoded: their owner knows the `xn--` form.
    """
    if _NOT_PRINTABLE.search(address):
        raise ValueError("an address may hold printable ASCII only, without spaces and backslashes")
    try:
        parts = urlsplit(address)
        port_is_good = parts.port != 0
    except ValueError:
        raise ValueError("an address needs a host, and its port is a number from 1 to 65535") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("an address begins with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("an address may not hold a user name or password")
    if "?" in address or "#" in address:
        raise ValueError("an address may not have a query or fragment")
    host = parts.hostname or ""
    if not host or (":" not in host and not _HOST_NAME.fullmatch(host)):
        raise ValueError("an address needs a host name as the DNS takes it")
    if not port_is_good:
        raise ValueError("a port is a number from 1 to 65535")
    return parts


def host_of(address: str) -> str:
    """The host in lower case, without a last dot. Raises ValueError like `split_address`."""
    return (split_address(address).hostname or "").lower().rstrip(".")
