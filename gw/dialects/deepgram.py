"""Deepgram's HTTP API: `POST /v1/listen` for recordings, `POST /v1/speak` and `/v2/speak`.

Where the upstream is Deepgram too, its own answer goes out unchanged. Settings stand in the query.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from gw.dialects import error_bodies
from gw.dialects.http_handler import (
    JSON,
    Dialect,
    Handler,
    HttpExchange,
    answer_headers,
    body_of,
    send_audio,
    upload_limit,
    while_connected,
    whole_transcript,
)
from gw.dialects.request_io import header, send_whole
from gw.dialects.upload import Upload, read_raw_upload
from gw.errors import AllCandidatesFailed, ClientProtocolError, GwError, ProviderError
from gw.types.stt import TranscribeRequest
from gw.types.tts import SpeakRequest
from gw.wire import deepgram_batch, deepgram_listen_server, deepgram_speak


def error_body(error: GwError, request_id: str) -> bytes:
    """The two shapes that Deepgram's readers know in one, and the facts of the error."""
    facts = error.facts()
    facts.pop("what", None)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = error_bodies.attempts_of(error)
    return deepgram_listen_server.error_body(error_bodies.code_of(error), error.message, request_id, **facts)


DIALECT = Dialect(name="deepgram", error_body=error_body, id_headers=(b"x-request-id", b"dg-request-id"))


async def listen(exchange: HttpExchange) -> None:
    async with Upload() as upload:
        content_type = (header(exchange.scope, b"content-type") or b"").decode("latin-1")
        if content_type.partition(";")[0].strip().lower() == "application/json":
            raise ClientProtocolError(what="send the audio itself; fetching it from a URL is not supported", param="url")
        await read_raw_upload(exchange.receive, upload, content_type, limit_bytes=upload_limit(exchange))
        if not upload.size:
            raise ClientProtocolError(what="the body has no audio")
        query: bytes = exchange.scope.get("query_string", b"")
        request = deepgram_batch.parse(query, upload, upload.audio_seconds, upload.format)
        await while_connected(exchange, partial(_transcribe, exchange, request))


async def _transcribe(exchange: HttpExchange, request: TranscribeRequest) -> None:
    async with exchange.gateway.relay.transcribe(request, exchange.caller) as answer:
        transcript = await whole_transcript(answer)
        body = transcript.raw
        if body is None or answer.call.spec.dialect != DIALECT.name:
            id_ = exchange.caller.request_id
            body = deepgram_batch.encode(
                transcript,
                request_id=id_,
                created=datetime.fromtimestamp(answer.meter.timestamp, UTC).isoformat().replace("+00:00", "Z"),
                duration_s=request.audio_seconds,
                sha256=sha256(id_.encode()).hexdigest(),
            )
        await send_whole(exchange.send, 200, JSON, body, answer_headers(exchange, answer))


async def speak(exchange: HttpExchange) -> None:
    request = deepgram_speak.parse_http(exchange.scope.get("query_string", b""), await body_of(exchange))
    await while_connected(exchange, partial(_speak, exchange, request))


async def _speak(exchange: HttpExchange, request: SpeakRequest) -> None:
    async with exchange.gateway.relay.speak(request, exchange.caller) as answer:
        model = answer.call.model.name.encode("ascii", "replace")
        more = [(b"dg-model-name", model), (b"dg-char-count", b"%d" % len(request.text))]
        await send_audio(exchange, answer, more)


ROUTES: dict[tuple[str, str], Handler] = {
    ("POST", "/v1/listen"): listen,
    ("POST", "/v1/speak"): speak,
    ("POST", "/v2/speak"): speak,
}
"""Method and path → handler. The second `speak` is that of Flux, which takes and gives the same."""
