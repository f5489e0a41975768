"""The shapes of the dashboard's own reports; see `gw.web.schemas`.

What is drawn comes as lists of equal length, one entry per point in time (`times`, Unix seconds).
"""

from __future__ import annotations

from typing import Literal

from gw.types.ids import Modality
from gw.types.project import BudgetAction, BudgetStatus
from gw.types.usage import Status
from gw.web.schemas import Ms, Percentiles, Schema, Usd, When

Breaker = Literal["closed", "open", "half_open"]
Grain = Literal["hour", "day"]
ShortPeriod = Literal["today", "week", "month"]


class MiddleAndTail(Schema):
    p50: Ms | None
    p95: Ms | None


class DayFigures(Schema):
    requests: int
    errors: int
    fallbacks: int
    cancelled: int
    cost: Usd
    wasted: Usd
    ttfb: MiddleAndTail
    ttfb_by_modality: dict[Modality, MiddleAndTail]


class HourLists(Schema):
    """24 entries each, the current UTC hour last."""

    times: list[int]
    requests: list[int]
    errors: list[int]
    cost: list[float]
    ttfb_p50: list[float | None]


class Mover(Schema):
    """A model's day and the same UTC hours of yesterday, the running hour whole."""

    model: str
    cost: Usd
    cost_yesterday: Usd
    requests: int
    requests_yesterday: int


class BudgetState(Schema):
    """`share` of the daily budget that is spent; null without a budget."""

    project: str
    name: str
    accent: str
    spent: Usd
    daily_budget: Usd
    budget_action: BudgetAction
    budget_status: BudgetStatus
    share: float | None


class Overview(Schema):
    """`yesterday` ends at the same time of day as `today`. `active_requests` are those of all
    projects."""

    total_requests: int
    total_cost_today: Usd
    total_cost_all: Usd
    active_models: int
    providers_configured: int
    requests_today: int
    errors_today: int
    fallbacks_today: int
    cancelled_today: int
    unpriced_today: int
    active_requests: int
    today: DayFigures
    yesterday: DayFigures
    hours: HourLists
    movers: list[Mover]
    budgets: list[BudgetState]


class CountLine(Schema):
    """For `cost` (USD), `requests` and `errors`."""

    name: str
    total: float
    values: list[float]


class TimeLine(Schema):
    """For `ttfb` and `latency`, in ms; null where nothing was measured. `count`: how many were."""

    name: str
    count: list[int]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]


class _Series(Schema):
    period: ShortPeriod
    by: str
    project: str | None
    model: str | None
    grain: Grain
    times: list[int]


class CountSeries(_Series):
    """The line with the largest total first."""

    metric: Literal["cost", "requests", "errors"]
    series: list[CountLine]


class TimeSeries(_Series):
    metric: Literal["ttfb", "latency"]
    series: list[TimeLine]


class HistogramBucket(Schema):
    """`from_ms` <= time < `to_ms`. Edges are the same for every model."""

    from_ms: Ms
    to_ms: Ms
    count: int


class Spread(Schema):
    count: int
    avg_ms: Ms | None
    percentiles: Percentiles
    buckets: list[HistogramBucket]


class ModelHistogram(Schema):
    model: str
    period: ShortPeriod
    project: str | None
    ttfb: Spread
    latency: Spread


class MonthEstimate(Schema):
    """`budget`: daily budget times days of the month, null without one. Four months of five end between `low` and
    `high`."""

    spent: Usd
    expected: Usd
    low: Usd
    high: Usd
    budget: Usd | None
    over_budget: bool


class Forecast(Schema):
    """Of the current UTC month (`YYYY-MM`), of which `day` is the running one. `budgeted`: the projects that have a budget
    together, null without any; `total` has a budget where all who spend have one."""

    month: str
    days: int
    day: int
    project: str | None
    total: MonthEstimate
    budgeted: MonthEstimate | None
    projects: dict[str, MonthEstimate]


class TurnSummary(Schema):
    """Times count from the beginning of the turn's first request. `first_audio_ms`: the first synthesized audio."""

    turn_id: str
    session_id: str | None
    project: str
    first_request_id: str
    timestamp: When
    duration_ms: Ms
    first_audio_ms: Ms | None
    cost_usd: Usd
    unpriced_requests: int
    errors: int
    fallbacks: int
    requests: int
    models: dict[Modality, str]


class AttemptBar(Schema):
    """`wait_ms`: until the first content or the failure; `stream_ms`: from the first content to the end."""

    model_id: str
    provider: str
    outcome: str
    error_code: str | None
    upstream_status: int | None
    start_ms: Ms
    wait_ms: Ms
    stream_ms: Ms


class TurnStage(Schema):
    """One request. `queue_ms`: before its first candidate; `after_ms`: from the last candidate's end to its own.

    `shared`: what a live transcription of many turns did in this one, from the end of the speech to its last final transcript;
    `request_id` is the session's, and `cost_usd` that of the speech.
    """

    request_id: str
    modality: Modality
    model_id: str
    provider: str
    status: Status
    error_code: str | None
    fallback_from: str | None
    start_ms: Ms
    queue_ms: Ms
    ttfb_ms: Ms | None
    total_ms: Ms
    gateway_ms: Ms | None
    after_ms: Ms
    cost_usd: Usd | None
    attempts: list[AttemptBar]
    shared: bool


class Turn(TurnSummary):
    stages: list[TurnStage]


class Bucket(Schema):
    """A provider's `requests_per_minute` and what is left of it."""

    limit: int
    remaining: int | None
    reset_s: float | None


class GateState(Schema):
    breaker: Breaker
    in_flight: int
    bucket: Bucket | None


class LastError(Schema):
    code: str
    timestamp: When


class OutcomeTotals(Schema):
    ok: int
    failed: int
    rate_limited: int
    skipped: int
    cancelled: int


class OutcomeBars(Schema):
    ok: list[int]
    failed: list[int]
    rate_limited: list[int]
    skipped: list[int]
    cancelled: list[int]


class ProviderReliability(GateState):
    """`availability`: share of calls that were answered. `project_gates`: those of keys of a project's own."""

    provider: str
    configured: bool
    enabled: bool
    project_gates: dict[str, GateState]
    last_error: LastError | None
    availability: float | None
    totals: OutcomeTotals
    bars: OutcomeBars


class FallbackMove(Schema, rename={"origin": "from"}):
    """`reason`: how the call of `from` ended."""

    origin: str
    to: str
    reason: str
    count: int


class Reliability(Schema):
    period: ShortPeriod
    grain: Grain
    times: list[int]
    providers: list[ProviderReliability]
    fallbacks: list[FallbackMove]
