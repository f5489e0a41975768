"""Short-lived tokens, which an app's server asks for and hands to a browser in place of its key.

A token says whose key it was made with, for which project, and until when; it is signed, and kept nowhere. The secret it is
signed with is this process's own: a restart ends every token, as a key's end, or another secret under its name, ends those
made with it. It is a credential of the data plane alone: what a project key may do, except make another token.
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


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """`key` is `mark_of` the credential it was made with; `expires_at` Unix seconds."""

    key: bytes
    project: str
    expires_at: float


_GRANT = msgspec.msgpack.Decoder(Grant)


def mark_of(digest: bytes) -> bytes:
    """Stands for the credential of this SHA-256, in this process; tells nothing of it."""
    return hmac.digest(_SECRET, b"mark" + digest, "sha256")[:_MARK_BYTES]


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
