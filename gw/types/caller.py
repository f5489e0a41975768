"""The author of a request."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The project of a request and the ids it carries, from its credential and headers."""

    project: str = "default"
    key_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    request_id: str = ""
    endpoint: str = ""
    dialect: str = ""
    """Protocol spoken; a bare vendor model name means this vendor's first."""
    fallback: bool = True
    """False for `X-GW-Fallback: off`: stop after the requested model."""
    candidates: tuple[str, ...] = ()
    """Models that the caller itself names as fallbacks, in place of the configured chain."""
