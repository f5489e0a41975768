"""AssemblyAI's API: `POST /v2/upload`, `POST /v2/transcript` and `GET /v2/transcript/{id}` for recordings, `WS /v3/ws`.

The vendor's clients upload, ask for a transcript and poll for it. Uploads and transcripts are kept in memory for an hour, a
bounded number of them; the work itself is an ordinary request, started when the transcript is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import attrs
import trio

from gw.dialects import error_bodies, live_transcription
from gw.dialects.http_handler import JSON, Dialect, HttpExchange, Routes, read_audio, read_transcript
from gw.dialects.remote_recording import by_url
from gw.dialects.request_io import send_response
from gw.dialects.upload import Upload
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError, Overloaded
from gw.telemetry.clock import RequestIds
from gw.types.ids import Caller
from gw.types.stt import TranscribeRequest, Transcript
from gw.wire import assemblyai_stream
from gw.wire.assemblyai_stream import TranscriptOptions
from gw.wire.json_frames import Frame

LIFETIME_S = 3_600.0
MAX_UPLOADS = 64
MAX_JOBS = 1_024
_URL_PREFIX = "gw-upload:"  # scheme of an upload's URL; nothing else can be transcribed

error_body = partial(error_bodies.body_by, error_bodies.bare(assemblyai_stream.error_body))
DIALECT = Dialect(name="assemblyai", error_body=error_body)


@attrs.define
class _StoredUpload:
    upload: Upload
    project: str
    expires_at: float


@attrs.define
class _Job:
    caller: Caller
    request: TranscribeRequest
    audio_url: str
    expires_at: float
    transcript: Transcript | None = None
    native: bytes | None = None
    """The vendor's own answer, under our id."""
    error: str = ""


class Jobs:
    """Uploads and transcripts of one data plane. `run` owns the work and must run beside it.

    Status of a transcript:  processing -- `transcript` is set --> completed
                             processing -- `error` is set -->      error
    """

    def __init__(self, ids: RequestIds) -> None:
        self._ids = ids
        self._uploads: dict[str, _StoredUpload] = {}
        self._jobs: dict[str, _Job] = {}
        self._send_job, self._receive_job = trio.open_memory_channel[tuple[str, HttpExchange]](MAX_JOBS)

    async def run(self) -> None:
        """Transcribe until cancelled; no upload outlives this."""
        try:
            async with trio.open_nursery() as nursery:
                async for id_, exchange in self._receive_job:
                    nursery.start_soon(self._work, id_, exchange)
        finally:
            for stored in self._uploads.values():
                await stored.upload.__aexit__(None, None, None)  # closes a file without blocking

    async def store(self, upload: Upload, project: str) -> str:
        """Keep an upload and return its URL. Raises Overloaded when there are too many."""
        await self._forget()
        if len(self._uploads) >= MAX_UPLOADS:
            raise Overloaded(what=f"{MAX_UPLOADS} uploads wait for their transcripts already", retry_after_s=30.0)
        id_ = self._ids.new()
        self._uploads[id_] = _StoredUpload(upload, project, trio.current_time() + LIFETIME_S)
        return _URL_PREFIX + id_

    async def start(self, exchange: HttpExchange, body: bytes) -> tuple[str, _Job]:
        """Start a transcript. Raises ClientProtocolError, Overloaded, and what a check of the model's name raises."""
        options, other_members = assemblyai_stream.parse_job(body)
        own = None if options.audio_url.startswith(_URL_PREFIX) else Upload()
        try:
            upload = self._upload_at(options.audio_url, exchange.caller.project) if own is None else own
            request = _request(exchange, options, other_members, upload, None if own is None else options.audio_url)
            exchange.gateway.relay.resolve(request.model, "stt", exchange.caller)
            exchange.gateway.relay.refuse_unsupported(request, exchange.caller)
            if len(self._jobs) >= MAX_JOBS:
                raise Overloaded(what=f"{MAX_JOBS} transcripts are held already", retry_after_s=30.0)
        except BaseException:
            if own is not None:
                await own.__aexit__(None, None, None)
            raise
        job_id = exchange.caller.request_id
        job = _Job(exchange.caller, request, options.audio_url, trio.current_time() + LIFETIME_S)
        self._jobs[job_id] = job
        self._send_job.send_nowait((job_id, exchange))
        return job_id, job

    def _upload_at(self, url: str, project: str) -> Upload:
        """Return an upload by its address. Raises ClientProtocolError."""
        stored = self._uploads.get(url.removeprefix(_URL_PREFIX))
        if stored is None or stored.project != project:
            what = "audio_url must be the address of a recording, or of an upload made here within the last hour"
            raise ClientProtocolError(what=what, param="audio_url")
        return stored.upload

    def get(self, id_: str, project: str) -> _Job | None:
        job = self._jobs.get(id_)
        return job if job is not None and job.caller.project == project else None

    async def _work(self, id_: str, exchange: HttpExchange) -> None:
        job = self._jobs[id_]
        try:
            async with exchange.gateway.relay.transcribe(job.request, job.caller) as answer:
                transcript = await read_transcript(answer)
                if answer.call.spec.dialect == DIALECT.name and transcript.raw is not None:
                    job.native = assemblyai_stream.with_id(transcript.raw, id_, job.audio_url)
                job.transcript = transcript
        except GwError as error:
            job.error = error.message
        except OSError as error:  # the spool
            job.error = f"the upload cannot be read: {error.strerror}"
        finally:
            if job.request.url and isinstance(job.request.audio, Upload):  # its own, not one that others may use
                await job.request.audio.__aexit__(None, None, None)

    async def _forget(self) -> None:
        now = trio.current_time()
        for id_ in [id_ for id_, stored in self._uploads.items() if stored.expires_at < now]:
            await self._uploads.pop(id_).upload.__aexit__(None, None, None)
        for id_ in [id_ for id_, job in self._jobs.items() if job.expires_at < now]:
            del self._jobs[id_]


def _request(
    exchange: HttpExchange, options: TranscriptOptions, members: tuple[tuple[str, str], ...], upload: Upload, url: str | None
) -> TranscribeRequest:
    """Build the request. `url`: the recording's address, if it is not one of ours."""

    def parse() -> TranscribeRequest:
        return TranscribeRequest(
            model=(options.speech_models or [options.speech_model or ""])[0], audio=upload, format=upload.format,
            audio_seconds=upload.audio_seconds, timestamps=frozenset({"word"}), fields=members, dialect=DIALECT.name,
            **options.common(members),
        )

    return by_url(exchange.gateway, url, "audio_url", upload, parse) if url is not None else parse()


class _UnknownTranscript(ClientProtocolError):
    status: ClassVar[int] = 404
    code: ClassVar[str] = "transcript_not_found"


def routes(jobs: Jobs) -> Routes:
    async def upload(exchange: HttpExchange) -> None:
        spool = Upload()
        try:
            await read_audio(exchange, spool)
            url = await jobs.store(spool, exchange.caller.project)
        except BaseException:
            await spool.__aexit__(None, None, None)
            raise
        await send_response(exchange.send, 200, JSON, assemblyai_stream.encode_upload(url), exchange.id_headers)

    async def start(exchange: HttpExchange) -> None:
        id_, job = await jobs.start(exchange, await exchange.body())
        await _send_job(exchange, id_, job)

    async def poll(exchange: HttpExchange) -> None:
        id_ = exchange.scope["path_params"]["id"]
        job = jobs.get(id_, exchange.caller.project)
        if job is None:
            raise _UnknownTranscript(what="no transcript has this id, or it was forgotten after an hour")
        await _send_job(exchange, id_, job)

    return {
        ("POST", "/v2/upload"): upload,
        ("POST", "/v2/transcript"): start,
        ("GET", "/v2/transcript/{id}"): poll,
    }


async def _send_job(exchange: HttpExchange, id_: str, job: _Job) -> None:
    if job.error:
        body = assemblyai_stream.encode_job(id_, "error", audio_url=job.audio_url, error=job.error)
    elif job.transcript is None:
        body = assemblyai_stream.encode_job(id_, "processing", audio_url=job.audio_url)
    elif job.native is not None:
        body = job.native
    else:
        body = assemblyai_stream.encode_transcript(
            id_, job.transcript, audio_url=job.audio_url, model=job.request.model, duration_s=job.request.audio_seconds,
            utterances=job.request.diarize,
        )
    await send_response(exchange.send, 200, JSON, body, exchange.id_headers)


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


async def listen(session: WebSocketSession) -> None:
    """Serve `WS /v3/ws`. The vendor's own client waits one second for the handshake: it is answered before a provider is dialled."""
    options = assemblyai_stream.parse_query(session.scope.get("query_string", b""))
    started = trio.current_time()
    server = assemblyai_stream.AssemblyListenServer(
        options, session_id=session.caller.request_id, expires_at=int(session.gateway.clock.now()) + _MAX_SESSION_S,
        elapsed_s=lambda: trio.current_time() - started
    )  # fmt: skip
    await live_transcription.listen(session, options.request, server)


SOCKETS: dict[str, SocketHandler] = {"/v3/ws": listen}
