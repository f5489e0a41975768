"""AssemblyAI's API: `POST /v2/upload`, `/v2/transcript` and what is below it for recordings, `WS /v3/ws`.

The vendor's clients upload, ask for a transcript and poll for it, or have their webhook called. Uploads and transcripts are
kept for an hour; the work itself is an ordinary request, started when the transcript is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import ClassVar

import trio

from gw.dialects import error_bodies, live_transcription
from gw.dialects.assemblyai_jobs import Jobs, TranscriptJob
from gw.dialects.exchange import Dialect, HttpExchange, Routes
from gw.dialects.http_handler import JSON, read_audio
from gw.dialects.request_io import header, raw_path, send_response
from gw.dialects.upload import Upload
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError
from gw.wire import assemblyai_exports, assemblyai_stream
from gw.wire.json_frames import Frame
from gw.wire.query import query_pairs

_EXPORTS = ("srt", "vtt", "sentences", "paragraphs", "word-search")

error_body = partial(error_bodies.body_by, error_bodies.bare(assemblyai_stream.error_body))
DIALECT = Dialect(name="assemblyai", error_body=error_body)


class _UnknownTranscript(ClientProtocolError):
    status: ClassVar[int] = 404
    code: ClassVar[str] = "transcript_not_found"


def routes(jobs: Jobs) -> Routes:
    async def upload(exchange: HttpExchange) -> None:
        await jobs.check_room(exchange.caller.project)
        spool = Upload()
        try:
            await read_audio(exchange, spool)
            url = await jobs.store(spool, exchange.caller.project)
        except BaseException:
            await spool.__aexit__(None, None, None)
            raise
        await _send(exchange, assemblyai_stream.encode_upload(url))

    async def start(exchange: HttpExchange) -> None:
        await _send(exchange, await jobs.start(exchange, await exchange.body()))

    async def found(exchange: HttpExchange) -> tuple[str, TranscriptJob]:
        id_ = exchange.scope["path_params"]["id"]
        job = await jobs.get(id_, exchange.caller.project)
        if job is None:
            raise _UnknownTranscript(what="no transcript has this id, or it was forgotten after an hour")
        return id_, job

    async def poll(exchange: HttpExchange) -> None:
        await _send(exchange, (await found(exchange))[1].body)

    async def delete(exchange: HttpExchange) -> None:
        await _send(exchange, await jobs.delete(*await found(exchange)))

    async def listed(exchange: HttpExchange) -> None:
        host = (header(exchange.scope, b"host") or b"").decode("latin-1")
        path = f"{exchange.scope.get('scheme', 'http')}://{host}{raw_path(exchange.scope).decode('latin-1')}"
        await _send(exchange, assemblyai_exports.page(await jobs.of(exchange.caller.project), _fields(exchange), path))

    async def export(kind: str, exchange: HttpExchange) -> None:
        body, content_type = assemblyai_exports.export((await found(exchange))[1].body, kind, _fields(exchange))
        await send_response(exchange.send, 200, content_type.encode(), body, exchange.id_headers)

    return {
        ("POST", "/v2/upload"): upload,
        ("POST", "/v2/transcript"): start,
        ("GET", "/v2/transcript"): listed,
        ("GET", "/v2/transcript/{id}"): poll,
        ("DELETE", "/v2/transcript/{id}"): delete,
        **{("GET", f"/v2/transcript/{{id}}/{kind}"): partial(export, kind) for kind in _EXPORTS},
    }


def _fields(exchange: HttpExchange) -> dict[str, str]:
    return dict(query_pairs(exchange.query))


def _send(exchange: HttpExchange, body: bytes) -> Awaitable[None]:
    return send_response(exchange.send, 200, JSON, body, exchange.id_headers)


# ---- WebSocket


_MAX_SESSION_S = 3 * 3_600  # the vendor's limit
_CLOSE_CODES = {401: 1008, 402: 4002, 429: 3009}


def _close_code(error: GwError) -> int:
    """Return the vendor's close code: 3005 for a failure of the server, 3006 for a malformed frame."""
    status = error_bodies.status_of(error)
    return _CLOSE_CODES.get(status, 3005 if status >= 500 else 3006)


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    return [assemblyai_stream.error_frame(_close_code(error), error.message)]


SOCKET_DIALECT = SocketDialect(name="assemblyai", error_body=error_body, error_frames=_error_frames, close_code=_close_code)


def listen(session: WebSocketSession) -> Awaitable[None]:
    """Serve `WS /v3/ws`. The vendor's own client waits one second for the handshake: it is answered before a provider is dialled."""
    options = assemblyai_stream.parse_query(session.scope.get("query_string", b""))
    started = trio.current_time()
    server = assemblyai_stream.AssemblyListenServer(
        options, session_id=session.caller.request_id, expires_at=int(session.gateway.clock.now()) + _MAX_SESSION_S,
        elapsed_s=lambda: trio.current_time() - started
    )  # fmt: skip
    return live_transcription.listen(session, options.request, server)


SOCKETS: dict[str, SocketHandler] = {"/v3/ws": listen}
