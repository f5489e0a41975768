"""Base64 of tokens and web keys, beside the standard library's."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.types.base64url import decode_base64url


@given(st.binary(max_size=50))
def test_it_reads_what_was_encoded_with_and_without_padding(data):
    encoded = urlsafe_b64encode(data)
    assert decode_base64url(encoded) == data
    assert decode_base64url(encoded.rstrip(b"=")) == data


@pytest.mark.parametrize("encoded", [b"++", b"//", b"A", b"AAAA!", b"AA A", b"AA=A", b"AAAA\n", b"A===", "AAé".encode()])
def test_anything_else_is_refused(encoded):
    with pytest.raises(binascii.Error):
        decode_base64url(encoded)
