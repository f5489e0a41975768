"""The spans of a record: one for the request, one for each call of a provider, one for each part of a live transcription in its turn.

    turn (a trace)
    ├ request, kind SERVER ── child of the caller's span, where it sent `traceparent`
    │ ├ call of the first provider, kind CLIENT
    │ └ call of the next one, kind CLIENT          a candidate that was not called is an event of the request
    └ request of the next stage ...

Ids are hashes of the ids of records, so a record that is exported again, after kill -9, gives the same spans. Requests of a turn share a
trace; a request or session without a turn has a trace of its own. Records hold no words and no sound, so spans have none.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from gw.otel import conventions as names
from gw.types.ids import split_model_id
from gw.types.usage import NANO, AttemptRecord, HeardSpeech, RequestRecord, Usage

Value: TypeAlias = str | int | float | bool | list[str]
Attributes: TypeAlias = dict[str, Value]
NOT_CALLED = frozenset(("breaker_open", "retry_after", "not_configured", "missing_ability", "busy", "disabled", "unpriced"))
"""Outcomes of candidates that were passed over (`gw.errors.CandidateSkipped`)."""
_MS = 1_000_000  # nanoseconds


class SpanEvent(msgspec.Struct, frozen=True):
    name: str
    at_ns: int
    attributes: Attributes


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span that has ended. Ids are integers, times nanoseconds since 1970; `parent_id` 0 = a root."""

    trace_id: int
    span_id: int
    parent_id: int
    parent_is_remote: bool = False
    trace_state: str = ""
    name: str
    kind: Literal["server", "client", "internal"]
    start_ns: int
    end_ns: int
    attributes: Attributes
    error: str = ""
    """Code of the error that makes this span a failure."""
    events: tuple[SpanEvent, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    """(trace id, span id) of spans in other traces that belong to this one."""


def trace_id_of(record: RequestRecord) -> int:
    """Return the id of the record's trace: the caller's, else that of its turn, else its own."""
    if record.trace is not None:
        return int(record.trace.trace_id, 16)
    if record.turn_id:
        return _hash(16, "turn", record.project, record.turn_id)
    return int.from_bytes(digest_of_request(record.id)[:16], "big") or 1


def span_id_of(request_id: str) -> int:
    """Return the id of a request's span."""
    return int.from_bytes(digest_of_request(request_id)[:8], "big") or 1


def call_id_in(digest: bytes, attempt: int) -> int:
    """Return the id of the span of an attempt: another part of the hash whose beginning is the id of its request's span."""
    return (int.from_bytes(digest[16:24], "big") + attempt) % 2**64 or 1


def is_kept(record: RequestRecord, ratio: float) -> bool:
    """Return whether a record is exported when a share of the traces is: all of a trace or nothing, and each failure and fallback.

    The caller decides where it sent `traceparent`. The rule by trace id is that of OpenTelemetry's `TraceIdRatioBased`.
    """
    if record.status in ("error", "fallback"):
        return True
    if record.trace is not None:
        return record.trace.sampled
    if ratio == 1.0:
        return True
    return trace_id_of(record) & 0xFFFF_FFFF_FFFF_FFFF < round(ratio * 2**64)


def count_of(record: RequestRecord) -> int:
    """Return how many spans a record has."""
    return 1 + len(record.heard) + len(calls_of(record))


def calls_of(record: RequestRecord) -> list[tuple[int, AttemptRecord]]:
    """Return the attempts in which a provider was called, with their numbers."""
    return [(n, attempt) for n, attempt in enumerate(record.attempts) if attempt.outcome not in NOT_CALLED]


def spans_of(record: RequestRecord) -> list[Span]:
    """Return the spans of a record, the request's first."""
    trace, own, digest = trace_id_of(record), span_id_of(record.id), digest_of_request(record.id)
    parent = 0 if record.trace is None else int(record.trace.span_id, 16)
    state = "" if record.trace is None else record.trace.state
    start = int(record.timestamp * NANO)
    called = calls_of(record)
    request = Span(
        trace_id=trace, span_id=own, parent_id=parent, parent_is_remote=parent != 0, trace_state=state,
        name=f"gw {record.modality}", kind="server", start_ns=start, end_ns=start + int(record.total_latency_ms * _MS),
        attributes=request_attributes(record), error=(record.error_code or "error") if record.failed else "",
        events=tuple(_passed_over(attempt, start) for attempt in record.attempts if attempt.outcome in NOT_CALLED),
        links=tuple((_hash(16, "request", earlier), span_id_of(earlier)) for earlier in record.earlier),
    )  # fmt: skip
    calls = [
        Span(
            trace_id=trace, span_id=call_id_in(digest, n), parent_id=own, trace_state=state,
            name=f"{names.operation_name(record.modality, record.endpoint)} {split_model_id(attempt.model_id)[1]}", kind="client",
            start_ns=(at := start + int(attempt.started_ms * _MS)), end_ns=at + int(attempt.duration_ms * _MS),
            attributes=attempt_attributes(record, attempt, is_only=len(called) == 1), error=error_of(attempt),
        )
        for n, attempt in called
    ]  # fmt: skip
    heard = [_heard_span(record, part, trace, own, state) for part in record.heard]
    return [request, *calls, *heard]


def _heard_span(record: RequestRecord, part: HeardSpeech, trace: int, parent: int, state: str) -> Span:
    """Return the span of the speech that a session heard in this turn; its session is in a trace of its own, and linked."""
    attributes: Attributes = {
        names.OPERATION: names.OPERATIONS["stt"],
        names.PROVIDER: names.provider_name(split_model_id(part.model_id)[0]),
        names.REQUEST_MODEL: split_model_id(part.model_id)[1],
        "gw.speech.audio.duration": part.audio_seconds,
        "gw.speech.final_delay": round(part.final_at - part.ended_at, 6),
        "gw.request.id": part.request_id,
    }
    if part.cost_nusd is not None:
        attributes["gw.cost.usd"] = part.cost_nusd / NANO
    return Span(
        trace_id=trace, span_id=_hash(8, "heard", record.id, part.request_id, str(part.ended_at)), parent_id=parent, trace_state=state,
        name=f"{names.OPERATIONS['stt']} {split_model_id(part.model_id)[1]}", kind="internal",
        start_ns=int((part.ended_at - part.audio_seconds) * NANO), end_ns=int(max(part.final_at, part.ended_at) * NANO),
        attributes=attributes, links=((_hash(16, "request", part.request_id), span_id_of(part.request_id)),),
    )  # fmt: skip


def _passed_over(attempt: AttemptRecord, start: int) -> SpanEvent:
    attributes: Attributes = {"gw.model": attempt.model_id, "gw.attempt.outcome": attempt.outcome}
    if attempt.detail:
        attributes["gw.attempt.detail"] = attempt.detail
    return SpanEvent("gw.candidate_passed_over", start + int(attempt.started_ms * _MS), attributes)


def error_of(attempt: AttemptRecord) -> str:
    """Return the code of what went wrong; "" where nothing did."""
    return "" if attempt.outcome in ("ok", "cancelled", "refused") else attempt.error_code or attempt.outcome


def request_attributes(record: RequestRecord) -> Attributes:
    """Return the attributes of a request. What a provider used is on the spans of its calls, so that nothing is counted twice."""
    facts: dict[str, Value | None] = {
        "gw.request.id": record.id,
        "gw.project": record.project,
        "gw.modality": record.modality,
        "gw.status": record.status,
        "gw.requested_model": record.requested_model,
        "gw.model": record.model_id,
        "gw.endpoint": record.endpoint or None,
        "gw.key.id": record.key_id,
        "gw.turn.id": record.turn_id,
        names.CONVERSATION: record.session_id,
        "gw.fallback.from": record.fallback_from,
        names.ERROR_TYPE: record.error_code,
        "gw.time_to_first_byte": _seconds(record.ttfb_ms),
        "gw.overhead": _seconds(record.gateway_ms),
        "gw.wasted.usd": record.wasted_nusd / NANO if record.wasted_nusd else None,
    }
    return _present(facts)


def attempt_attributes(record: RequestRecord, attempt: AttemptRecord, *, is_only: bool) -> Attributes:
    """Return the attributes of a provider's call. The only call has the request's usage, one of several its own part."""
    facts: dict[str, Value | None] = {
        names.OPERATION: names.operation_name(record.modality, record.endpoint),
        names.PROVIDER: names.provider_name(attempt.provider_id),
        names.REQUEST_MODEL: split_model_id(attempt.model_id)[1],
        names.REQUEST_STREAM: record.stream,
        names.OUTPUT_TYPE: names.OUTPUTS[record.modality],
        names.CONVERSATION: record.session_id,
        names.FIRST_CHUNK: _seconds(attempt.ttfb_ms),
        names.ERROR_TYPE: error_of(attempt) or None,
        names.UPSTREAM_STATUS: attempt.upstream_status,
        "gw.attempt.outcome": attempt.outcome,
        "gw.attempt.hedges": attempt.hedges or None,
        "gw.attempt.ignored_settings": list(attempt.ignored_settings) or None,
        "gw.route": attempt.route or None,
        "gw.route.reason": attempt.routing or None,
        "gw.speech.voice": attempt.voice or None,
        "gw.speech.audio.lost": attempt.lost_s,
    }
    cost = record.cost_nusd if is_only else attempt.cost_nusd
    if (usage := usage_of(record, attempt, is_only=is_only)) is not None:
        facts["gw.cost.usd"] = None if cost is None else cost / NANO
        facts["gw.cost.source"] = (record.pricing_source if is_only else attempt.pricing_source) or None
        facts |= _used(record, usage)
    return _present(facts)


def usage_of(record: RequestRecord, attempt: AttemptRecord, *, is_only: bool) -> Usage | None:
    """Return what a call used: as the only one the request's usage, as one of several its own part, None if it has none."""
    if is_only:
        return record.usage
    if not attempt.pricing_source:
        return None
    return Usage(
        input_tokens=attempt.input_tokens, cached_input_tokens=attempt.cached_input_tokens, output_tokens=attempt.output_tokens,
        audio_seconds=attempt.audio_seconds or 0.0, characters=attempt.characters or 0,
    )  # fmt: skip


def _used(record: RequestRecord, usage: Usage) -> dict[str, Value | None]:
    has_tokens = record.modality == "llm" or usage.input_tokens or usage.output_tokens
    return {
        names.INPUT_TOKENS: usage.input_tokens if has_tokens else None,
        names.OUTPUT_TOKENS: usage.output_tokens if has_tokens else None,
        names.CACHE_READ_TOKENS: usage.cached_input_tokens or None,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens or None,
        names.REASONING_TOKENS: usage.reasoning_tokens,
        "gw.speech.audio.duration": usage.audio_seconds or None,
        "gw.speech.characters": usage.characters or None,
    }


def _present(facts: dict[str, Value | None]) -> Attributes:
    return {name: value for name, value in facts.items() if value is not None}


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else seconds_of(milliseconds)


def seconds_of(milliseconds: float) -> float:
    """Return seconds, rounded to microseconds: in a third of the time of `round`."""
    return int(milliseconds * 1_000 + 0.5) / 1_000_000


def digest_of_request(request_id: str) -> bytes:
    """Return the hash of which the ids of a request's spans and of its own trace are parts."""
    return sha256(f"request\0{request_id}".encode()).digest()


def digest_of(*parts: str) -> bytes:
    """Return the hash of which ids are parts."""
    return sha256("\0".join(parts).encode()).digest()


def _hash(size: int, *parts: str) -> int:
    """Return an id of `size` bytes that is never 0."""
    return int.from_bytes(digest_of(*parts)[:size], "big") or 1
