"""The address of the server that counts for a fleet."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import msgspec

from gw.types.secret import Secret

_SCHEMES = {"valkey": False, "redis": False, "valkeys": True, "rediss": True}


class BankAddress(msgspec.Struct, frozen=True):
    """Parts of a URL `valkey://[user:password@]host[:port][/database]`; `valkeys` uses TLS."""

    host: str
    port: int
    tls: bool
    database: int
    user: str
    password: Secret

    @classmethod
    def parse(cls, url: str) -> BankAddress:
        """Raise ValueError with what is wrong, without the password."""
        try:
            parts = urlsplit(url)
            port = parts.port or 6379
        except ValueError as error:
            raise ValueError("is not a URL: its port must be a number from 1 to 65535") from error
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError("must be valkey://[user:password@]host[:port][/database], or valkeys:// with TLS")
        database = parts.path.strip("/") or "0"
        if not database.isdecimal():
            raise ValueError("its path must be the number of a database, such as /0")
        secret = Secret(unquote(parts.password or ""))
        return cls(parts.hostname, port, _SCHEMES[parts.scheme], int(database), unquote(parts.username or ""), secret)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
