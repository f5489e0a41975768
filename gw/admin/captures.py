"""Reading and deleting what was captured of sessions. Whoever reads is in the audit log, before they get it.

A capture is named by the id of a session, a turn or a request. No text and no search word gets into the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from gw.admin.registrar import Registrar
from gw.admin.request_models import Body, checked_text, project_filter, whole_number
from gw.admin.request_models import read as read_body
from gw.admin.schemas import Schema, UnixSeconds, from_attributes
from gw.codecs import speech_parts
from gw.errors import RequestError, UnknownNameError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.capture_writer import CaptureStore
from gw.store.queries import CaptureOwner
from gw.store.store import Reader
from gw.types.audio import AudioFormat
from gw.types.captured import CapturedPiece, CapturedSound, CapturedText, CaptureState, Said
from gw.types.entities import Actor
from gw.types.ids import Modality
from gw.wire import wav
from gw.wire.convert import CannotConvert

MOST_READ = 500  # requests in one answer
_MOST_DELETED = 1_000_000
MOST_SOUND_S = 1_800  # in one answer
SEARCH_S = 2.0
"""Longest time for one search: it decrypts what it looks through. The answer says where to go on."""
SEARCH_BATCH = 100
LEAST_SEARCHED = 2  # characters
AROUND = 80  # characters shown before and after what was found
_decode = msgspec.json.Decoder(CapturedText).decode
_decode_sound = msgspec.msgpack.Decoder(CapturedSound).decode


class UnknownCaptureError(UnknownNameError, code="capture_not_found", kind="capture"):
    """Nothing is stored under this id: nothing was captured, or it was deleted on request or on time."""


class CapturedRequest(Schema):
    """Captured words of one request. `captured`: `incomplete` or `dropped` where there was too much at a time to store."""

    request_id: str
    timestamp: UnixSeconds
    project: str
    session_id: str | None
    turn_id: str | None
    modality: Modality
    model_id: str
    captured: CaptureState
    said: Sequence[Said]
    cut: bool
    """There was more text than is kept of one request."""
    has_audio: bool


class CapturedSession(Schema):
    """Requests of one session, turn or request, oldest first. `more`: there are more of them than one answer has."""

    requests: list[CapturedRequest]
    more: bool


class CaptureStats(Schema):
    """Size of all that is stored, and counts of pieces since the start. `dropped`: too much at a time; `failed`: could not be written;
    `expired`: deleted on time; `evicted`: deleted for `capture.max_mb`; `forgotten`: deleted on request."""

    enabled: bool
    """GW_SECRET is set, so projects can have `capture`."""
    projects: list[str]
    """Those that capture something."""
    requests: int
    bytes: int
    max_bytes: int
    oldest_at: UnixSeconds | None
    waiting: int
    stored: int
    dropped: int
    failed: int
    expired: int
    evicted: int
    forgotten: int
    trouble: str


class CaptureToForget(Schema):
    capture_id: str
    requests: int


class ForgetPreview(Schema):
    would_delete: CaptureToForget


class Forgotten(Schema):
    """`pieces` that were deleted, of so many requests."""

    deleted: str
    requests: int
    pieces: int


def opened(captures: CaptureStore | None, name: str) -> CaptureStore:
    """Raise UnknownCaptureError where nothing can be captured, for want of GW_SECRET."""
    if captures is None:
        raise UnknownCaptureError(name=name, available=())
    return captures


async def stats(captures: CaptureStore | None, catalog: Catalog) -> CaptureStats:
    projects = [project.id for project in catalog.projects.values() if project.capture is not None and project.capture.on]
    if captures is None:
        none = dict.fromkeys(CaptureStats.__struct_fields__, 0)
        return CaptureStats(**{**none, "enabled": False, "projects": projects, "oldest_at": None, "trouble": ""})  # type: ignore[arg-type]
    stored = await captures.summary()
    facts = {"requests": stored.requests, "bytes": stored.bytes, "oldest_at": stored.oldest_at}
    return from_attributes(
        CaptureStats, captures.counters, **facts, enabled=True, projects=projects, max_bytes=captures.max_bytes,
        waiting=captures.depth, trouble=captures.trouble,
    )  # fmt: skip


async def read(
    store: Reader, registrar: Registrar, captures: CaptureStore | None, name: str, project: str | None, by: Actor
) -> CapturedSession:
    """Return the words captured of a session, turn or request. Raises UnknownCaptureError."""
    file = opened(captures, name)
    owners = await _owners(store, registrar, name, project, MOST_READ + 1)
    ids = [owner.id for owner in owners[:MOST_READ]]
    kinds = await file.known(ids)
    if not kinds:
        raise UnknownCaptureError(name=name, available=())
    await registrar.record_reading(by, name, {"what": "text", "requests": len(kinds)})
    texts = {piece.request_id: _decode(piece.content) for piece in await file.read(ids, "text")}
    entries = [
        _entry(owner, texts.get(owner.id), has_audio="audio" in kinds[owner.id]) for owner in owners[:MOST_READ] if owner.id in kinds
    ]
    return CapturedSession(requests=entries, more=len(owners) > MOST_READ)


def _entry(owner: CaptureOwner, text: CapturedText | None, *, has_audio: bool) -> CapturedRequest:
    said, cut = ((), False) if text is None else (text.said, text.cut)
    return from_attributes(CapturedRequest, owner, request_id=owner.id, said=said, cut=cut, has_audio=has_audio)


async def forget(
    store: Reader, registrar: Registrar, captures: CaptureStore | None, name: str, project: str | None, by: Actor, *,
    confirm: bool,
) -> ForgetPreview | Forgotten:  # fmt: skip
    """Delete what was captured of a session, turn or request, or without `confirm` say of how many requests that would be.

    Raises UnknownCaptureError.
    """
    file = opened(captures, name)
    owners = await _owners(store, registrar, name, project, _MOST_DELETED)
    ids = list(await file.known([owner.id for owner in owners]))
    if not ids:
        raise UnknownCaptureError(name=name, available=())
    if not confirm:
        return ForgetPreview(would_delete=CaptureToForget(capture_id=name, requests=len(ids)))
    await registrar.record_reading(by, name, {"requests": len(ids)}, action="delete")
    return Forgotten(deleted=name, requests=len(ids), pieces=await file.forget(ids))


async def _owners(
    store: Reader, registrar: Registrar, name: str, project: str | None, limit: int
) -> list[CaptureOwner]:
    only = project_filter(registrar.catalog, project)
    return await store.read(queries.captured_requests, name, project=only, limit=limit)


# ---------------------------------------------------------------------- sound


async def sound(
    registrar: Registrar, captures: CaptureStore | None, record_id: str, from_s: str, by: Actor
) -> bytes:
    """Return the sound captured of a request as a WAV, at most MOST_SOUND_S of it. Raises UnknownCaptureError, RequestError."""
    file = opened(captures, record_id)
    start_s = whole_number(from_s, "from_s", 0, 10**6)
    if "audio" not in (await file.known([record_id])).get(record_id, ()):
        raise UnknownCaptureError(name=record_id, available=())
    await registrar.record_reading(by, record_id, {"what": "audio", "requests": 1})
    pieces = await file.read([record_id], "audio")
    return await trio.to_thread.run_sync(_wav, [_decode_sound(piece.content) for piece in pieces], start_s)


def _wav(parts: Sequence[CapturedSound], start_s: int) -> bytes:
    """Blocks. Raises RequestError for audio that cannot be decoded."""
    first = parts[0]
    pcm = AudioFormat(encoding="pcm_s16le", sample_rate_hz=first.sample_rate_hz or 16_000, channels=min(first.channels, 2))
    try:
        if first.seconds is None:
            samples = speech_parts.decode_stream(b"".join(part.data for part in parts), first.encoding, pcm)
            at = start_s * pcm.bytes_per_second
            samples = samples[at : at + MOST_SOUND_S * pcm.bytes_per_second]
        else:
            samples = b"".join(_from(parts, pcm, start_s))
    except CannotConvert as error:
        raise RequestError(what=f"what was captured cannot be played: {error}", param="record_id") from None
    return wav.header(pcm, len(samples)) + samples


def _from(parts: Iterable[CapturedSound], pcm: AudioFormat, start_s: float) -> Iterator[bytes]:
    """Yield the samples of the parts that begin at `start_s` or later; a part is five seconds."""
    at_s = given_s = 0.0
    for part in parts:
        seconds = part.seconds or 0.0
        if at_s >= start_s and given_s < MOST_SOUND_S:
            given_s += seconds
            yield speech_parts.decode(part.data, pcm, seconds)
        at_s += seconds


# ---------------------------------------------------------------------- search


class SearchCapture(Body):
    text: str
    """Looked for in upper and lower case alike, anywhere in what was said."""
    project: str | None = None
    before: int | None = None
    """`next` of the answer before: go on with what is older."""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class CaptureFound(Schema):
    """A piece of what was said. `text`: the words around the place where it was found."""

    request_id: str
    project: str
    timestamp: UnixSeconds
    role: str
    text: str


class CapturesFound(Schema):
    """Newest first. `searched` texts were looked through; `next` is null where these were all."""

    found: list[CaptureFound]
    searched: int
    next: int | None


async def search(
    registrar: Registrar, captures: CaptureStore | None, body: Mapping[str, object], by: Actor
) -> CapturesFound:
    """Look through what was captured, newest first, for SEARCH_S at most. Raises RequestError, UnknownProjectError."""
    request = read_body(body, SearchCapture)
    only = project_filter(registrar.catalog, request.project)
    words = checked_text(request.text, "text").strip().casefold()
    if len(words) < LEAST_SEARCHED:
        raise RequestError(what=f"text must have at least {LEAST_SEARCHED} characters", param="text")
    answer = CapturesFound(found=[], searched=0, next=None)
    if captures is None:
        return answer
    await captures.flush()
    until, place, is_full = trio.current_time() + SEARCH_S, request.before, False
    while not is_full:
        batch = await captures.texts_before(place, SEARCH_BATCH)
        for number, piece in batch:
            place = number
            answer.searched += 1
            if only is None or piece.project == only:
                answer.found += _hits(piece, words)
            if is_full := len(answer.found) >= request.limit:
                break
        if not is_full and len(batch) < SEARCH_BATCH:
            place = None
            break
        is_full = is_full or trio.current_time() >= until
    answer.next = place
    requests = len({hit.request_id for hit in answer.found})
    await registrar.record_reading(by, "search", {"what": "search", "requests": requests, "searched": answer.searched})
    return answer


def _hits(piece: CapturedPiece, words: str) -> list[CaptureFound]:
    hits: list[CaptureFound] = []
    for said in _decode(piece.content).said:
        folded = said.text.casefold()
        if (at := folded.find(words)) >= 0:
            text = said.text[max(0, at - AROUND) : at + len(words) + AROUND]
            hits.append(
                CaptureFound(request_id=piece.request_id, project=piece.project, timestamp=piece.at, role=said.role, text=text)
            )
    return hits
