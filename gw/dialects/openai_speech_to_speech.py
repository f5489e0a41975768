"""A realtime conversation with a model that hears and speaks itself: the frames of both sides pass through.

Each response is admitted and recorded (`gw.relay.conversing`). A `response.create` against which a limit stands is answered with
an error event; a response that the vendor begins by itself at the end of a turn is cancelled then, and the session ends.
"""

from __future__ import annotations

from typing import Any

import trio

from gw.dialects import error_bodies
from gw.dialects.websocket import WebSocketSession
from gw.errors import (
    AllCandidatesFailed,
    ClientProtocolError,
    GwError,
    ProviderError,
    UnknownNameError,
    one_error,
)
from gw.relay.conversing import ConversingSession, converses
from gw.types.conversation import ConversationDialect, ConverseRequest
from gw.wire.json_frames import frame_text, typed_frame
from gw.wire.openai_realtime_events import read_client_event
from gw.wire.openai_realtime_server import EventFrames

_BETA = b"openai-beta"
_PROTOCOLS: tuple[ConversationDialect, ...] = ("openai", "gemini")


def other_model(session: WebSocketSession, model: str) -> str | None:
    """Return the first candidate that does not hear and speak itself, for when all those that do have failed; None for none."""
    catalog = session.gateway.current.catalog
    models = session.gateway.relay.resolve(model, "llm", session.caller)
    return next((each.id for each in models if not converses(catalog.provider(each.provider), each)), None)


def protocol_of_vendor(session: WebSocketSession, model: str) -> ConversationDialect | None:
    """Return the protocol of the model that a caller names, if it is one of the gateway's, and hears and speaks itself."""
    catalog = session.gateway.current.catalog
    if not model or model in catalog.stacks:
        return None
    try:
        first, *_ = session.gateway.relay.resolve(model, "llm", session.caller)
    except UnknownNameError:
        return None  # three models hold the conversation, whatever its name
    if catalog.find(first.id, "llm") is None:
        return None
    provider = catalog.provider(first.provider)
    return next((each for each in _PROTOCOLS if converses(provider, first, each)), None)


async def pass_through(session: WebSocketSession, model: str, settings: dict[str, Any]) -> bool:
    """Hold the conversation; return False where no such model could be reached and another candidate has to hold it.

    `settings`: those of the client secret that opened it.
    """
    headers = tuple((name, value) for name, value in session.scope["headers"] if name == _BETA)
    request = ConverseRequest(model=model, headers=headers)
    began = False
    try:
        async with session.gateway.relay.converse(request, session.caller) as live:
            began = True
            session.socket.busy_while(lambda: live.is_busy)
            for frame in live.opening:
                await session.socket.send(frame)
            if settings:
                await live.send(typed_frame("session.update", session=settings))
            await _exchange(session, live)
    except (ProviderError, AllCandidatesFailed):
        if began or other_model(session, model) is None:
            raise
        return False
    await session.socket.close()
    return True


async def _exchange(session: WebSocketSession, live: ConversingSession) -> None:
    with one_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pass_on, session, live, nursery.cancel_scope)
            nursery.start_soon(live.keep_reserved)
            while (frame := await live.receive()) is not None:
                await session.socket.send(frame)
            nursery.cancel_scope.cancel()


async def _pass_on(session: WebSocketSession, live: ConversingSession, scope: trio.CancelScope) -> None:
    """Pass on the client's frames until it leaves. One that cannot be is answered with an error event; the session goes on."""
    events = EventFrames(session.caller.request_id)
    while (frame := await session.socket.receive()) is not None:
        text = frame_text(frame)
        try:
            await live.send(text)
        except GwError as error:
            await session.socket.send(error_event(events, text, error))
    scope.cancel()


def error_event(events: EventFrames, frame: str, error: GwError) -> str:
    """Return the answer to a client's event that could not be passed on."""
    try:
        event_id = read_client_event(frame).event_id
    except ClientProtocolError:
        event_id = None
    if isinstance(error, ClientProtocolError):
        return events.refusal(error, event_id)
    kind = "server_error" if error_bodies.status_of(error) >= 500 else "invalid_request_error"
    code = error_bodies.spoken_code(error, error_bodies.OPENAI_CODES)
    return events.error(type=kind, code=code, message=error.message, event_id=event_id)
