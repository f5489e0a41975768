"""Who asks."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The project a request belongs to and the ids it carries, read from its credential and headers."""

    project: str = "default"
    key_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    request_id: str = ""
    endpoint: str = ""
    dialect: str = ""
    """The protocol spoken: a bare vendor model name means this vendor's first."""
    fallback: bool = True
    """False: `X-GW-Fallback: off`, stop after the model asked for."""
    candidates: tuple[str, ...] = ()
    """Models that the caller itself names to be tried next, in place of the configured chain."""
