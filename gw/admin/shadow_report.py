"""Report of shadow calls: a model beside the second model that got a share of its calls as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from gw.admin.schemas import Ms, Schema, Usd, usd, usd_or_none
from gw.admin.session_reports import percentile
from gw.policy.compared_calls import ComparedCalls, ComparedSide, LeftOut
from gw.types.shadow import CallKind, ShadowSettings


class ComparedModel(Schema):
    """One of the two models, in the calls that are compared. `cost_usd` is null where a price is unknown."""

    model_id: str
    cost_usd: Usd | None
    p50_ms: Ms | None
    p95_ms: Ms | None


class ComparedPair(Schema):
    """A model and its second model, in live sessions or in recordings. `word_error_rate`: words to replace, add or leave out to turn the
    transcript of the first into that of the second, for each word of the first. `cut`: calls of which only the beginning was compared."""

    kind: CallKind
    calls: int
    words: int
    edits: int
    word_error_rate: float | None
    cut: int
    left_out: Mapping[LeftOut, int]
    first: ComparedModel
    second: ComparedModel


class ShadowReport(Schema):
    """Comparisons since the gateway started. `spent_today_usd` and `daily_budget_usd` are those of all second models."""

    pairs: Sequence[ComparedPair]
    running: Annotated[int, Meta(description="Shadow calls now: those that run, and those whose recording is being copied.")]
    spent_today_usd: Usd
    daily_budget_usd: Usd | None


def report(
    settings: ShadowSettings | None, comparisons: Mapping[tuple[str, str, CallKind], ComparedCalls], *, running: int, spent_nusd: int
) -> ShadowReport:
    """Return the report. Without the section `shadow` there is no budget, and there are the comparisons made before it was removed."""
    return ShadowReport(
        pairs=[_pair(key, found) for key, found in sorted(comparisons.items())], running=running, spent_today_usd=usd(spent_nusd),
        daily_budget_usd=None if settings is None else usd(settings.daily_budget_nusd),
    )  # fmt: skip


def _pair(key: tuple[str, str, CallKind], found: ComparedCalls) -> ComparedPair:
    first, second, kind = key
    return ComparedPair(
        kind=kind, calls=found.compared, words=found.words, edits=found.edits,
        word_error_rate=found.edits / found.words if found.words else None, cut=found.cut, left_out=found.left_out,
        first=_model(first, found.first), second=_model(second, found.second),
    )  # fmt: skip


def _model(model_id: str, side: ComparedSide) -> ComparedModel:
    times_ms = sorted(round(1000 * time_s, 1) for time_s in side.times_s)
    cost, p50, p95 = usd_or_none(side.cost_nusd), percentile(times_ms, 0.5), percentile(times_ms, 0.95)
    return ComparedModel(model_id=model_id, cost_usd=cost, p50_ms=p50, p95_ms=p95)

