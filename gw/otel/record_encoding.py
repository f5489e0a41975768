"""Encodes records as entries of OTLP's requests, most of them from what is the same in many. Runs in the exporting process only.

Nearly all requests have one call of a provider, and two of them differ in little: ids, times, tokens, the cost. What else a record says,
such as its model and its project, is the same in many. So messages are kept without what differs, and that is added as bytes, since joined
messages are one message with the fields of both (https://protobuf.dev/programming-guides/encoding/#last-one-wins).

All other records, such as those with fallbacks, are encoded span by span. Both ways give the messages that `gw.otel.spans` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct
from struct import error as StructError
from typing import Any

import msgspec
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from gw.otel import conventions as names
from gw.otel.export_messages import Signal
from gw.otel.otlp_encoding import (
    ATTRIBUTE,
    LOCAL,
    LOGS_FIELD,
    REMOTE,
    SPANS_FIELD,
    AttributeParts,
    field,
    length,
    log_message,
    span_message,
)
from gw.otel.spans import (
    NOT_CALLED,
    count_of,
    digest_of,
    digest_of_request,
    request_attributes,
    seconds_of,
    spans_of,
)
from gw.types.usage import NANO, AttemptRecord, RequestRecord

MOST_KEPT = 4_096
"""Kinds of requests whose messages are kept, about 1 kB each; when full, all are forgotten."""
OF_EACH_REQUEST = frozenset((
    "id", "timestamp", "total_latency_ms", "ttfb_ms", "gateway_ms", "session_id", "turn_id", "key_id", "cost_nusd", "usage",
    "trace", "attempts", "heard", "earlier", "wasted_nusd", "measured", "estimated_nusd", "wasted_units", "captured", "provider",
))  # fmt: skip
"""Fields that are written for each request, make it one that is encoded span by span, or (those after `wasted_nusd`) are not exported."""
OF_EACH_CALL = frozenset((
    "started_ms", "duration_ms", "ttfb_ms", "routing", "lost_s",
    "input_tokens", "cached_input_tokens", "output_tokens", "audio_seconds", "characters", "text_characters", "cost_nusd",
    "pricing_source", "estimated_nusd", "wasted_nusd", "saved_nusd", "detail", "cache",
))  # fmt: skip
"""The same of its only call. Those in the last two lines are the request's, or are not exported of a call."""
_VARYING = frozenset((
    "gw.request.id", "gw.key.id", "gw.turn.id", names.CONVERSATION, "gw.time_to_first_byte", "gw.overhead", names.FIRST_CHUNK,
    "gw.route.reason", "gw.cost.usd", names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.CACHE_READ_TOKENS, names.CACHE_WRITE_TOKENS,
    names.REASONING_TOKENS, "gw.speech.audio.duration", "gw.speech.characters",
))  # fmt: skip
"""Attributes that are not kept with the others."""
_same_of_record = attrgetter(*(field for field in RequestRecord.__struct_fields__ if field not in OF_EACH_REQUEST))
_same_of_attempt = attrgetter(*(field for field in AttemptRecord.__struct_fields__ if field not in OF_EACH_CALL))
_MS = 1_000_000  # nanoseconds
_OF_SPAN, _OF_LOG = ATTRIBUTE[SpanMessage], ATTRIBUTE[LogRecord]
_SPANS, _LOGS = field(SPANS_FIELD, b"")[:1], field(LOGS_FIELD, b"")[:1]


def _before(message: SpanMessage | LogRecord, size: int) -> bytes:
    """Return what precedes the last `size` bytes of a message, the value of its only field."""
    return bytes(message.SerializeToString()[:-size])


_TRACE_ID, _SPAN_ID = _before(SpanMessage(trace_id=bytes(16)), 16), _before(SpanMessage(span_id=bytes(8)), 8)
_PARENT_ID = _before(SpanMessage(parent_span_id=bytes(8)), 8)
_START, _END = _before(SpanMessage(start_time_unix_nano=1), 8), _before(SpanMessage(end_time_unix_nano=1), 8)
_AT, _OBSERVED = _before(LogRecord(time_unix_nano=1), 8), _before(LogRecord(observed_time_unix_nano=1), 8)
_LOG_TRACE_ID, _LOG_SPAN_ID = _before(LogRecord(trace_id=bytes(16)), 16), _before(LogRecord(span_id=bytes(8)), 8)
_ROOT = SpanMessage(flags=LOCAL).SerializeToString()
_CHILD = SpanMessage(flags=REMOTE).SerializeToString()  # of a span of the caller
_IDS_AND_TIMES = "16s2s8s1sQ1sQ"  # trace id, span id, start, end; the first without what is before it
_TIMES_AND_IDS = "Q1sQ2s16s2s8s"  # the same of a log: end, observed, trace id, span id
Number = float | bytes
"""Value of an attribute that is a number; b"" if the request does not have it."""


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """Entries of a record in the requests of two signals; b"" for a signal that is not exported. `spans`: how many it has."""

    spans: int
    traces: bytes
    logs: bytes


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """Parts of messages that many requests share: of the request's span, of that of its call, of the log.

    Each is packed at once, with two numbers that are attributes. If a request does not have one of them, both it and what is before it
    are empty.
    """

    request: bytes
    first_byte: bytes
    overhead: bytes
    pack_request: Callable[..., bytes]
    call: bytes
    first_chunk: bytes
    cost: bytes
    pack_call: Callable[..., bytes]
    log: bytes
    log_first_byte: bytes
    log_overhead: bytes
    pack_log: Callable[..., bytes]


class RecordEncoder:
    def __init__(self, signals: Sequence[Signal]) -> None:
        self._has_traces, self._has_logs = "traces" in signals, "logs" in signals
        self._kept: dict[tuple[Any, ...], _Kept] = {}
        self._of_span, self._of_log, self._of_both = AttributeParts(SpanMessage), AttributeParts(LogRecord), AttributeParts()

    def encode(self, record: RequestRecord) -> EncodedRecord:
        """Return a record's entries. Raises ValueError for a text or number that no message can hold."""
        try:
            return self._encode(record)
        except (StructError, OverflowError) as error:  # a time before 1970 or one without end
            raise ValueError(str(error)) from error

    def _encode(self, record: RequestRecord) -> EncodedRecord:
        attempts = record.attempts
        if (
            len(attempts) != 1 or attempts[0].outcome in NOT_CALLED or attempts[0].lost_s is not None or record.heard or record.earlier
            or record.wasted_nusd or (record.trace is not None and record.trace.state)
        ):  # fmt: skip
            return self._span_by_span(record)
        attempt = attempts[0]
        same = (
            _same_of_record(record), _same_of_attempt(attempt), record.trace is None, record.ttfb_ms is None, record.gateway_ms is None,
            attempt.ttfb_ms is None, record.cost_nusd is None,
        )  # fmt: skip
        kept = self._kept.get(same)
        if kept is None:
            kept = self._keep(same, record)
        return self._completed(kept, record, attempt)

    def _span_by_span(self, record: RequestRecord) -> EncodedRecord:
        traces = logs = b""
        if self._has_traces:
            traces = b"".join([field(SPANS_FIELD, span_message(span, self._of_span)) for span in spans_of(record)])
        if self._has_logs:
            logs = field(LOGS_FIELD, log_message(record, request_attributes(record), self._of_log))
        return EncodedRecord(count_of(record), traces, logs)

    def _keep(self, same: tuple[Any, ...], record: RequestRecord) -> _Kept:
        """Keep what other records have in common with this one: all but the fields and attributes that `_completed` adds."""
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        messages = []
        for span in spans_of(record):
            message = SpanMessage.FromString(span_message(span, AttributeParts(SpanMessage)))
            for name in ("trace_id", "span_id", "parent_span_id", "start_time_unix_nano", "end_time_unix_nano", "flags"):
                message.ClearField(name)
            messages.append(message)
        log = LogRecord.FromString(log_message(record, request_attributes(record), AttributeParts(LogRecord)))
        for name in ("trace_id", "span_id", "time_unix_nano", "observed_time_unix_nano"):
            log.ClearField(name)
        for message in (*messages, log):
            others = [each for each in message.attributes if each.key not in _VARYING]
            del message.attributes[:]
            message.attributes.extend(others)
        request, call = (message.SerializeToString() for message in messages)
        request = request + (_ROOT if record.trace is None else _CHILD) + _TRACE_ID
        call = call + _ROOT + _PARENT_ID
        before, of_request, of_call = self._of_span.before_double, record, record.attempts[0]
        first_byte = b"" if of_request.ttfb_ms is None else before("gw.time_to_first_byte")
        overhead = b"" if of_request.gateway_ms is None else before("gw.overhead")
        first_chunk = b"" if of_call.ttfb_ms is None else before(names.FIRST_CHUNK)
        cost = b"" if of_request.cost_nusd is None else before("gw.cost.usd")
        of_log, before = log.SerializeToString() + _AT, self._of_log.before_double
        log_first_byte = before("gw.time_to_first_byte") if first_byte else b""
        log_overhead = before("gw.overhead") if overhead else b""
        self._kept[same] = kept = _Kept(
            request, first_byte, overhead, Struct(f"<{len(request)}s{_IDS_AND_TIMES}{_number(first_byte)}{_number(overhead)}").pack,
            call, first_chunk, cost, Struct(f"<{len(call)}s8s2s{_IDS_AND_TIMES}{_number(first_chunk)}{_number(cost)}").pack,
            of_log, log_first_byte, log_overhead,
            Struct(f"<{len(of_log)}s{_TIMES_AND_IDS}{_number(log_first_byte)}{_number(log_overhead)}").pack,
        )  # fmt: skip
        return kept

    def _completed(self, kept: _Kept, record: RequestRecord, attempt: AttemptRecord) -> EncodedRecord:
        digest = digest_of_request(record.id)
        own, of_caller = digest[:8], record.trace
        if of_caller is not None:
            trace = bytes.fromhex(of_caller.trace_id)
        else:
            trace = digest[:16] if not record.turn_id else digest_of("turn", record.project, record.turn_id)[:16]
        first_byte = b"" if record.ttfb_ms is None else seconds_of(record.ttfb_ms)
        overhead = b"" if record.gateway_ms is None else seconds_of(record.gateway_ms)
        texts = self._texts(record)
        traces = self._spans(kept, record, attempt, digest, trace, first_byte, overhead, texts) if self._has_traces else b""
        logs = self._log(kept, record, own, trace, first_byte, overhead, texts) if self._has_logs else b""
        return EncodedRecord(2, traces, logs)

    def _spans(
        self, kept: _Kept, record: RequestRecord, attempt: AttemptRecord, digest: bytes, trace: bytes,
        first_byte: Number, overhead: Number, texts: Sequence[bytes],
    ) -> bytes:  # fmt: skip
        own, start = digest[:8], int(record.timestamp * NANO)
        at = start + int(attempt.started_ms * _MS)
        request = kept.pack_request(
            kept.request, trace, _SPAN_ID, own, _START, start, _END, start + int(record.total_latency_ms * _MS),
            kept.first_byte, first_byte, kept.overhead, overhead,
        )  # fmt: skip
        call = kept.pack_call(  # its id: `call_id_in` of attempt 0
            kept.call, own, _TRACE_ID, trace, _SPAN_ID, digest[16:24], _START, at, _END, at + int(attempt.duration_ms * _MS),
            kept.first_chunk, b"" if attempt.ttfb_ms is None else seconds_of(attempt.ttfb_ms),
            kept.cost, b"" if record.cost_nusd is None else record.cost_nusd / NANO,
        )  # fmt: skip
        more_of_request, more_of_call = _OF_SPAN.join(texts), b"".join(_used_by(record, attempt, self._of_span))
        if record.trace is not None:
            more_of_request += _PARENT_ID + bytes.fromhex(record.trace.span_id)
        return b"".join((
            _SPANS, length(len(request) + len(more_of_request)), request, more_of_request,
            _SPANS, length(len(call) + len(more_of_call)), call, more_of_call,
        ))  # fmt: skip

    def _log(
        self, kept: _Kept, record: RequestRecord, own: bytes, trace: bytes, first_byte: Number, overhead: Number, texts: Sequence[bytes]
    ) -> bytes:
        end = int((record.timestamp + record.total_latency_ms / 1_000) * NANO)
        log = kept.pack_log(
            kept.log, end, _OBSERVED, end, _LOG_TRACE_ID, trace, _LOG_SPAN_ID, own,
            kept.log_first_byte, first_byte, kept.log_overhead, overhead,
        )  # fmt: skip
        more = _OF_LOG.join(texts)
        return b"".join((_LOGS, length(len(log) + len(more)), log, more))

    def _texts(self, record: RequestRecord) -> list[bytes]:
        """Return the attributes of a request that are texts and not kept, of those in `request_attributes`.

        They have no tag. An empty part precedes them, so that tags join them (`ATTRIBUTE`).
        """
        parts = self._of_both
        texts = [b"", parts.text("gw.request.id", record.id)]
        if record.key_id is not None:
            texts.append(parts.part("gw.key.id", record.key_id))
        if record.turn_id is not None:
            texts.append(parts.text("gw.turn.id", record.turn_id))
        if record.session_id is not None:
            texts.append(parts.text(names.CONVERSATION, record.session_id))
        return texts


def _number(before: bytes) -> str:
    """Return the format of an attribute that is a number, or of one that is missing."""
    return f"{len(before)}sd" if before else "0s0s"


def _used_by(record: RequestRecord, attempt: AttemptRecord, parts: AttributeParts) -> list[bytes]:
    """Return the attributes of the only call that are neither kept nor packed with its times, of those in `attempt_attributes`."""
    count, usage = parts.count, record.usage
    used = [] if record.session_id is None else [parts.text(names.CONVERSATION, record.session_id)]
    if attempt.routing:
        used.append(parts.text("gw.route.reason", attempt.routing))
    if record.modality == "llm" or usage.input_tokens or usage.output_tokens:
        used += (count(names.INPUT_TOKENS, usage.input_tokens), count(names.OUTPUT_TOKENS, usage.output_tokens))
    if usage.cached_input_tokens:
        used.append(count(names.CACHE_READ_TOKENS, usage.cached_input_tokens))
    if usage.cache_write_tokens:
        used.append(count(names.CACHE_WRITE_TOKENS, usage.cache_write_tokens))
    if usage.reasoning_tokens is not None:
        used.append(count(names.REASONING_TOKENS, usage.reasoning_tokens))
    if usage.audio_seconds:
        used.append(parts.double("gw.speech.audio.duration", usage.audio_seconds))
    if usage.characters:
        used.append(count("gw.speech.characters", usage.characters))
    return used
