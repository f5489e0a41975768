"""One attempt of a request: its measurements, and its entry in the request's record."""

from __future__ import annotations

import msgspec

from gw.errors import CandidateSkipped, ProviderError, RateLimitError
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.types.usage import AttemptRecord, Usage


def record_of(attempt: Attempt, *, began: float, now: float, is_only: bool) -> AttemptRecord:
    """Return the attempt's entry in the record of a request that began at `began`.

    It has a part of its own in the cost, unless the attempt is the only one.
    """
    error, started, ready_at = attempt.error, attempt.started, attempt.ready_at
    record = AttemptRecord(
        model_id=attempt.model.id,
        provider=_other_provider(attempt.model),
        outcome=_outcome(attempt),
        started_ms=milliseconds(max(0.0, started - began)),
        duration_ms=milliseconds((now if attempt.ended is None else attempt.ended) - started),
        ttfb_ms=None if ready_at is None else milliseconds(ready_at - started),
        error_code=error.code if error else None,
        upstream_status=None if error is None else getattr(error, "upstream_status", None) or _status(error),
        detail=error.detail if isinstance(error, CandidateSkipped) else "", ignored_settings=attempt.ignored_settings,
        text_characters=attempt.respelled.characters if attempt.respelled is not None and attempt.respelled.is_changed else None,
        cache=attempt.cache, saved_nusd=attempt.saved_nusd, lost_s=attempt.lost_s or None, voice=attempt.voice, hedges=attempt.hedges,
        route="" if attempt.routed is None else attempt.routed.route, routing="" if attempt.routed is None else attempt.routed.reason,
    )
    return record if attempt.cost is None or is_only else _with_part(record, attempt)


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
    return msgspec.structs.replace(
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
