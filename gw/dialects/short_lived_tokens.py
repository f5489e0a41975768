"""Short-lived tokens, which an app's server asks for and hands to a browser in place of its key.

A token says whose key it was made with, for which project, and until when; it is signed, and kept nowhere. The secret it is
signed with is this process's own: a restart ends every token, as a key's end, or another secret under its name, ends those
made with it. It is a credential of the data plane alone: what a project key may do, except make another token.

A token that is good for one request has a name of its own, and that is kept once it was used, as long as the token would last.
"""

from __future__ import annotations

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

PREFIX = b"gwt_"
_SECRET = os.urandom(32)
_SIGNATURE_BYTES = 32
_MARK_BYTES = 16
_ONCE_BYTES = 16
_MOST_USED = 100_000
"""Names of used tokens, some 150 bytes each; full = no other is taken until the first of them would have ended."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """`key` is `mark_of` the credential it was made with; `expires_at` Unix seconds; `once` names one that is good for one
    request, and is empty where it may be used as often as wanted.
    """

    key: bytes
    project: str
    expires_at: float
    once: bytes = b""


_GRANT = msgspec.msgpack.Decoder(Grant)


def mark_of(digest: bytes) -> bytes:
    """Stands for the credential of this SHA-256, in this process; tells nothing of it."""
    return hmac.digest(_SECRET, b"mark" + digest, "sha256")[:_MARK_BYTES]


def new_once() -> bytes:
    """A name for a token, unique."""
    return os.urandom(_ONCE_BYTES)


def issue(grant: Grant) -> str:
    """The token."""
    told = msgspec.msgpack.encode(grant)
    return PREFIX.decode() + urlsafe_b64encode(_sign(told) + told).rstrip(b"=").decode()


def read(token: bytes) -> Grant | None:
    """What a token says; None where it is none of ours. Its time is not looked at."""
    if not token.startswith(PREFIX):
        return None
    packed = token[len(PREFIX) :]
    try:
        found = urlsafe_b64decode(packed + b"=" * (-len(packed) % 4))
        signature, told = found[:_SIGNATURE_BYTES], found[_SIGNATURE_BYTES:]
        return _GRANT.decode(told) if hmac.compare_digest(_sign(told), signature) else None
    except (ValueError, msgspec.DecodeError):
        return None


def _sign(told: bytes) -> bytes:
    return hmac.digest(_SECRET, b"grant" + told, "sha256")


class Used:
    """Which tokens of one use have been used. Their names in the order of their use, each with its token's end."""

    def __init__(self, most: int = _MOST_USED) -> None:
        self._most = most
        self._ends: dict[bytes, float] = {}

    def __contains__(self, once: bytes) -> bool:
        return once in self._ends

    def add(self, once: bytes, expires_at: float, now: float) -> bool:
        """False, and it is not added, where there is no room. Both times in Unix seconds."""
        while self._ends and next(iter(self._ends.values())) <= now:
            del self._ends[next(iter(self._ends))]
        if len(self._ends) >= self._most:
            return False
        self._ends[once] = expires_at
        return True


used = Used()
