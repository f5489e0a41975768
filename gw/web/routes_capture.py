"""Routes of captured words and sounds. Each reading is written to the audit log before its answer is made."""

from __future__ import annotations

from functools import partial

from gw.admin import captures
from gw.web.route import LOOKUP_LAG_S, QueryField, Request, Route

_PROJECT = QueryField("project", {"type": "string"}, "Only requests of this project.")
_CONFIRM = QueryField(
    "confirm", {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|0|1)$", "default": "false"},
    "true, false, 1 or 0 in any case. Without it nothing is deleted; the answer says what would be.",
)  # fmt: skip
_capture = partial(Route, tag="Capture")


async def _read(request: Request) -> captures.CapturedSession:
    gateway = request.gateway
    return await captures.read(
        gateway.store, request.registrar, gateway.captures, request.name, request.query["project"], request.actor
    )


async def _forget(request: Request) -> captures.ForgetPreview | captures.Forgotten:
    gateway = request.gateway
    return await captures.forget(
        gateway.store, request.registrar, gateway.captures, request.name, request.query["project"], request.actor,
        confirm=request.flag("confirm"),
    )  # fmt: skip


CAPTURE = (
    _capture(
        "GET", "/v1/capture", "capture_stats", "How much of sessions is stored, and what was left out.",
        lambda r: captures.stats(r.gateway.captures, r.catalog), answers=(captures.CaptureStats,), errors=(503,),
    ),
    _capture(
        "GET", "/v1/capture/{capture_id}", "read_capture", "The words captured of a session, a turn or a request.", _read,
        query=(_PROJECT,), lag_s=LOOKUP_LAG_S, answers=(captures.CapturedSession,), errors=(404, 500, 503),
        notes="Written to the audit log as `read`.",
    ),
    _capture(
        "DELETE", "/v1/capture/{capture_id}", "forget_capture", "Delete what was captured of a session, a turn or a request.",
        _forget, query=(_PROJECT, _CONFIRM), lag_s=LOOKUP_LAG_S, answers=(captures.ForgetPreview, captures.Forgotten),
        errors=(404, 422, 503),
    ),
)  # fmt: skip
