"""Routes of conversations: sessions, which share an `X-GW-Session`, and their turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from gw.admin import session_reports, turn_reports
from gw.admin.filtered_lists import NEWEST, FilteredList
from gw.admin.schemas import Schema
from gw.admin.session_reports import SessionDetail, SessionSummary
from gw.admin.turn_reports import TurnDetail, TurnSummary
from gw.store.group_starts import TROUBLES
from gw.web.reply import Reply
from gw.web.route import READ_LAG_S, QueryField, Request, Route
from gw.web.routes_reports import FILES, FORMAT, PROJECT, TIMES, as_file, limit_field, wanted_rows

R = TypeVar("R", bound=Schema)

_TEXT = {"type": "string"}


async def _list(listed: FilteredList[Any, Any, R], request: Request) -> Reply | Sequence[R]:
    query = request.query
    if (form := query.pop("format")) is not None:
        query["limit"] = wanted_rows(request)
        return as_file(f"{listed.row}s", form, await listed.export(*request.records, form, **query))
    return await listed.page(*request.records, **query)


_TROUBLE = QueryField("trouble", {"enum": list(TROUBLES)}, "Only those with such a request.")


def _limit(listed: FilteredList[Any, Any, Any]) -> QueryField:
    return limit_field(listed.most, listed.default, f"How many {listed.row}s.")


def _sort(listed: FilteredList[Any, Any, Any]) -> QueryField:
    text = f"A figure, `-` = the largest first; among at most {listed.most_sorted:,}."
    return QueryField("sort", {"enum": list(listed.orders), "default": NEWEST}, text)


_report = partial(Route, "GET", lag_s=READ_LAG_S, tag="Reports")

SESSIONS = (
    _report(
        "/v1/sessions", "sessions", "Conversations with their turns, times, interruptions and costs, newest first.",
        partial(_list, session_reports.SESSIONS),
        query=(
            _limit(session_reports.SESSIONS),
            PROJECT,
            _TROUBLE,
            QueryField("q", _TEXT, "Only session ids that begin with this."),
            _sort(session_reports.SESSIONS),
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
        "/api/turns", "turns", "The newest turns of conversations.", partial(_list, turn_reports.TURNS),
        query=(
            _limit(turn_reports.TURNS),
            PROJECT,
            _TROUBLE,
            _sort(turn_reports.TURNS),
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
