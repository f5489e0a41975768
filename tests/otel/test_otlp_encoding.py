"""Bytes of messages, compared with those that protobuf writes."""

from __future__ import annotations

import pytest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from gw.otel import otlp_encoding
from gw.otel.otlp_encoding import ATTRIBUTE, LENGTHS, AttributeParts, any_value, field


@pytest.mark.parametrize("size", [0, 1, 127, 128, 4_095, 4_096, 16_384, 3_000_000])
def test_a_message_in_another_one(size):
    span = Span(name="x" * size).SerializeToString()
    assert field(ScopeSpans.SPANS_FIELD_NUMBER, span) == ScopeSpans(spans=[Span(name="x" * size)]).SerializeToString()
    assert len(LENGTHS[len(span)]) == 1 + sum(len(span) >= 128**power for power in (1, 2, 3))


@pytest.mark.parametrize("message", [Span, LogRecord])
@pytest.mark.parametrize("value", ["", "a", "B\xfccher", "x" * 300, 0, 1, 300, -1, 2**40, 2**63 - 1, 0.0, -1.5, True, ["a", "b"]])
def test_attributes_are_those_of_the_message(message, value):
    parts, expected = AttributeParts(message), message(attributes=[KeyValue(key="a.name", value=any_value(value))]).SerializeToString()
    for _ in range(2):  # the second time from what is kept
        assert parts.of({"a.name": value}) == [expected]
        if isinstance(value, str):
            assert parts.text("a.name", value) == expected
        if type(value) is int:
            assert parts.count("a.name", value) == expected
    assert ATTRIBUTE[message].join([b"", *AttributeParts().of({"a.name": value})]) == expected


@pytest.mark.parametrize("power", range(64))
def test_a_count_of_any_length(power):
    parts = AttributeParts(Span)
    for value in (2**power - 1, 2**power // 3 * 2):
        expected = Span(attributes=[KeyValue(key="a", value=any_value(value))]).SerializeToString()
        assert parts.count("a", value) == expected


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(otlp_encoding, "MOST_KEPT", 50)
    parts = AttributeParts(Span)
    for number in range(500):
        parts.part("a", f"{number}")
        parts.text("b", "x" * number)
    assert len(parts._kept) <= 50
    assert len(parts._before_text) <= 50
