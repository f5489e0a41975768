"""Routes of sessions: the conversations that share an `X-GW-Session`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gw.admin import session_reports
from gw.admin.session_reports import SessionDetail, SessionSummary
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


_report = partial(Route, "GET", lag_s=READ_LAG_S, tag="Reports")

SESSIONS = (
    _report(
        "/v1/sessions", "sessions", "Conversations with their turns, times, interruptions and costs, newest first.", session_list,
        query=(
            limit_field(session_reports.MAX_SESSIONS, session_reports.DEFAULT_SESSIONS, "How many sessions."),
            PROJECT,
            QueryField("trouble", {"enum": list(session_reports.TROUBLES)}, "Only sessions with such a request."),
            QueryField("q", _TEXT, "Only session ids that begin with this."),
            QueryField(
                "sort", {"enum": list(session_reports.ORDERS), "default": session_reports.NEWEST},
                f"A figure, `-` = the largest first; among at most {session_reports.MOST_SORTED:,} sessions.",
            ),
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
