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
from typing import Any, TypeAlias

import msgspec
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from gw.otel import conventions as names
from gw.otel.export_messages import Signal
from gw.otel.otlp_encoding import (
    ATTRIBUTE,
    LENGTHS,
    LOCAL,
    LOGS_FIELD,
    REMOTE,
    SPANS_FIELD,
    AttributeParts,
    BeforeTexts,
    CountParts,
    field,
    log_message,
    span_message,
)
from gw.otel.record_metrics import RecordMetrics, RecordSeries
from gw.otel.spans import (
    NOT_CALLED,
    count_of,
    digest_of,
    digest_of_request,
    request_attributes,
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
Number: TypeAlias = float | bytes
"""Value of an attribute that is a number; b"" if the request does not have it."""


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """Entries of a record in the requests of two signals; b"" for a signal that is not exported. `spans`: how many it has."""

    spans: int
    traces: bytes
    logs: bytes


_Part: TypeAlias = tuple[bytes, bytes, bytes, Callable[..., bytes]]
"""Beginning of a message before its ids and times, those of its two attributes that are numbers, and the function that packs them all.

If a request does not have one of the numbers, both it and what is before it are empty.
"""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """Parts of messages that many requests share, and the series that count them."""

    request: _Part
    call: _Part
    log: _Part
    series: RecordSeries | None


class RecordEncoder:
    def __init__(self, signals: Sequence[Signal], metrics: RecordMetrics | None = None) -> None:
        """`metrics` count each record that is encoded, too."""
        self._metrics = metrics
        self._has_traces, self._has_logs = "traces" in signals, "logs" in signals
        self._kept: dict[tuple[Any, ...], _Kept] = {}
        self._of_span, self._of_log, self._of_both = AttributeParts(SpanMessage), AttributeParts(LogRecord), AttributeParts()
        self._before_id = BeforeTexts(self._of_both, "gw.request.id")
        self._input, self._output, self._cache_read, self._cache_write, self._reasoning, self._characters = (
            CountParts(self._of_span, name)
            for name in (
                names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.CACHE_READ_TOKENS, names.CACHE_WRITE_TOKENS, names.REASONING_TOKENS,
                "gw.speech.characters",
            )
        )  # fmt: skip

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
            if self._metrics is not None:
                self._metrics.observe(record)
            return self._span_by_span(record)
        attempt = attempts[0]
        same = (
            _same_of_record(record), _same_of_attempt(attempt), record.trace is None, record.ttfb_ms is None, record.gateway_ms is None,
            attempt.ttfb_ms is None, record.cost_nusd is None,
        )  # fmt: skip
        kept = self._kept.get(same)
        if kept is None:
            if self._metrics is not None:
                self._metrics.observe(record)
            kept = self._keep(same, record)
        elif kept.series is not None:
            kept.series.count(record, attempt)
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
            (request, first_byte, overhead, _packer(request, _IDS_AND_TIMES, first_byte, overhead)),
            (call, first_chunk, cost, _packer(call, f"8s2s{_IDS_AND_TIMES}", first_chunk, cost)),
            (of_log, log_first_byte, log_overhead, _packer(of_log, _TIMES_AND_IDS, log_first_byte, log_overhead)),
            None if self._metrics is None else self._metrics.series_of(record, of_call),
        )  # fmt: skip
        return kept

    def _completed(self, kept: _Kept, record: RequestRecord, attempt: AttemptRecord) -> EncodedRecord:
        digest = digest_of_request(record.id)
        if record.trace is not None:
            trace = bytes.fromhex(record.trace.trace_id)
        else:
            trace = digest[:16] if not record.turn_id else digest_of("turn", record.project, record.turn_id)[:16]
        first_ms, overhead_ms = record.ttfb_ms, record.gateway_ms
        first_byte = b"" if first_ms is None else int(first_ms * 1_000 + 0.5) / 1_000_000  # as `seconds_of`, without a call
        overhead = b"" if overhead_ms is None else int(overhead_ms * 1_000 + 0.5) / 1_000_000
        texts = self._texts(record)
        traces = self._spans(kept, record, attempt, digest, trace, first_byte, overhead, texts) if self._has_traces else b""
        logs = self._log(kept.log, record, digest, trace, first_byte, overhead, texts) if self._has_logs else b""
        return EncodedRecord(2, traces, logs)

    def _spans(
        self, kept: _Kept, record: RequestRecord, attempt: AttemptRecord, digest: bytes, trace: bytes,
        first_byte: Number, overhead: Number, texts: Sequence[bytes],
    ) -> bytes:  # fmt: skip
        own, start, first_ms, cost_nusd = digest[:8], int(record.timestamp * NANO), attempt.ttfb_ms, record.cost_nusd
        at = start + int(attempt.started_ms * _MS)
        before, before_first_byte, before_overhead, pack = kept.request
        request = pack(
            before, trace, _SPAN_ID, own, _START, start, _END, start + int(record.total_latency_ms * _MS),
            before_first_byte, first_byte, before_overhead, overhead,
        )  # fmt: skip
        before, before_first_chunk, before_cost, pack = kept.call
        call = pack(  # its id: `call_id_in` of attempt 0
            before, own, _TRACE_ID, trace, _SPAN_ID, digest[16:24], _START, at, _END, at + int(attempt.duration_ms * _MS),
            before_first_chunk, b"" if first_ms is None else int(first_ms * 1_000 + 0.5) / 1_000_000,
            before_cost, b"" if cost_nusd is None else cost_nusd / NANO,
        )  # fmt: skip
        more_of_request, more_of_call = _OF_SPAN.join(texts), self._used_by(record, attempt)
        if record.trace is not None:
            more_of_request += _PARENT_ID + bytes.fromhex(record.trace.span_id)
        return b"".join((
            _SPANS, LENGTHS[len(request) + len(more_of_request)], request, more_of_request,
            _SPANS, LENGTHS[len(call) + len(more_of_call)], call, more_of_call,
        ))  # fmt: skip

    def _log(
        self, part: _Part, record: RequestRecord, digest: bytes, trace: bytes, first_byte: Number, overhead: Number, texts: Sequence[bytes]
    ) -> bytes:
        end = int((record.timestamp + record.total_latency_ms / 1_000) * NANO)
        before, before_first_byte, before_overhead, pack = part
        log = pack(
            before, end, _OBSERVED, end, _LOG_TRACE_ID, trace, _LOG_SPAN_ID, digest[:8],
            before_first_byte, first_byte, before_overhead, overhead,
        )  # fmt: skip
        more = _OF_LOG.join(texts)
        return b"".join((_LOGS, LENGTHS[len(log) + len(more)], log, more))

    def _texts(self, record: RequestRecord) -> list[bytes]:
        """Return the attributes of a request that are texts and not kept, of those in `request_attributes`.

        They have no tag. An empty part precedes them, so that tags join them (`ATTRIBUTE`).
        """
        parts = self._of_both
        own_id = record.id.encode()
        texts = [b"", self._before_id[len(own_id)] + own_id]
        if record.key_id is not None:
            texts.append(parts.part("gw.key.id", record.key_id))
        if record.turn_id is not None:
            texts.append(parts.text("gw.turn.id", record.turn_id))
        if record.session_id is not None:
            texts.append(parts.text(names.CONVERSATION, record.session_id))
        return texts

    def _used_by(self, record: RequestRecord, attempt: AttemptRecord) -> bytes:
        """Return the attributes of the only call that are neither kept nor packed with its times, of those in `attempt_attributes`."""
        usage, parts = record.usage, self._of_span
        if record.modality == "llm" or usage.input_tokens or usage.output_tokens:
            used = self._input[usage.input_tokens] + self._output[usage.output_tokens]
        else:
            used = b""
        if record.session_id is not None:
            used += parts.text(names.CONVERSATION, record.session_id)
        if attempt.routing:
            used += parts.text("gw.route.reason", attempt.routing)
        if usage.cached_input_tokens:
            used += self._cache_read[usage.cached_input_tokens]
        if usage.cache_write_tokens:
            used += self._cache_write[usage.cache_write_tokens]
        if usage.reasoning_tokens is not None:
            used += self._reasoning[usage.reasoning_tokens]
        if usage.audio_seconds:
            used += parts.double("gw.speech.audio.duration", usage.audio_seconds)
        if usage.characters:
            used += self._characters[usage.characters]
        return used


def _packer(before: bytes, ids_and_times: str, before_first: bytes, before_second: bytes) -> Callable[..., bytes]:
    return Struct(f"<{len(before)}s{ids_and_times}{_number(before_first)}{_number(before_second)}").pack


def _number(before: bytes) -> str:
    """Return the format of an attribute that is a number, or of one that is missing."""
    return f"{len(before)}sd" if before else "0s0s"
