"""One attempt of a request: its measurements, and its entry in the request's record."""

from __future__ import annotations

from msgspec.structs import replace

from gw.errors import CandidateSkipped, ProviderError, RateLimitError
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.types.usage import AttemptRecord, Usage


def record_of(attempt: Attempt, *, began: float, now: float, is_only: bool) -> AttemptRecord:
    """Return the attempt's entry in the record of a request that began at `began`.

    It has a part of its own in the cost, unless the attempt is the only one.
    """
    started, ready_at = attempt.started, attempt.ready_at
    record = AttemptRecord(
        model_id=attempt.model.id,
        provider=_other_provider(attempt.model),
        outcome=_outcome(attempt),
        started_ms=milliseconds(started - began if started > began else 0.0),
        duration_ms=milliseconds((now if attempt.ended is None else attempt.ended) - started),
        ttfb_ms=None if ready_at is None else milliseconds(ready_at - started),
        ignored_settings=attempt.ignored_settings, voice=attempt.voice, hedges=attempt.hedges,
    )  # fmt: skip
    if (error := attempt.error) is not None:
        record = _with_error(record, error)
    if (routed := attempt.routed) is not None:
        record = replace(record, route=routed.route, routing=routed.reason)
    if attempt.cache or attempt.lost_s or attempt.respelled is not None:
        record = _with_speech(record, attempt)
    return record if is_only or attempt.cost is None else _with_part(record, attempt)


def _with_error(record: AttemptRecord, error: ProviderError) -> AttemptRecord:
    status = getattr(error, "upstream_status", None) or _status(error)
    is_own = isinstance(error, CandidateSkipped) or (isinstance(error, RateLimitError) and error.limit_source == "configured")
    detail = error.detail if is_own else ""  # the vendor's words stay out of records
    return replace(record, error_code=error.code, upstream_status=status, detail=detail)


def _with_speech(record: AttemptRecord, attempt: Attempt) -> AttemptRecord:
    """Add what became of the speech: of that which the vendor made, or of that which it was to hear."""
    respelled = attempt.respelled
    return replace(
        record, cache=attempt.cache, saved_nusd=attempt.saved_nusd, lost_s=attempt.lost_s or None,
        text_characters=respelled.characters if respelled is not None and respelled.is_changed else None,
    )  # fmt: skip


def _other_provider(model: Model) -> str:
    """Return the model's provider where its id begins with another one, else ""."""
    provider = model.provider
    return "" if model.id.startswith(provider + "/") else provider


def _with_part(record: AttemptRecord, attempt: Attempt) -> AttemptRecord:
    """Add the vendor's part of the request, which has other parts as well."""
    usage, cost = attempt.usage, attempt.cost
    assert usage is not None
    assert cost is not None
    measured = attempt.measured or usage
    return replace(
        record,
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        audio_seconds=usage.audio_seconds or measured.audio_seconds or None,
        characters=usage.characters or measured.characters or None,
        cost_nusd=cost.nusd,
        pricing_source=cost.source,
        estimated_nusd=attempt.estimated_nusd,
        wasted_nusd=attempt.waste.nusd,
    )


def sent_to(attempts: list[Attempt]) -> Usage:
    """Return the units sent in these upstream calls: what is known of them before an answer."""
    return Usage(
        input_tokens=sum(attempt.estimate.input_tokens for attempt in attempts),
        audio_seconds=sum(attempt.estimate.audio_seconds for attempt in attempts),
        characters=sum(attempt.estimate.characters for attempt in attempts),
        source="estimated",
    )


def _outcome(attempt: Attempt) -> str:
    error = attempt.error
    if error is None:
        if attempt.ready_at is None:
            return "cancelled"
        return "refused" if attempt.refused else "ok"
    return error.reason if isinstance(error, CandidateSkipped) else error.outcome


def _status(error: ProviderError) -> int | None:
    return 429 if isinstance(error, RateLimitError) and error.limit_source == "upstream" else None


def milliseconds(seconds: float) -> float:
    """Return milliseconds cut to whole microseconds; cheaper than round()."""
    return int(seconds * 1_000_000) / 1000
