"""Short-lived tokens, which an app's server requests and hands to a browser in place of its key.

A token names the key it was made with, its project and its end; it is signed, and not stored. The signing secret
belongs to one gateway and one run: a restart ends every token, and the end of a key, or another secret under its name,
ends those made with it. It is a credential of the data plane alone, with the rights of a project key except to make
another token.

A token for one request has a unique id, which is remembered once it was used, as long as the token would last.
"""

from __future__ import annotations

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from gw.policy.expiring_set import ExpiringSet

PREFIX = b"gwt_"
_SIGNATURE_BYTES = 32
_FINGERPRINT_BYTES = 16
_ID_BYTES = 16
_MAX_USED = 100_000
"""Ids of used tokens, some 150 bytes each; when full, no other is accepted until the first of them would have ended."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Content of a token. `key` is the `key_fingerprint` of the credential it was made with; `expires_at` Unix seconds.

    `single_use_id`: the id of a token for one request; empty for a token that may be used any number of times.
    """

    key: bytes
    project: str
    expires_at: float
    single_use_id: bytes = b""


_GRANT = msgspec.msgpack.Decoder(Grant)


def new_single_use_id() -> bytes:
    return os.urandom(_ID_BYTES)


class ShortLivedTokens:
    """Signs, reads and uses up the tokens of one gateway."""

    def __init__(self) -> None:
        self.used = ExpiringSet(_MAX_USED)
        """Ids of the single-use tokens that were used."""
        self._secret = os.urandom(32)

    def key_fingerprint(self, digest: bytes) -> bytes:
        """Return a stand-in, valid in this gateway, for the credential with this SHA-256; it reveals nothing of it."""
        return hmac.digest(self._secret, b"mark" + digest, "sha256")[:_FINGERPRINT_BYTES]

    def issue(self, grant: Grant) -> str:
        content = msgspec.msgpack.encode(grant)
        return PREFIX.decode() + urlsafe_b64encode(self._sign(content) + content).rstrip(b"=").decode()

    def read(self, token: bytes) -> Grant | None:
        """Return the content of a token, expired or not; None for anything that this gateway did not issue."""
        if not token.startswith(PREFIX):
            return None
        packed = token[len(PREFIX) :]
        try:
            decoded = urlsafe_b64decode(packed + b"=" * (-len(packed) % 4))
            signature, content = decoded[:_SIGNATURE_BYTES], decoded[_SIGNATURE_BYTES:]
            return _GRANT.decode(content) if hmac.compare_digest(self._sign(content), signature) else None
        except (ValueError, msgspec.DecodeError):
            return None

    def _sign(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, b"grant" + content, "sha256")
