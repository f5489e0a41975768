"""Answers of the control plane as their readers see them."""

from __future__ import annotations

from typing import Any

import msgspec

from gw.store.chunked_body import Encoded


def as_json(answer: object) -> Any:
    """Encode and decode: what a client receives."""
    return msgspec.json.decode(bytes(answer) if isinstance(answer, Encoded) else msgspec.json.encode(answer))
