"""The address of an upstream, parsed from its base_url."""

from __future__ import annotations

from typing import Final

import attrs

from gw.types.address import split_address

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@attrs.frozen(kw_only=True)
class Origin:
    """Scheme, host and port of an upstream, and the path prefix of its base_url (no trailing slash).

    Scheme `tcp` is a bare connection; `engine` an engine in a process of the gateway, with the entry's name as `host`.
    """

    scheme: str
    host: str
    port: int
    prefix: bytes = b""
    public_only: bool = False
    """Only addresses of the public internet may be connected to, whatever the name resolves to."""

    @classmethod
    def parse(cls, base_url: str, *, public_only: bool = False) -> Origin:
        """Raises ValueError for anything but http(s)://host[:port][/path] or tcp://host:port, without userinfo, query, fragment."""
        parts = split_address(base_url, tcp=True)
        return cls(
            scheme=parts.scheme,
            host=(parts.hostname or "").lower(),
            port=parts.port or _DEFAULT_PORTS.get(parts.scheme, 0),
            prefix=parts.path.rstrip("/").encode("ascii"),
            public_only=public_only,
        )

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix.decode('ascii')}"
