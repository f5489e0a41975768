"""Uploads and transcripts of AssemblyAI's callers. A transcript is stored in its final form: it survives a restart."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import structlog
import trio

from gw.dialects.callbacks import CUT, Callback, deliver, forget, row_of
from gw.dialects.exchange import HttpExchange
from gw.dialects.http_handler import read_transcript
from gw.dialects.remote_recording import by_url
from gw.dialects.upload import Upload
from gw.errors import ClientProtocolError, GwError, Overloaded, StoreError
from gw.gateway import Gateway
from gw.net.recordings import check_url
from gw.relay.relay import TranscribeAnswer
from gw.store.entity_rows import Change, StoredCallback, StoredTranscript
from gw.types.ids import Caller
from gw.types.stt import TranscribeRequest, Transcript
from gw.wire import assemblyai_exports, assemblyai_stream
from gw.wire.assemblyai_exports import Listed
from gw.wire.assemblyai_stream import TranscriptOptions

LIFETIME_S = 3_600.0
MAX_UPLOADS_EACH = 64
MAX_UPLOADS = 1_024
MAX_JOBS_EACH = 512
"""Transcripts of a project, each kept for an hour."""
MAX_JOBS = 1_024
"""Transcripts of all projects; beyond that a project may still have `JOBS_ALWAYS`, so that the others cannot shut it out."""
JOBS_ALWAYS = 32
BODIES_EACH = 20
"""Bytes of a project's uploads, in bodies of `serve.max_body_mb`."""
_URL_PREFIX = "gw-upload:"  # scheme of an upload's URL

_log = structlog.get_logger()


@attrs.define
class _StoredUpload:
    upload: Upload
    project: str
    expires_at: float


@attrs.define
class TranscriptJob:
    project: str
    audio_url: str
    created_at: float
    body: bytes
    """The answer to `GET /v2/transcript/{id}`."""
    status: str = "processing"
    error: str | None = None
    ended_at: float | None = None

    def listed(self, id_: str) -> Listed:
        completed = None if self.ended_at is None else _stamp(self.ended_at)
        return Listed(id_, self.status, _stamp(self.created_at), self.audio_url, completed, self.error)


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


class Jobs:
    """Status of a transcript:  processing -- the answer is read --> completed
                             processing -- it fails, or gw is stopped --> error
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._uploads: dict[str, _StoredUpload] = {}
        self._jobs: dict[str, TranscriptJob] = {}
        self._restored = False
        self._restoring = trio.Lock()

    async def run(self) -> None:
        """Wait; no upload outlives this."""
        try:
            await trio.sleep_forever()
        finally:
            for stored in self._uploads.values():
                await stored.upload.__aexit__(None, None, None)  # closes a file without blocking

    async def restore(self) -> None:
        """Load, once, the transcripts of the time before the start."""
        async with self._restoring:
            if not self._restored:
                await self._load()
                self._restored = True

    async def _load(self) -> None:
        try:
            rows = await self._gateway.store.transcripts(self._gateway.clock.now())
        except StoreError as error:
            _log.warning("transcripts_not_restored", why=error.message)
            return
        for row in rows:
            if row.id not in self._jobs:  # else one of this run
                self._jobs[row.id] = self._job_of(row)

    def _job_of(self, row: StoredTranscript) -> TranscriptJob:
        facts = assemblyai_exports.facts_of(row.body)
        job = TranscriptJob(row.project, facts.audio_url, row.expires_at - LIFETIME_S, row.body, facts.status, facts.error)
        if job.status == "processing":
            self._fail(row.id, job, CUT)
        else:
            job.ended_at = job.created_at
        return job

    async def check_room(self, project: str) -> None:
        """Raise Overloaded if the project, or all of them together, hold too many uploads."""
        await self._forget()
        theirs = [stored for stored in self._uploads.values() if stored.project == project]
        most = BODIES_EACH * self._gateway.settings.serve.max_body_bytes()
        what = ""
        if len(theirs) >= MAX_UPLOADS_EACH:
            what = f"this project has {MAX_UPLOADS_EACH} uploads already"
        elif sum(stored.upload.size for stored in theirs) >= most:
            what = f"this project's uploads have {most / 1e6:g} MB already"
        elif len(self._uploads) >= MAX_UPLOADS:
            what = f"{MAX_UPLOADS} uploads are held already"
        if what:
            raise Overloaded(what=f"{what}; each is kept for an hour", retry_after_s=30.0)

    async def store(self, upload: Upload, project: str) -> str:
        """Keep an upload and return its URL. Raises Overloaded like `check_room`."""
        await self.check_room(project)
        id_ = self._gateway.request_ids.new()
        self._uploads[id_] = _StoredUpload(upload, project, self._gateway.clock.now() + LIFETIME_S)
        return _URL_PREFIX + id_

    async def start(self, exchange: HttpExchange, body: bytes) -> bytes:
        """Start a transcript and return its first form. Raises ClientProtocolError, Overloaded, StoreError, and what a check
        of the model's name raises."""
        options, other_members = assemblyai_stream.parse_job(body)
        await self.restore()
        await self._forget()
        own = None if options.audio_url.startswith(_URL_PREFIX) else Upload()
        id_ = exchange.caller.request_id
        try:
            upload = self._upload_at(options.audio_url, exchange.caller.project) if own is None else own
            request = _request(exchange, options, other_members, upload, None if own is None else options.audio_url)
            callback = _callback(options)
            first = assemblyai_stream.encode_job(id_, "processing", audio_url=options.audio_url, **_webhook_members(options))
            self._gateway.relay.resolve(request.model, "stt", exchange.caller)
            self._gateway.relay.refuse_unsupported(request, exchange.caller)
            self._check_jobs(exchange.caller.project)
            job = TranscriptJob(exchange.caller.project, options.audio_url, self._gateway.clock.now(), first)
            await self._save(id_, job, callback, "error")  # what is sent should gw be stopped before the end
            self._jobs[id_] = job
            self._gateway.background.start(lambda: self._work(id_, job, request, exchange.caller, own, callback))
        except BaseException:
            if self._jobs.pop(id_, None) is not None and callback is not None:
                await forget(self._gateway, id_)
            if own is not None:
                await own.__aexit__(None, None, None)
            raise
        return first

    def _check_jobs(self, project: str) -> None:
        """Raise Overloaded, until one of them may be forgotten, if the project holds too many transcripts."""
        theirs = [job.created_at for job in self._jobs.values() if job.project == project]
        if len(theirs) < MAX_JOBS_EACH and (len(self._jobs) < MAX_JOBS or len(theirs) < JOBS_ALWAYS):
            return
        what = f"this project holds {len(theirs)} transcripts" + (f" of {len(self._jobs)}" if len(theirs) < MAX_JOBS_EACH else "")
        until = min(theirs) + LIFETIME_S - self._gateway.clock.now()
        raise Overloaded(what=f"{what}; each is kept for an hour", retry_after_s=max(until, 1.0))

    def _upload_at(self, url: str, project: str) -> Upload:
        """Return an upload by its address. Raises ClientProtocolError."""
        stored = self._uploads.get(url.removeprefix(_URL_PREFIX))
        if stored is None or stored.project != project:
            what = "audio_url must be the address of a recording, or of an upload made here within the last hour"
            raise ClientProtocolError(what=what, param="audio_url")
        return stored.upload

    async def get(self, id_: str, project: str) -> TranscriptJob | None:
        await self.restore()
        job = self._jobs.get(id_)
        return job if job is not None and job.project == project else None

    async def of(self, project: str) -> list[Listed]:
        """Return a project's transcripts, the newest first."""
        await self.restore()
        theirs = [(id_, job) for id_, job in self._jobs.items() if job.project == project]
        return [job.listed(id_) for id_, job in sorted(theirs, key=lambda one: one[1].created_at, reverse=True)]

    async def delete(self, id_: str, job: TranscriptJob) -> bytes:
        """Remove what was said, here and in the database. Raises ClientProtocolError for one that is not done, StoreError."""
        if job.status == "processing":
            raise ClientProtocolError(what="the transcript is still being made: it can be deleted when it is done")
        job.body, job.audio_url = assemblyai_exports.deleted(job.body), assemblyai_exports.DELETED_URL
        await self._save(id_, job)
        return job.body

    async def _work(
        self, id_: str, job: TranscriptJob, request: TranscribeRequest, caller: Caller, own: Upload | None, callback: Callback | None
    ) -> None:
        try:
            async with self._gateway.relay.transcribe(request, caller) as answer:
                transcript = await read_transcript(answer)
                job.body = _completed(id_, job, request, transcript, answer)
                job.status = "completed"
        except GwError as error:
            self._fail(id_, job, error.message)
        except OSError as error:  # the spool
            self._fail(id_, job, f"the upload cannot be read: {error.strerror}")
        except trio.Cancelled:
            self._fail(id_, job, CUT)
            raise
        finally:
            if own is not None:
                await own.__aexit__(None, None, None)
        job.ended_at = self._gateway.clock.now()
        try:
            await self._save(id_, job, callback, job.status)
        except StoreError as error:
            _log.warning("transcript_not_stored", id=id_, why=error.message)
        if callback is not None:
            await deliver(self._gateway, callback, assemblyai_stream.webhook_body(id_, job.status), id_)

    def _fail(self, id_: str, job: TranscriptJob, why: str) -> None:
        job.status, job.error = "error", why
        job.body = assemblyai_stream.encode_job(id_, "error", audio_url=job.audio_url, error=why)
        job.ended_at = self._gateway.clock.now()

    async def _save(self, id_: str, job: TranscriptJob, callback: Callback | None = None, status: str = "") -> None:
        """Store a transcript and, in the same transaction, the `status` that a restart would send to its webhook."""
        row = StoredTranscript(id_, job.project, job.created_at + LIFETIME_S, job.body)
        due: tuple[StoredCallback, ...] = ()
        if callback is not None:
            due = (await row_of(self._gateway, callback, assemblyai_stream.webhook_body(id_, status), id_),)
        now = self._gateway.clock.now()
        await self._gateway.store.change(Change(transcripts=(row,), transcripts_until=now, callbacks=due))

    async def _forget(self) -> None:
        now = self._gateway.clock.now()
        for id_ in [id_ for id_, stored in self._uploads.items() if stored.expires_at < now]:
            await self._uploads.pop(id_).upload.__aexit__(None, None, None)
        ended = [i for i, job in self._jobs.items() if job.created_at + LIFETIME_S < now and job.status != "processing"]
        for id_ in ended:
            del self._jobs[id_]


def _request(
    exchange: HttpExchange, options: TranscriptOptions, members: tuple[tuple[str, str], ...], upload: Upload, url: str | None
) -> TranscribeRequest:
    """Build the request. `url`: the recording's address, if it is not one of ours."""

    def parse() -> TranscribeRequest:
        return TranscribeRequest(
            model=(options.speech_models or [options.speech_model or ""])[0], audio=upload, format=upload.format,
            audio_seconds=upload.audio_seconds, timestamps=frozenset({"word"}), fields=members, dialect="assemblyai",
            **options.common(members),
        )

    return by_url(exchange.gateway, url, "audio_url", upload, parse) if url is not None else parse()


def _completed(
    id_: str, job: TranscriptJob, request: TranscribeRequest, transcript: Transcript, answer: TranscribeAnswer
) -> bytes:
    if answer.call.spec.dialect == "assemblyai" and transcript.raw is not None:
        return assemblyai_stream.with_id(transcript.raw, id_, job.audio_url)
    audio = request.audio  # fetched in the meantime, if it was named by its address
    return assemblyai_stream.encode_transcript(
        id_, transcript, audio_url=job.audio_url, model=request.model,
        duration_s=request.audio_seconds or (audio.audio_seconds if isinstance(audio, Upload) else 0.0),
        utterances=request.diarize,
    )


def _webhook_members(options: TranscriptOptions) -> dict[str, object]:
    if not options.webhook_url:
        return {}
    return {"webhook_url": options.webhook_url, "webhook_auth": bool(options.webhook_auth_header_name)}


def _callback(options: TranscriptOptions) -> Callback | None:
    """Return where to say that the transcript is done.

    Source: docs "Webhooks for pre-recorded audio" (November 2026): 2xx within ten seconds, else up to ten tries; a status of
    4xx ends them. The pause between them is not documented.
    """
    if not options.webhook_url:
        return None
    check_url(options.webhook_url, "webhook_url")
    [credential] = assemblyai_stream.webhook_headers(options) or [(b"", b"")]
    return Callback(url=options.webhook_url, credential=credential, pause_s=10.0, final=range(400, 500))
