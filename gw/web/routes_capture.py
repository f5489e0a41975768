"""Routes of captured words and sounds. Each reading is written to the audit log before its answer is made."""

from __future__ import annotations

from functools import partial

from gw.admin import captures
from gw.web.reply import NOT_CACHED, Reply
from gw.web.route import LOOKUP_LAG_S, QueryField, Raw, Request, Route

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


async def _sound(request: Request) -> Reply:
    gateway = request.gateway
    data = await captures.sound(request.registrar, gateway.captures, request.name, request.query["from_s"], request.actor)
    return Reply(data, b"audio/wav", [NOT_CACHED])


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
        "GET", "/v1/capture-audio/{record_id}", "capture_audio", "The sound captured of a request, as a WAV.", _sound,
        query=(QueryField("from_s", {"type": "integer", "minimum": 0, "default": 0}, "Begin after so many seconds."),),
        lag_s=LOOKUP_LAG_S, answers=(Raw("audio/wav", {"type": "string", "format": "binary"}),), errors=(404, 422, 500, 503),
        notes="Half an hour at most. Written to the audit log as `read`.",
    ),
    _capture(
        "POST", "/v1/capture-search", "search_capture", "Look for words in what was captured, newest first.",
        lambda r: captures.search(r.registrar, r.gateway.captures, r.body, r.actor), body=captures.SearchCapture,
        answers=(captures.CapturesFound,), errors=(404, 422, 500, 503),
        notes="Takes two seconds at most, and then says with `next` where to go on. Written to the audit log as `read`, without "
              "the words.",
    ),
    _capture(
        "DELETE", "/v1/capture/{capture_id}", "forget_capture", "Delete what was captured of a session, a turn or a request.",
        _forget, query=(_PROJECT, _CONFIRM), lag_s=LOOKUP_LAG_S, answers=(captures.ForgetPreview, captures.Forgotten),
        errors=(404, 422, 503),
    ),
)  # fmt: skip
