"""Shares of sessions: which of several choices a session gets, by their weights.

The choice follows from the session's id alone, so that every process of every gateway of a fleet makes the same one, also
after a restart. Choices take up adjoining stretches in their order: when one near the end grows, as a canary does, no session
that had it loses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

_STEPS = 2**64


def share_of(weights: Sequence[int], name: str, session: str) -> int:
    """Return the index of the choice that a session gets. `name` separates several choices of the same session.

    At least one weight is positive. A choice with weight 0 is never returned.
    """
    digest = blake2b(session.encode("utf-8", "surrogatepass"), digest_size=8, key=name.encode()[:64]).digest()
    place = int.from_bytes(digest) * sum(weights)
    for index, weight in enumerate(weights):
        place -= weight * _STEPS
        if place < 0:
            return index
    raise ValueError("no weight is positive")
