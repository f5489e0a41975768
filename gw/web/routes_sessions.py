"""Routes of conversations: sessions, which share an `X-GW-Session`, and their turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gw.admin import session_reports, turn_reports
from gw.admin.filtered_lists import MOST_SORTED, NEWEST
from gw.admin.session_reports import SessionDetail, SessionSummary
from gw.admin.turn_reports import TurnDetail, TurnSummary
from gw.store.group_starts import TROUBLES
from gw.web.reply import Reply
from gw.web.route import READ_LAG_S, QueryField, Request, Route
from gw.web.routes_reports import FILES, FORMAT, PROJECT, TIMES, as_file, limit_field, wanted_rows

_TEXT = {"type": "string"}


async def session_list(request: Request) -> Reply | Sequence[SessionSummary]:
    query = request.query
    if (form := query.pop("format")) is not None:
        query["limit"] = wanted_rows(request)
        return as_file("sessions", form, await session_reports.export(*request.records, form, **query))
    return await session_reports.page(*request.records, **query)


async def turn_list(request: Request) -> Reply | Sequence[TurnSummary]:
    query = request.query
    if (form := query.pop("format")) is not None:
        query["limit"] = wanted_rows(request)
        return as_file("turns", form, await turn_reports.export(*request.records, form, **query))
    return await turn_reports.page(*request.records, **query)


_TROUBLE = QueryField("trouble", {"enum": list(TROUBLES)}, "Only those with such a request.")


def _sort(orders: Sequence[str]) -> QueryField:
    text = f"A figure, `-` = the largest first; among at most {MOST_SORTED:,}."
    return QueryField("sort", {"enum": list(orders), "default": NEWEST}, text)


_report = partial(Route, "GET", lag_s=READ_LAG_S, tag="Reports")

SESSIONS = (
    _report(
        "/v1/sessions", "sessions", "Conversations with their turns, times, interruptions and costs, newest first.", session_list,
        query=(
            limit_field(session_reports.MAX_SESSIONS, session_reports.DEFAULT_SESSIONS, "How many sessions."),
            PROJECT,
            _TROUBLE,
            QueryField("q", _TEXT, "Only session ids that begin with this."),
            _sort(session_reports.ORDERS),
            QueryField("before", _TEXT, "`first_request_id` of the last session of the previous page."),
            *TIMES,
            FORMAT,
        ),
        answers=(list[SessionSummary], *FILES), errors=(404, 422, 503),
        notes="The period is that of a session's first request. A live transcription has its record, and its cost, when it ends.",
    ),
    _report(
        "/v1/sessions/{session_id}", "conversation", "One conversation: its figures, its turns in order, and its other requests.",
        lambda r: session_reports.one(r.gateway.store, r.catalog, r.name, **r.query), query=(PROJECT,), answers=(SessionDetail,),
        errors=(404, 503), notes="Where several projects use the id, the one that used it last.",
    ),
)  # fmt: skip

_dashboard = partial(Route, "GET", lag_s=READ_LAG_S, tag="Dashboard")

TURNS = (
    _dashboard(
        "/api/turns", "turns", "The newest turns of conversations.", turn_list,
        query=(
            limit_field(turn_reports.MAX_TURNS, turn_reports.DEFAULT_TURNS, "How many turns."),
            PROJECT,
            _TROUBLE,
            _sort(turn_reports.ORDERS),
            QueryField("before", _TEXT, "`first_request_id` of the last turn of the previous page."),
            *TIMES,
            FORMAT,
        ),
        answers=(list[TurnSummary], *FILES), errors=(404, 422, 503),
    ),
    _dashboard(
        "/api/turns/{turn_id}", "turn", "One turn: its requests and their attempts on one time line.",
        lambda r: turn_reports.one(r.gateway.store, r.catalog, r.name, **r.query),
        query=(PROJECT, QueryField("session", _TEXT, "The session, if several use the turn id.")),
        answers=(TurnDetail,), errors=(404, 503),
        notes="Where several sessions use the id, the one that used it last.",
    ),
)  # fmt: skip
