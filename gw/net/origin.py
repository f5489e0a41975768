"""Where an upstream is, read from its base_url."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import attrs

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")
_NOT_IN_URL: Final = re.compile(r"[^\x21-\x7e]|[\\?#]")


@attrs.frozen(kw_only=True)
class Origin:
    """Where an upstream is: scheme, host, port, and the path prefix of its base_url (no trailing slash)."""

    scheme: str
    host: str
    port: int
    prefix: bytes = b""

    @classmethod
    def parse(cls, base_url: str) -> Origin:
        """Raises ValueError for anything but http(s)://host[:port][/path] without userinfo, query or fragment."""
        if _NOT_IN_URL.search(base_url):
            raise ValueError("an address may hold printable ASCII only, without query or fragment")
        parts = urlsplit(base_url)
        if parts.scheme not in _DEFAULT_PORTS:
            raise ValueError("an address begins with http:// or https://")
        if "@" in parts.netloc:
            raise ValueError("an address may not hold a user name or password")
        host = (parts.hostname or "").lower()
        if not host or (":" not in host and not _HOST_NAME.fullmatch(host)):
            raise ValueError("an address needs a host name")
        try:
            port = parts.port
        except ValueError:
            port = 0
        if port == 0:
            raise ValueError("a port is a number from 1 to 65535")
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port or _DEFAULT_PORTS[parts.scheme],
            prefix=parts.path.rstrip("/").encode("ascii"),
        )

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix.decode('ascii')}"
