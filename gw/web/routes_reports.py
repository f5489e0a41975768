"""The routes of the dashboard's own reports."""

from __future__ import annotations

from gw.admin import forecast, logs, overview, reliability, series, turn_reports
from gw.admin.arguments import SHORT_PERIODS
from gw.types.ids import MODALITIES
from gw.web.operations import Field, Operation, Raw

_TEXT = {"type": "string"}
PROJECT = Field("project", _TEXT, "Only what belongs to this project.")
_MODEL = Field("model", _TEXT, "Only this model id.")
PERIOD = Field(
    "period",
    {"enum": list(SHORT_PERIODS), "default": "today"},
    "UTC days including today: `week` is 7, `month` 30.",
)
_LOG_FILTERS = (
    Field("modality", {"enum": list(MODALITIES)}, "Only this modality."),
    PROJECT,
    Field("status", {"enum": list(logs.STATUSES)}, "Only this status."),
    _MODEL,
    Field("provider", _TEXT, "Only this provider id."),
    Field("error_code", _TEXT, "Only this error code."),
    Field("session", _TEXT, "Only this session id."),
    Field("turn", _TEXT, "Only this turn id."),
    Field("q", _TEXT, "Only ids that begin so."),
    Field("before", _TEXT, "The id of the last record of the page read before."),
)


def log_fields(most: int, default: int) -> tuple[Field, ...]:
    """The query of a log."""
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return (Field("limit", schema, "How many records, the newest first."), *_LOG_FILTERS)


LOG_FIELDS = log_fields(logs.MAX_RECORDS, logs.DEFAULT_RECORDS)

DASHBOARD_REPORTS = (
    Operation(
        id="overview", method="GET", path="/api/overview", tag="Dashboard",
        what="The first page: today beside yesterday until the same time, the last 24 hours, every budget.",
        query=(PROJECT,), answers=(overview.Overview,), errors=(404, 422, 503),
    ),
    Operation(
        id="series", method="GET", path="/api/series", tag="Dashboard",
        what="A figure over time, split by provider, model, project or modality: a point per UTC hour or day.",
        query=(
            Field("metric", {"enum": list(series.METRICS), "default": "requests"}, "What is drawn."),
            PERIOD,
            Field("by", {"enum": list(series.SPLITS), "default": "none"}, "What a line stands for."),
            PROJECT,
            _MODEL,
        ),
        answers=(series.CountSeries, series.TimeSeries), errors=(404, 422, 503),
    ),
    Operation(
        id="histogram", method="GET", path="/api/histogram", tag="Dashboard",
        what="How one model's times are spread; `model` is needed.", query=(_MODEL, PERIOD, PROJECT),
        answers=(series.ModelHistogram,), errors=(404, 422, 503),
    ),
    Operation(
        id="forecast", method="GET", path="/api/forecast", tag="Dashboard",
        what="What the UTC month will have cost, per project and in all, beside the budgets.", query=(PROJECT,),
        answers=(forecast.Forecast,), errors=(404, 422, 503),
        more="Each coming day is expected to be the mean of the same weekdays of the last four weeks.",
    ),
    Operation(
        id="reliability", method="GET", path="/api/reliability", tag="Dashboard",
        what="How the calls of each provider ended, its breaker and bucket now, and where requests went on.",
        query=(PERIOD,), answers=(reliability.Reliability,), errors=(422, 503),
        more="One bar per UTC hour, for `month` per day.",
    ),
    Operation(
        id="turns", method="GET", path="/api/turns", tag="Dashboard", what="The newest turns of conversations.",
        query=(
            Field(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": turn_reports.MAX_TURNS, "default": turn_reports.DEFAULT_TURNS},
                "How many turns, the newest first.",
            ),
            PROJECT,
            Field("before", _TEXT, "`first_request_id` of the last turn of the page read before."),
        ),
        answers=(list[turn_reports.TurnSummary],), errors=(404, 422, 503),
    ),
    Operation(
        id="turn", method="GET", path="/api/turns/{turn_id}", tag="Dashboard",
        what="One turn: its requests and their attempts on one time line.",
        query=(PROJECT, Field("session", _TEXT, "Where several sessions use the turn id: this one.")),
        answers=(turn_reports.TurnDetail,), errors=(404, 503),
        more="Where several sessions use the id, the one that used it last.",
    ),
    Operation(
        id="logs_csv", method="GET", path="/api/logs.csv", tag="Dashboard",
        what="The log as CSV for spreadsheets; what they would run as a formula has a quote before it.",
        query=log_fields(logs.MAX_EXPORT, logs.DEFAULT_EXPORT),
        answers=(Raw("text/csv", {"type": "string"}),), errors=(404, 422, 503),
    ),
)  # fmt: skip
