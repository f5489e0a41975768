"""OpenAI's `POST /v1/realtime/client_secrets`: a short-lived token for a browser, with the settings of its realtime sessions.

Source: openai-python 3.52.0, `types/realtime/client_secret_create_params.py` and `client_secret_create_response.py`. The token is
one of `gw.registry.credentials`: it is accepted wherever a key of the data plane is, so a page can chat and speak with it as well.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from gw.dialects.auth import grant
from gw.dialects.exchange import HttpExchange, Routes
from gw.dialects.http_handler import JSON
from gw.dialects.request_io import send_response
from gw.errors import ClientProtocolError, NotOffered
from gw.wire.json_codec import decode_request
from gw.wire.openai_realtime_conversation import RealtimeSession
from gw.wire.openai_realtime_server import RealtimeListenServer

SHORTEST_S, DEFAULT_S, LONGEST_S = 10, 600, 7_200
MAX_SESSION_BYTES = 256_000  # of the settings of one secret


class _ExpiresAfter(msgspec.Struct):
    anchor: Literal["created_at"] = "created_at"
    seconds: int | None = None


class _Request(msgspec.Struct):
    expires_after: _ExpiresAfter | None = None
    session: dict[str, Any] | None = None


_REQUEST = msgspec.json.Decoder(_Request)


async def create(exchange: HttpExchange) -> None:
    """Answer with a secret and the session it opens. Settings that cannot be read are refused here.

    A setting that is not done by the gateway is reported where OpenAI's clients expect it: by an `error` event of the session.
    """
    request = decode_request(_REQUEST, await exchange.body() or b"{}")
    seconds = request.expires_after.seconds if request.expires_after is not None else None
    lifetime_s = DEFAULT_S if seconds is None else seconds
    if not SHORTEST_S <= lifetime_s <= LONGEST_S:
        what = f"seconds must be between {SHORTEST_S} and {LONGEST_S}"
        raise ClientProtocolError(what=what, param="expires_after.seconds")
    settings: dict[str, Any] = {"type": "realtime", **(request.session or {})}
    stored = msgspec.json.encode(settings)
    if len(stored) > MAX_SESSION_BYTES:
        raise ClientProtocolError(what=f"a session has at most {MAX_SESSION_BYTES} bytes of settings", param="session")
    session = _session(settings, exchange.caller.request_id)
    value, expires_at = grant(exchange.gateway, exchange.scope, exchange.caller.project, lifetime_s, session=stored)
    answer = {"value": value, "expires_at": int(expires_at), "session": session}
    await send_response(exchange.send, 200, JSON, msgspec.json.encode(answer), exchange.id_headers)


def _session(settings: dict[str, Any], id_: str) -> dict[str, Any]:
    """Return the session that these settings make. Raises ClientProtocolError."""
    if settings["type"] == "transcription":
        server = RealtimeListenServer(session_id=id_)
        server.update(msgspec.json.encode(settings))
        return server.session()
    model = settings.pop("model", "")
    if not isinstance(model, str):
        raise ClientProtocolError(what="the name of a model is expected", param="session.model")
    session = RealtimeSession(id_, model or "default", "default")
    session.update(settings)
    return session.settings


async def refuse_call(exchange: HttpExchange) -> None:
    """Refuse a call over WebRTC, and what belongs to one."""
    what = "realtime calls (WebRTC and SIP) are not offered: connect to wss://…/v1/realtime, in a browser with a secret of client_secrets"
    raise NotOffered(what=what)


async def refuse_beta(exchange: HttpExchange) -> None:
    """Refuse a token for realtime sessions as they were in their beta, whose events the socket does not speak."""
    raise NotOffered(what="sessions of the realtime beta are not offered: make a secret by POST /v1/realtime/client_secrets")


ROUTES: Routes = {
    ("POST", "/v1/realtime/client_secrets"): create,
    ("POST", "/v1/realtime/sessions"): refuse_beta,
    ("POST", "/v1/realtime/transcription_sessions"): refuse_beta,
    ("POST", "/v1/realtime/calls"): refuse_call,
    **{("POST", f"/v1/realtime/calls/{{call_id}}/{action}"): refuse_call for action in ("accept", "hangup", "refer", "reject")},
}
