"""One attempt of a request: its measurements, and its entry in the request's record."""

from __future__ import annotations

from types import NoneType

import msgspec

from gw.errors import CandidateSkipped, ProviderError, RateLimitError, StaleConnection, UpstreamCut, UpstreamSlow
from gw.registry.catalog import Model
from gw.relay.waste import NO_WASTE, Waste
from gw.types.usage import AttemptRecord, Cost, Usage

_NOTHING = Usage(source="estimated")
_MAY_BE_CHARGED = (NoneType, UpstreamSlow, UpstreamCut)


class Attempt(msgspec.Struct, eq=False):
    """Measurements of one attempt. Times are monotonic seconds."""

    model: Model
    started: float
    ready_at: float | None = None
    ended: float | None = None
    error: ProviderError | None = None
    called: bool = False
    """Something was sent to the vendor, or may have been."""
    addons: tuple[str, ...] = ()
    """Options of the request that the vendor bills on top."""
    channels: int = 1
    """Channels of a recording or session that the vendor transcribes, and bills, one by one."""
    refused: bool = False
    """The model refused, in an answer."""
    hedges: bool = False
    estimate: Usage = _NOTHING
    """Units that it is sent, as far as they are known before an answer."""
    ignored_settings: tuple[str, ...] = ()
    """Settings, and later changes of settings, that the vendor did without."""
    voice: str | None = None
    usage: Usage | None = None
    """Units that the vendor may charge for, with their cost and waste; None for a call that costs nothing (`Meter.bill`)."""
    measured: Usage | None = None
    cost: Cost | None = None
    estimated_nusd: int = 0
    waste: Waste = NO_WASTE
    lost_s: float = 0.0

    def may_be_charged(self, *, is_last: bool) -> bool:
        """Return whether the vendor may charge for a call that gave no content.

        The caller did not wait for it, or it was too slow, cut or refused. After a stale connection the same request is
        sent again, so only the last of them counts.
        """
        if not self.called or self.ready_at is not None:
            return False
        charged = isinstance(self.error, _MAY_BE_CHARGED) or self.refused
        return charged or (is_last and isinstance(self.error, StaleConnection))


def record_of(attempt: Attempt, *, began: float, now: float, is_only: bool) -> AttemptRecord:
    """Return the attempt's entry in the record of a request that began at `began`.

    It has a part of its own in the cost, unless the attempt is the only one.
    """
    error, started, ready_at = attempt.error, attempt.started, attempt.ready_at
    record = AttemptRecord(
        model_id=attempt.model.id,
        provider=_other_provider(attempt.model),
        outcome=_outcome(attempt),
        started_ms=milliseconds(started - began),
        duration_ms=milliseconds((now if attempt.ended is None else attempt.ended) - started),
        ttfb_ms=None if ready_at is None else milliseconds(ready_at - started),
        error_code=error.code if error else None,
        upstream_status=None if error is None else getattr(error, "upstream_status", None) or _status(error),
        detail=error.detail if isinstance(error, CandidateSkipped) else "", ignored_settings=attempt.ignored_settings,
        lost_s=attempt.lost_s or None, voice=attempt.voice, hedges=attempt.hedges,
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
