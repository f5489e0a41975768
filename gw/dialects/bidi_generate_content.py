"""Google's `BidiGenerateContent`, as clients of Gemini Live speak it: the frames of both sides pass through.

The first frame has the settings of the session, and the model among them; the vendor is dialled then. The protocol has no error frame:
the code and the reason of the close say what went wrong. Each response is admitted and recorded (`gw.relay.conversing`).

Source: google-genai 3.6.1, `live.py`: the address, and the key in the header `x-goog-api-key`; browsers send it in the query (`key`).
"""

from __future__ import annotations

from functools import partial

import trio

from gw.dialects import error_bodies
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession, close_code_of
from gw.errors import GwError, ProviderRejected, Stopping, UnknownModelError, one_error
from gw.relay.conversing import ConversingSession, converses
from gw.types.conversation import ConverseRequest
from gw.wire import gemini_live

_NOT_FOUND = (401, 403, 404)
_VENDORS = ("1007", "1008")
_AT_FAULT = (400, 413, 422, 501)


def _close_code(error: GwError) -> int:
    """Return the vendor's close code: 1007 for what the caller sent, 1008 for an unknown model or a forbidden one, else 1011.

    A quota is 1011 there as well (`gw.wire.gemini_live.error_of_close`). The code with which the vendor itself refused a session stays. A
    gateway that stops says 1012, as in every dialect.
    """
    if isinstance(error, Stopping):
        return close_code_of(error)
    if isinstance(error, ProviderRejected) and error.upstream_code in _VENDORS:
        return int(error.upstream_code)
    status = error_bodies.status_of(error)
    return 1007 if status in _AT_FAULT else 1008 if status in _NOT_FOUND else 1011


DIALECT = SocketDialect(name="gemini", close_code=_close_code)


async def live(version: str, session: WebSocketSession) -> None:
    """Read the settings, dial a vendor, and pass on the frames of both until one closes."""
    await session.accept()
    setup = await session.socket.receive()
    if setup is None:
        return
    request = ConverseRequest(model=gemini_live.model_of(setup), dialect="gemini", version=version, setup=setup)
    _check_model(session, request.model)
    async with session.gateway.relay.converse(request, session.caller) as live:
        session.socket.busy_while(lambda: live.is_busy)
        for frame in live.opening:
            await session.socket.send(frame)
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pass_on, session, live, nursery.cancel_scope)
                while (answer := await live.receive()) is not None:
                    await session.socket.send(answer)
                nursery.cancel_scope.cancel()
    await session.socket.close()


class NoLiveModel(UnknownModelError):
    """A model, or a name, that does not speak this protocol."""

    @property
    def message(self) -> str:
        known = ", ".join(self.available) or "none is configured"
        return f"{self.name} is no model of Gemini Live: name one in setup.model ({known})"


def _check_model(session: WebSocketSession, name: str) -> None:
    """Raise NoLiveModel, or what is wrong with the name itself, unless the model speaks this protocol."""
    catalog = session.gateway.current.catalog
    first, *_ = session.gateway.relay.resolve(name, "llm", session.caller)
    if not converses(catalog.provider(first.provider), first, "gemini"):
        models = catalog.by_modality["llm"].values()
        live = [model.id for model in models if converses(catalog.provider(model.provider), model, "gemini")]
        raise NoLiveModel(name=first.id, available=tuple(live))


async def _pass_on(session: WebSocketSession, live: ConversingSession, scope: trio.CancelScope) -> None:
    while (frame := await session.socket.receive()) is not None:
        await live.send(frame)
    scope.cancel()


SOCKETS: dict[str, SocketHandler] = {
    slash + gemini_live.path(version): partial(live, version) for version in gemini_live.VERSIONS for slash in ("", "/")
}
"""The SDK joins its base URL and the path, so that a base URL which ends in a slash, as the vendor's own does there, makes two."""
