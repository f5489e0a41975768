"""Requests for a count of tokens, and answers to them."""

from __future__ import annotations

import json

import pytest

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.wire.anthropic_count_tokens import decode_count, parse_request, upstream_body

BODY = {"model": "claude-haiku-4-5", "messages": [{"role": "user", "content": "hi"}], "system": [{"type": "text"}], "new": 1.5}


def test_a_request_goes_on_as_it_is_with_the_vendors_name_of_the_model() -> None:
    request = parse_request(json.dumps(BODY).encode(), b"context-1m")
    assert (request.model, request.document, request.beta) == ("claude-haiku-4-5", True, b"context-1m")
    assert json.loads(upstream_body(request, "claude-x")) == BODY | {"model": "claude-x"}


@pytest.mark.parametrize(
    ("body", "beta", "param"),
    [
        (b"{", b"", None), (b'{"messages": []}', b"", "model"), (b'{"model": "m"}', b"", "messages"),
        (b'{"model": 7, "messages": []}', b"", "model"), (json.dumps(BODY).encode(), b"a\r\nb", "anthropic-beta"),
    ],
)  # fmt: skip
def test_a_wrong_request_names_the_member(body: bytes, beta: bytes, param: str | None) -> None:
    with pytest.raises(ClientProtocolError) as raised:
        parse_request(body, beta)
    assert raised.value.param == param


def test_an_answer_goes_out_as_it_is_and_bills_nothing() -> None:
    raw = b'{"input_tokens": 12, "context_management": {"original_input_tokens": 40}}'
    answer = decode_count(raw, "anthropic", keep_raw=True)
    assert answer.raw == raw
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (0, 0)
    with pytest.raises(UpstreamProtocolError):
        decode_count(b'{"tokens": 12}', "anthropic", keep_raw=True)
