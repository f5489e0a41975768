"""Short-lived tokens, which an app's server requests and hands to a browser in place of its key.

A token names the key it was made with, its project and its end. It is signed and not stored. The signing secret belongs to
this process: a restart invalidates every token; the end of a key, or a new secret for it, invalidates the tokens made with it.
A token is a credential of the data plane only: it may do what a project key may, except make another token.

A single-use token has an id, which is stored once used, for as long as the token would be valid.
"""

from __future__ import annotations

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

PREFIX = b"gwt_"
_SECRET = os.urandom(32)
_SIGNATURE_BYTES = 32
_FINGERPRINT_BYTES = 16
_ID_BYTES = 16
_MAX_USED = 100_000
"""Ids of used tokens, about 150 bytes each; full = no other is accepted until the first of them would have expired."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Contents of a token. `key` is the `key_fingerprint` of the credential it was made with; `expires_at` is in Unix seconds;
    `single_use_id` is b"" for a token that may be used more than once.
    """

    key: bytes
    project: str
    expires_at: float
    single_use_id: bytes = b""


_GRANT = msgspec.msgpack.Decoder(Grant)


def key_fingerprint(digest: bytes) -> bytes:
    """Return a stand-in, valid in this process, for the credential with this SHA-256; it reveals nothing about it."""
    return hmac.digest(_SECRET, b"mark" + digest, "sha256")[:_FINGERPRINT_BYTES]


def new_single_use_id() -> bytes:
    return os.urandom(_ID_BYTES)


def issue(grant: Grant) -> str:
    """Return the token for `grant`."""
    payload = msgspec.msgpack.encode(grant)
    return PREFIX.decode() + urlsafe_b64encode(_sign(payload) + payload).rstrip(b"=").decode()


def read(token: bytes) -> Grant | None:
    """Return the contents of a token; None if we did not issue it. Its expiry is not checked."""
    if not token.startswith(PREFIX):
        return None
    packed = token[len(PREFIX) :]
    try:
        decoded = urlsafe_b64decode(packed + b"=" * (-len(packed) % 4))
        signature, payload = decoded[:_SIGNATURE_BYTES], decoded[_SIGNATURE_BYTES:]
        return _GRANT.decode(payload) if hmac.compare_digest(_sign(payload), signature) else None
    except (ValueError, msgspec.DecodeError):
        return None


def _sign(payload: bytes) -> bytes:
    return hmac.digest(_SECRET, b"grant" + payload, "sha256")


class UsedTokens:
    """Ids of the single-use tokens that have been used, in order of use, each with its token's expiry."""

    def __init__(self, most: int = _MAX_USED) -> None:
        self._most = most
        self._expiries: dict[bytes, float] = {}

    def __contains__(self, id_: bytes) -> bool:
        return id_ in self._expiries

    def add(self, id_: bytes, expires_at: float, now: float) -> bool:
        """Add an id; return False, adding nothing, if there is no room. Both times are in Unix seconds."""
        while self._expiries and next(iter(self._expiries.values())) <= now:
            del self._expiries[next(iter(self._expiries))]
        if len(self._expiries) >= self._most:
            return False
        self._expiries[id_] = expires_at
        return True


used = UsedTokens()
