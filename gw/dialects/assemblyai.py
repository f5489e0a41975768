"""AssemblyAI's HTTP API for recordings: `POST /v2/upload`, `POST /v2/transcript` and `GET /v2/transcript/{id}`.

The vendor's clients upload, ask for a transcript and come back for it. Uploads and transcripts are held here for an hour, a
bounded number of them; the work itself is a request like any other, begun when the transcript is asked for.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import trio

from gw.dialects import error_bodies
from gw.dialects.auth import new_id
from gw.dialects.http_handler import JSON, Dialect, Handler, HttpExchange, body_of, upload_limit, whole_transcript
from gw.dialects.request_io import header, send_whole
from gw.dialects.upload import Upload, read_raw_upload
from gw.errors import AllCandidatesFailed, ClientProtocolError, GwError, Overloaded, ProviderError
from gw.types.caller import Caller
from gw.types.stt import TranscribeRequest, Transcript
from gw.wire import assemblyai_batch

HELD_S = 3_600.0
MOST_UPLOADS = 64
MOST_JOBS = 1_024
_ADDRESS = "gw-upload:"
"""What an upload's address begins with; nothing else can be transcribed."""


def error_body(error: GwError, request_id: str) -> bytes:
    facts = error.facts()
    facts.pop("what", None)
    if isinstance(error, ProviderError):
        facts["outcome"] = error.outcome
    if isinstance(error, AllCandidatesFailed):
        facts["attempts"] = error_bodies.attempts_of(error)
    return assemblyai_batch.error_body(
        error.message, **facts | {"code": error_bodies.code_of(error), "request_id": request_id}
    )


DIALECT = Dialect(name="assemblyai", error_body=error_body)


@attrs.define
class _Held:
    upload: Upload
    project: str
    until: float


@attrs.define
class _Job:
    caller: Caller
    request: TranscribeRequest
    audio_url: str
    until: float
    transcript: Transcript | None = None
    native: bytes | None = None
    """The vendor's own answer, under our id."""
    error: str = ""


class Jobs:
    """Uploads and transcripts of one data plane. `run` owns the work and must be running beside it."""

    def __init__(self) -> None:
        self._uploads: dict[str, _Held] = {}
        self._jobs: dict[str, _Job] = {}
        self._asked, self._todo = trio.open_memory_channel[tuple[str, HttpExchange]](MOST_JOBS)

    async def run(self) -> None:
        """Ends only by cancellation; no upload outlives it."""
        try:
            async with trio.open_nursery() as nursery:
                async for id_, exchange in self._todo:
                    nursery.start_soon(self._work, id_, exchange)
        finally:
            for held in self._uploads.values():
                await held.upload.__aexit__(None, None, None)  # closes a file, and waits for nothing

    async def hold(self, upload: Upload, project: str) -> str:
        """The address of an upload. Raises Overloaded when there are too many."""
        await self._forget()
        if len(self._uploads) >= MOST_UPLOADS:
            raise Overloaded(what=f"{MOST_UPLOADS} uploads wait for their transcripts already", retry_after_s=30.0)
        id_ = new_id()
        self._uploads[id_] = _Held(upload, project, trio.current_time() + HELD_S)
        return _ADDRESS + id_

    async def ask(self, exchange: HttpExchange, body: bytes) -> tuple[str, _Job]:
        """Begin a transcript. Raises ClientProtocolError, Overloaded, and what stands against the model's name."""
        asked, others = assemblyai_batch.parse_job(body)
        id_ = asked.audio_url.removeprefix(_ADDRESS)
        held = self._uploads.get(id_) if asked.audio_url.startswith(_ADDRESS) else None
        if held is None or held.project != exchange.caller.project:
            raise ClientProtocolError(
                what="audio_url must be the address of an upload made here: POST /v2/upload first", param="audio_url"
            )
        model = (asked.speech_models or [asked.speech_model or ""])[0]
        exchange.gateway.relay.check(model, "stt", exchange.caller)
        if len(self._jobs) >= MOST_JOBS:
            raise Overloaded(what=f"{MOST_JOBS} transcripts are held already", retry_after_s=30.0)
        upload = held.upload
        request = TranscribeRequest(
            model=model,
            audio=upload,
            format=upload.format,
            audio_seconds=upload.audio_seconds,
            language=asked.language_code,
            timestamps=frozenset({"word"}),
            diarize=bool(asked.speaker_labels),
            keyterms=tuple(asked.keyterms_prompt or ()),
            fields=others,
            dialect=DIALECT.name,
        )
        name = exchange.caller.request_id
        job = self._jobs[name] = _Job(exchange.caller, request, asked.audio_url, trio.current_time() + HELD_S)
        self._asked.send_nowait((name, exchange))
        return name, job

    def find(self, id_: str, project: str) -> _Job | None:
        job = self._jobs.get(id_)
        return job if job is not None and job.caller.project == project else None

    async def _work(self, id_: str, exchange: HttpExchange) -> None:
        job = self._jobs[id_]
        try:
            async with exchange.gateway.relay.transcribe(job.request, job.caller) as answer:
                found = await whole_transcript(answer)
                if answer.call.spec.dialect == DIALECT.name and found.raw is not None:
                    job.native = assemblyai_batch.renamed(found.raw, id_, job.audio_url)
                job.transcript = found
        except GwError as error:
            job.error = error.message
        except OSError as error:  # the spool
            job.error = f"the upload cannot be read: {error.strerror}"

    async def _forget(self) -> None:
        now = trio.current_time()
        for id_ in [id_ for id_, held in self._uploads.items() if held.until < now]:
            await self._uploads.pop(id_).upload.__aexit__(None, None, None)
        for name in [name for name, job in self._jobs.items() if job.until < now]:
            del self._jobs[name]


class _UnknownTranscript(ClientProtocolError):
    status: ClassVar[int] = 404
    code: ClassVar[str] = "transcript_not_found"


def routes(jobs: Jobs) -> dict[tuple[str, str], Handler]:
    """Method and path → handler."""

    async def upload(exchange: HttpExchange) -> None:
        spool = Upload()
        try:
            content_type = (header(exchange.scope, b"content-type") or b"").decode("latin-1")
            await read_raw_upload(exchange.receive, spool, content_type, limit_bytes=upload_limit(exchange))
            if not spool.size:
                raise ClientProtocolError(what="the body has no audio")
            address = await jobs.hold(spool, exchange.caller.project)
        except BaseException:
            await spool.__aexit__(None, None, None)
            raise
        body = assemblyai_batch.encode_upload(address)
        await send_whole(exchange.send, 200, JSON, body, exchange.id_headers)

    async def transcript(exchange: HttpExchange) -> None:
        id_, job = await jobs.ask(exchange, await body_of(exchange))
        await _tell(exchange, id_, job)

    async def look(exchange: HttpExchange) -> None:
        id_ = exchange.scope["path_params"]["id"]
        job = jobs.find(id_, exchange.caller.project)
        if job is None:
            raise _UnknownTranscript(what="no transcript has this id, or it was forgotten after an hour")
        await _tell(exchange, id_, job)

    return {
        ("POST", "/v2/upload"): upload,
        ("POST", "/v2/transcript"): transcript,
        ("GET", "/v2/transcript/{id}"): look,
    }


async def _tell(exchange: HttpExchange, id_: str, job: _Job) -> None:
    found = job.transcript
    if job.error:
        body = assemblyai_batch.encode_job(id_, "error", audio_url=job.audio_url, error=job.error)
    elif found is None:
        body = assemblyai_batch.encode_job(id_, "processing", audio_url=job.audio_url)
    elif job.native is not None:
        body = job.native
    else:
        body = assemblyai_batch.encode_transcript(
            id_, found, audio_url=job.audio_url, model=job.request.model, duration_s=job.request.audio_seconds
        )
    await send_whole(exchange.send, 200, JSON, body, exchange.id_headers)
