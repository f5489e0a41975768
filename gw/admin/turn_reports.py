"""Turns of conversations: listen, think, speak on one time line, each with its attempts.

Times of a turn count in ms from the beginning of its first request. A live transcription hears many turns and has one
record, when it ends; what it did in a turn stands on the record of the language model that was asked with its words.
"""

from __future__ import annotations

from operator import itemgetter
from typing import ClassVar

from gw.admin.reports import Json, known_project, limit_of, usd
from gw.errors import RequestError, UnknownNameError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.queries import NoSuchRecord
from gw.store.store import Reader
from gw.store.turn_queries import Turn
from gw.types.ids import split_model_id
from gw.types.usage import AttemptRecord, HeardSpeech, RequestRecord

TURNS_DEFAULT, TURNS_MOST = 50, 200


class UnknownTurnError(UnknownNameError):
    """No request has this turn id: none was ever sent with it, or they were forgotten after `retention_days`."""

    code: ClassVar[str] = "turn_not_found"
    kind: ClassVar[str] = "turn"


async def page(
    store: Reader,
    catalog: Catalog,
    *,
    limit: str | int = TURNS_DEFAULT,
    before: str | None = None,
    project: str | None = None,
) -> list[Json]:
    """The newest turns. `before` is `first_request_id` of the last turn of the page that was read before."""
    count, only = limit_of(limit, TURNS_MOST), known_project(catalog, project)
    try:
        return await store.show(_summaries, queries.newest_turns, count, before or None, only)
    except NoSuchRecord:
        raise RequestError(what="before must be the id of a turn's first request", param="before") from None


async def one(
    store: Reader, catalog: Catalog, turn_id: str, *, project: str | None = None, session: str | None = None
) -> Json:
    """One turn with its waterfall. Where several sessions used the id: the last one. Raises UnknownTurnError."""
    only = known_project(catalog, project)
    turn = await store.read(queries.turn, turn_id, project=only, session_id=session or None)
    if turn is None:
        raise UnknownTurnError(name=turn_id)
    began = _began(turn)
    stages = [(heard.ended_at, _heard_stage(heard, began)) for heard in _heard(turn)]
    stages += [(record.timestamp, _stage(record, began)) for record in turn.requests]
    return {**_summary(turn), "stages": [stage for _, stage in sorted(stages, key=itemgetter(0))]}


def _summaries(turns: list[Turn]) -> list[Json]:
    return [_summary(turn) for turn in turns]


def _heard(turn: Turn) -> list[HeardSpeech]:
    """Of each live session what it did in the turn, its speech added up."""
    found: dict[str, HeardSpeech] = {}
    for record in turn.requests:
        for heard in record.heard:
            before = found.get(heard.request_id)
            found[heard.request_id] = heard if before is None else before.then(heard)
    return list(found.values())


def _began(turn: Turn) -> float:
    return min([turn.requests[0].timestamp, *(heard.ended_at for heard in _heard(turn))])


def _summary(turn: Turn) -> Json:
    records, heard = turn.requests, _heard(turn)
    began = _began(turn)
    costs = [record.cost_nusd for record in records] + [one.cost_nusd for one in heard]
    spoken = [_at(r, began) + r.ttfb_ms for r in records if r.modality == "tts" and r.ttfb_ms is not None]
    return {
        "turn_id": turn.turn_id,
        "session_id": turn.session_id,
        "project": turn.project,
        "first_request_id": records[0].id,
        "timestamp": began,
        "duration_ms": round(max(_at(r, began) + r.total_latency_ms for r in records), 3),
        "first_audio_ms": round(min(spoken), 3) if spoken else None,
        "cost_usd": usd(sum(cost or 0 for cost in costs)),
        "unpriced_requests": costs.count(None),
        "errors": sum(record.status == "error" for record in records),
        "fallbacks": sum(record.status == "fallback" for record in records),
        "requests": len(records),
        "models": ({"stt": heard[-1].model_id} if heard else {}) | {record.modality: record.model_id for record in records},
    }


def _at(record: RequestRecord, began: float) -> float:
    return round((record.timestamp - began) * 1_000, 3)


def _stage(record: RequestRecord, began: float) -> Json:
    """`queue_ms`: before the first candidate; `after_ms`: from the last one's end to the request's."""
    start = _at(record, began)
    last = record.attempts[-1] if record.attempts else None
    ended = last.started_ms + last.duration_ms if last else 0.0
    return {
        "request_id": record.id,
        "modality": record.modality,
        "model_id": record.model_id,
        "provider": record.provider,
        "status": record.status,
        "error_code": record.error_code,
        "fallback_from": record.fallback_from,
        "start_ms": start,
        "queue_ms": record.attempts[0].started_ms if record.attempts else record.total_latency_ms,
        "ttfb_ms": record.ttfb_ms,
        "total_ms": record.total_latency_ms,
        "gateway_ms": record.gateway_ms,
        "after_ms": round(max(0.0, record.total_latency_ms - ended), 3),
        "cost_usd": None if record.cost_nusd is None else usd(record.cost_nusd),
        "attempts": [_bar(attempt, start) for attempt in record.attempts],
        "shared": False,
    }


def _heard_stage(heard: HeardSpeech, began: float) -> Json:
    """From the end of the speech to its last final transcript: what the speaker waited for."""
    provider = split_model_id(heard.model_id)[0]
    start, took = round((heard.ended_at - began) * 1_000, 3), round((heard.final_at - heard.ended_at) * 1_000, 3)
    bar = {"start_ms": start, "wait_ms": took, "stream_ms": 0.0, "outcome": "ok", "error_code": None, "upstream_status": None}
    return {
        "request_id": heard.request_id,
        "modality": "stt",
        "model_id": heard.model_id,
        "provider": provider,
        "status": "success",
        "error_code": None,
        "fallback_from": None,
        "start_ms": start,
        "queue_ms": 0.0,
        "ttfb_ms": took,
        "total_ms": took,
        "gateway_ms": None,
        "after_ms": 0.0,
        "cost_usd": None if heard.cost_nusd is None else usd(heard.cost_nusd),
        "attempts": [{"model_id": heard.model_id, "provider": provider, **bar}],
        "shared": True,
    }


def _bar(attempt: AttemptRecord, start: float) -> Json:
    """`wait_ms`: connecting and waiting for the first content, or for the failure; `stream_ms`: from it to the end."""
    wait = attempt.duration_ms if attempt.ttfb_ms is None else attempt.ttfb_ms
    return {
        "model_id": attempt.model_id,
        "provider": split_model_id(attempt.model_id)[0],
        "outcome": attempt.outcome,
        "error_code": attempt.error_code,
        "upstream_status": attempt.upstream_status,
        "start_ms": round(start + attempt.started_ms, 3),
        "wait_ms": wait,
        "stream_ms": round(max(0.0, attempt.duration_ms - wait), 3),
    }
