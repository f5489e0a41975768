"""Turns of conversations: listen, think and speak on one time line, each with its attempts.

Times of a turn count in ms from the beginning of its first request. A live transcription covers many turns and has one
record, when it ends; its part in a turn is stored with the record of the language model request it led to.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Literal

from gw.admin.filtered_lists import FilteredList, orders, page_in_order, turn_filter
from gw.admin.request_models import project_filter
from gw.admin.schemas import Ms, Schema, UnixSeconds, Usd, from_attributes, usd, usd_or_none
from gw.errors import UnknownNameError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.queries import Turn, TurnFilter
from gw.store.store import Reader
from gw.types.ids import Modality, split_model_id
from gw.types.usage import AttemptRecord, HeardSpeech, RequestRecord, Status


class UnknownTurnError(UnknownNameError, code="turn_not_found", kind="turn"):
    """No request has this turn id: none was ever sent with it, or they were deleted after `retention_days`."""


class TurnSummary(Schema):
    """Times count from the turn's beginning: the end of the caller's speech, else that of the first request.

    `first_audio_ms`: until the first sound of the answer. `interrupted`: the caller left before an answer or its speech was complete.
    """

    turn_id: str
    session_id: str | None
    project: str
    first_request_id: str
    timestamp: UnixSeconds
    duration_ms: Ms
    first_audio_ms: Ms | None
    cost_usd: Usd
    unpriced_requests: int
    errors: int
    fallbacks: int
    interrupted: bool
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

    `shared`: the part of a live transcription of many turns in this one, from the end of the speech to its last final
    transcript; `request_id` is the session's, and `cost_usd` that of the speech.
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


_LEAST_GAP_MS = 0.1  # times are rounded


class TurnGap(Schema):
    """Time before the first sound in which no request of the turn ran, so the app had it.

    `end_of_turn`: after a transcription, when the app waits whether the caller goes on. `app`: anything else that it does.
    """

    kind: Literal["end_of_turn", "app"]
    start_ms: Ms
    duration_ms: Ms


class TurnDetail(TurnSummary):
    """`gaps` and the requests together cover the time until the first sound."""

    stages: list[TurnStage]
    gaps: list[TurnGap]


def _ordered(turns: list[Turn] | None, order: str, count: int, before: str | None) -> list[TurnSummary] | None:
    if turns is None:
        return None
    figure = attrgetter(order.lstrip("-"))
    return page_in_order(summaries(turns), figure, attrgetter("first_request_id"), order=order, count=count, before=before)


async def one(
    store: Reader, catalog: Catalog, turn_id: str, *, project: str | None = None, session: str | None = None
) -> TurnDetail:
    """Return one turn with its stages; the newest where several sessions used the id. Raises UnknownTurnError."""
    only = project_filter(catalog, project)
    turn = await store.read(queries.turn, turn_id, project=only, session_id=session or None)
    if turn is None:
        raise UnknownTurnError(name=turn_id)
    return detail(turn)


def detail(turn: Turn) -> TurnDetail:
    began = _began(turn)
    records = [(_as_record(speech), True) for speech in _speech(turn)] + [(record, False) for record in turn.requests]
    records.sort(key=lambda item: item[0].timestamp)
    stages = [_stage(record, began, shared=shared) for record, shared in records]
    summary = _summary(turn)
    until = summary.duration_ms if summary.first_audio_ms is None else summary.first_audio_ms
    return from_attributes(TurnDetail, summary, stages=stages, gaps=_gaps(stages, until))


def _gaps(stages: list[TurnStage], until_ms: float) -> list[TurnGap]:
    """Return the stretches until then in which no stage ran; `stages` in order of time."""
    gaps: list[TurnGap] = []
    end, last = 0.0, ""
    for stage in stages:
        if stage.start_ms >= until_ms:
            break
        if stage.start_ms > end + _LEAST_GAP_MS:
            kind: Literal["end_of_turn", "app"] = "end_of_turn" if last == "stt" else "app"
            gaps.append(TurnGap(kind=kind, start_ms=round(end, 3), duration_ms=round(stage.start_ms - end, 3)))
        if stage.start_ms + stage.total_ms > end:
            end, last = stage.start_ms + stage.total_ms, stage.modality
    return gaps


def summaries(turns: list[Turn]) -> list[TurnSummary]:
    return [_summary(turn) for turn in turns]


def _speech(turn: Turn) -> list[HeardSpeech]:
    """Return each live transcription's part in the turn."""
    by_session: dict[str, HeardSpeech] = {}
    for record in turn.requests:
        for speech in record.heard:
            before = by_session.get(speech.request_id)
            by_session[speech.request_id] = speech if before is None else before.then(speech)
    return list(by_session.values())


def _began(turn: Turn) -> float:
    return min([turn.requests[0].timestamp, *(speech.ended_at for speech in _speech(turn))])


def _summary(turn: Turn) -> TurnSummary:
    records, speech = turn.requests, _speech(turn)
    began = _began(turn)
    costs = [record.cost_nusd for record in records] + [part.cost_nusd for part in speech]
    audio = [_at(r, began) + r.ttfb_ms for r in records if r.modality == "tts" and r.ttfb_ms is not None]
    models: dict[Modality, str] = {"stt": speech[-1].model_id} if speech else {}
    return TurnSummary(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        project=turn.project,
        first_request_id=records[0].id,
        timestamp=began,
        duration_ms=round(max(_at(r, began) + r.total_latency_ms for r in records), 3),
        first_audio_ms=round(min(audio), 3) if audio else None,
        cost_usd=usd(sum(cost or 0 for cost in costs)),
        unpriced_requests=sum("unpriced" in record.pricing_source for record in records)
        + sum(part.cost_nusd is None for part in speech),
        errors=sum(record.failed for record in records),
        fallbacks=sum(record.fell_back for record in records),
        interrupted=any(record.was_interrupted for record in records),
        requests=len(records),
        models=models | {record.modality: record.model_id for record in records},
    )


def _at(record: RequestRecord, began: float) -> float:
    return round((record.timestamp - began) * 1_000, 3)


def _stage(record: RequestRecord, began: float, *, shared: bool) -> TurnStage:
    start = _at(record, began)
    last = record.attempts[-1] if record.attempts else None
    ended = last.started_ms + last.duration_ms if last else 0.0
    return from_attributes(
        TurnStage,
        record,
        request_id=record.id,
        start_ms=start,
        queue_ms=record.attempts[0].started_ms if record.attempts else record.total_latency_ms,
        total_ms=record.total_latency_ms,
        after_ms=round(max(0.0, record.total_latency_ms - ended), 3),
        cost_usd=usd_or_none(record.cost_nusd),
        attempts=[_bar(attempt, start) for attempt in record.attempts],
        shared=shared,
    )


def _as_record(speech: HeardSpeech) -> RequestRecord:
    """Return a record from the end of the speech to its last final transcript: the speaker's waiting time."""
    took = round((speech.final_at - speech.ended_at) * 1_000, 3)
    attempt = AttemptRecord(model_id=speech.model_id, outcome="ok", started_ms=0.0, duration_ms=took)
    return RequestRecord(
        id=speech.request_id, timestamp=speech.ended_at, project="", modality="stt", model_id=speech.model_id,
        provider=split_model_id(speech.model_id)[0], requested_model="", status="success", total_latency_ms=took,
        ttfb_ms=took, cost_nusd=speech.cost_nusd, attempts=(attempt,),
    )  # fmt: skip


def _bar(attempt: AttemptRecord, start: float) -> AttemptBar:
    wait = attempt.duration_ms if attempt.ttfb_ms is None else attempt.ttfb_ms
    return from_attributes(
        AttemptBar,
        attempt,
        provider=split_model_id(attempt.model_id)[0],
        start_ms=round(start + attempt.started_ms, 3),
        wait_ms=wait,
        stream_ms=round(max(0.0, attempt.duration_ms - wait), 3),
    )


TURNS: FilteredList[TurnFilter, Turn, TurnSummary] = FilteredList(
    row="turn", default=50, most=200, orders=orders("first_audio_ms", "duration_ms", "cost_usd", "errors", "fallbacks"),
    columns=(
        "turn_id", "session_id", "project", "timestamp", "first_audio_ms", "duration_ms", "cost_usd", "unpriced_requests", "errors",
        "fallbacks", "interrupted", "requests", "models", "first_request_id",
    ),
    check=turn_filter, newest=queries.newest_turns, every=queries.all_turns, rows=summaries, in_order=_ordered,
)  # fmt: skip
