"""Deepgram's HTTP API: `POST /v1/listen` for recordings, `POST /v1/speak` and `/v2/speak`.

If the upstream is Deepgram too, its own answer goes out unchanged. Settings are in the query.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from gw.dialects import error_bodies
from gw.dialects.http_handler import Dialect, HttpExchange, Routes, answer_speech, answer_transcript, read_audio
from gw.dialects.request_io import Headers, header
from gw.dialects.upload import Upload
from gw.errors import ClientProtocolError
from gw.relay.relay import SpeakAnswer, TranscribeAnswer
from gw.types.stt import Transcript
from gw.wire import deepgram_batch, deepgram_listen, deepgram_speak

error_body = partial(error_bodies.body_by, deepgram_listen.error_body)
DIALECT = Dialect(name="deepgram", error_body=error_body, id_headers=(b"x-request-id", b"dg-request-id"))


async def listen(exchange: HttpExchange) -> None:
    async with Upload() as upload:
        content_type = (header(exchange.scope, b"content-type") or b"").decode("latin-1")
        if content_type.partition(";")[0].strip().lower() == "application/json":
            raise ClientProtocolError(what="send the audio itself; fetching it from a URL is not supported", param="url")
        await read_audio(exchange, upload)
        request = deepgram_batch.parse(exchange.query, upload, upload.audio_seconds, upload.format)

        def encode(transcript: Transcript, answer: TranscribeAnswer) -> tuple[bytes, str]:
            id_ = exchange.caller.request_id
            created = datetime.fromtimestamp(answer.meter.timestamp, UTC).isoformat().replace("+00:00", "Z")
            body = deepgram_batch.encode(
                transcript, request_id=id_, created=created, duration_s=request.audio_seconds,
                sha256=sha256(id_.encode()).hexdigest(),
            )
            return body, "application/json"

        await answer_transcript(exchange, request, encode)


async def speak(exchange: HttpExchange) -> None:
    request = deepgram_speak.parse_http(exchange.query, await exchange.body())

    def headers(answer: SpeakAnswer) -> Headers:
        model = answer.call.model.name.encode("ascii", "replace")
        return [(b"dg-model-name", model), (b"dg-char-count", b"%d" % len(request.text))]

    await answer_speech(exchange, request, headers)


ROUTES: Routes = {
    ("POST", "/v1/listen"): listen,
    ("POST", "/v1/speak"): speak,
    ("POST", "/v2/speak"): speak,
}
"""The second `speak` is that of Flux, with the same requests and answers."""
