"""Base64 with the URL-safe alphabet of RFC 4648, section 5, as in tokens and web keys."""

from __future__ import annotations

import binascii

_STANDARD = bytes.maketrans(b"-_+/", b"+/!!")
"""To the alphabet that `binascii` reads. The two letters that only that alphabet has become one that none has."""


def decode_base64url(encoded: bytes) -> bytes:
    """Decode base64 without padding. Raises ValueError for a byte outside of the alphabet, which `base64` would skip."""
    return binascii.a2b_base64(encoded.translate(_STANDARD) + b"=" * (-len(encoded) % 4), strict_mode=True)
