"""Sessions: the conversations that share an `X-GW-Session`, what they cost, and where they were slow or silent.

All figures are counted from the session's records when they are read, so they are exact. A live transcription has its record
when it ends; until then its cost is not part of the session's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import msgspec

from gw.admin import turn_reports
from gw.admin.filtered_lists import FilteredList, orders, page_in_order, turn_filter
from gw.admin.logs import LogRecord, log_record
from gw.admin.request_models import project_filter
from gw.admin.schemas import Ms, Schema, UnixSeconds, Usd, from_attributes, usd
from gw.admin.turn_reports import TurnDetail, TurnSummary
from gw.errors import UnknownNameError
from gw.registry.catalog import Catalog
from gw.store import queries, session_queries
from gw.store.queries import Turn
from gw.store.requests import seconds_and_characters
from gw.store.session_queries import Session, SessionFilter
from gw.store.store import Reader
from gw.types.usage import RequestRecord


class UnknownSessionError(UnknownNameError, code="session_not_found", kind="session"):
    """No request has this session id: none was ever sent with it, or they were deleted after `retention_days`."""


class SessionSummary(Schema):
    """`first_audio_…`: percentiles over the turns that were answered with speech, as each turn reports it. `interruptions`: turns
    whose answer the caller cut off. `errors` and `fallbacks` count requests. `silence_ms`: time between the first and the last word
    in which neither the caller's speech nor an answer was heard; null where no speech is known. `is_cut`: the session has more
    requests than are read, and these figures are those of the first 10,000."""

    session_id: str
    project: str
    first_request_id: str
    timestamp: UnixSeconds
    length_ms: Ms
    turns: int
    requests: int
    first_audio_p50_ms: Ms | None
    first_audio_p95_ms: Ms | None
    first_audio_max_ms: Ms | None
    interruptions: int
    fallbacks: int
    errors: int
    silence_ms: Ms | None
    cost_usd: Usd
    wasted_usd: Usd
    unpriced_requests: int
    is_cut: bool


class SessionDetail(SessionSummary):
    """`conversation`: the turns in order. `others`: requests outside of turns, such as a live transcription of all of them."""

    conversation: list[TurnDetail]
    others: list[LogRecord]


async def one(store: Reader, catalog: Catalog, session_id: str, *, project: str | None = None) -> SessionDetail:
    """Return a session with its turns; of the project that used the id last. Raises UnknownSessionError."""
    result = await store.read_as(_detail, session_queries.session, session_id, project_filter(catalog, project))
    if result is None:
        raise UnknownSessionError(name=session_id)
    return result


def _filter(catalog: Catalog, filters: Mapping[str, str | None], now: float) -> SessionFilter:
    turns = turn_filter(catalog, filters, now)
    return SessionFilter(**msgspec.structs.asdict(turns), id_part=filters.get("q") or None)


def _ordered(sessions: list[Session] | None, order: str, count: int, before: str | None) -> list[SessionSummary] | None:
    """Return the page of sessions after `before`; None = too many. Only the figure is counted for all of them."""
    if sessions is None:
        return None
    figure = partial(_figure, name=order.lstrip("-"))
    return summaries(page_in_order(sessions, figure, _first_id, order=order, count=count, before=before))


def _first_id(session: Session) -> str:
    return session.requests[0].id


def summaries(sessions: list[Session]) -> list[SessionSummary]:
    return [_summary(session, turn_reports.summaries(_turns(session))) for session in sessions]


def _detail(session: Session | None) -> SessionDetail | None:
    if session is None:
        return None
    conversation = [turn_reports.detail(turn) for turn in _turns(session)]
    others = [log_record(record) for record in session.requests if record.turn_id is None]
    return from_attributes(SessionDetail, _summary(session, conversation), conversation=conversation, others=others)


def _turns(session: Session) -> list[Turn]:
    """Return the turns in the order of their beginnings, as `queries.turn` would read each."""
    by_id: dict[str, list[RequestRecord]] = {}
    for record in session.requests:
        if record.turn_id is not None:
            by_id.setdefault(record.turn_id, []).append(record)
    return [
        Turn(turn_id=turn_id, session_id=session.session_id, project=session.project, requests=tuple(records[: queries.MOST_REQUESTS]))
        for turn_id, records in by_id.items()
    ]


def _figure(session: Session, name: str) -> float | None:
    records = session.requests
    match name:
        case "length_ms":
            return round(1_000 * (max(_ended_at(record) for record in records) - records[0].timestamp), 3)
        case "turns":
            return len({record.turn_id for record in records if record.turn_id is not None})
        case "interruptions":
            return len({r.turn_id or r.id for r in records if r.was_interrupted})
        case "fallbacks":
            return sum(record.fell_back for record in records)
        case "errors":
            return sum(record.failed for record in records)
        case "silence_ms":
            return _silence_ms(records)
        case "cost_usd":
            return usd(sum(record.cost_nusd or 0 for record in records))
        case _:
            waits: dict[str, float | None] = _first_audio(turn_reports.summaries(_turns(session)))
            return waits[name]


def _first_audio(turns: Sequence[TurnSummary]) -> dict[str, Any]:
    waits = sorted(turn.first_audio_ms for turn in turns if turn.first_audio_ms is not None)
    shares = {"first_audio_p50_ms": 0.5, "first_audio_p95_ms": 0.95, "first_audio_max_ms": 1.0}
    return {name: percentile(waits, share) for name, share in shares.items()}


def _summary(session: Session, turns: Sequence[TurnSummary]) -> SessionSummary:
    records = session.requests
    counted = ("length_ms", "turns", "interruptions", "fallbacks", "errors", "silence_ms", "cost_usd")
    figures: dict[str, Any] = {name: _figure(session, name) for name in counted}
    return SessionSummary(
        session_id=session.session_id,
        project=session.project,
        first_request_id=records[0].id,
        timestamp=records[0].timestamp,
        requests=len(records),
        wasted_usd=usd(sum(record.wasted_nusd or 0 for record in records)),
        unpriced_requests=sum(record.cost_nusd is None or "unpriced" in record.pricing_source for record in records),
        is_cut=session.is_cut,
        **figures,
        **_first_audio(turns),
    )


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """Return the smallest value that `share` of the values do not exceed; None of no values."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)] if ascending else None


def _ended_at(record: RequestRecord) -> float:
    return record.timestamp + record.total_latency_ms / 1_000


# ---- silence


def _audio_s(record: RequestRecord) -> float:
    return seconds_and_characters(record)[0]


def _silence_ms(records: Sequence[RequestRecord]) -> float | None:
    """Return how long nobody was heard between the first and the last word."""
    heard = sorted([*_caller_speech(records), *_answers(records)])
    if not heard:
        return None
    silence, until = 0.0, heard[0][0]
    for start, end in heard:
        silence += max(0.0, start - until)
        until = max(until, end)
    return round(1_000 * silence, 3)


def _caller_speech(records: Sequence[RequestRecord]) -> list[tuple[float, float]]:
    """Return when the caller spoke: before each recording was sent, and the transcribed parts of live transcriptions."""
    spoken = [(part.ended_at - part.audio_seconds, part.ended_at) for record in records for part in record.heard]
    recordings = (record for record in records if record.modality == "stt" and not record.stream)
    return spoken + [(record.timestamp - _audio_s(record), record.timestamp) for record in recordings]


def _answers(records: Sequence[RequestRecord]) -> list[tuple[float, float]]:
    """Return when answers were played: the sentences of a turn one after another, until the caller cut them off."""
    played: list[tuple[float, float]] = []
    turn_id: str | None = None
    for record in records:
        if record.modality != "tts" or record.ttfb_ms is None:
            continue
        start = record.timestamp + record.ttfb_ms / 1_000
        if played and record.turn_id is not None and record.turn_id == turn_id:
            start = max(start, played[-1][1])
        end = start + _audio_s(record) if _audio_s(record) else max(start, _ended_at(record))
        if record.status == "cancelled":
            end = max(start, min(end, _ended_at(record)))
        played.append((start, end))
        turn_id = record.turn_id
    return played


SESSIONS: FilteredList[SessionFilter, Session, SessionSummary] = FilteredList(
    row="session", default=50, most=200,
    orders=orders(
        "length_ms", "turns", "first_audio_p50_ms", "first_audio_p95_ms", "interruptions", "fallbacks", "errors", "cost_usd", "silence_ms",
    ),
    columns=(
        "session_id", "project", "timestamp", "length_ms", "turns", "requests", "first_audio_p50_ms", "first_audio_p95_ms",
        "first_audio_max_ms", "interruptions", "fallbacks", "errors", "silence_ms", "cost_usd", "wasted_usd", "unpriced_requests",
        "first_request_id",
    ),
    check=_filter, newest=session_queries.newest_sessions, every=session_queries.all_sessions, rows=summaries, in_order=_ordered,
)  # fmt: skip
