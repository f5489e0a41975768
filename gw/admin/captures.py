"""Reading and deleting what was captured of sessions. Whoever reads is in the audit log, before they get it.

A capture is named by the id of a session, a turn or a request. No text and no search word gets into the audit log.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gw.admin.registrar import Registrar
from gw.admin.request_models import project_filter
from gw.admin.schemas import Schema, UnixSeconds, from_attributes
from gw.errors import UnknownNameError
from gw.registry.catalog import Catalog
from gw.store import queries
from gw.store.capture_writer import CaptureStore
from gw.store.queries import CaptureOwner
from gw.store.store import Reader
from gw.types.captured import CapturedText, CaptureState, Said
from gw.types.entities import Actor
from gw.types.ids import Modality

MOST_READ = 500  # requests in one answer
_MOST_DELETED = 1_000_000
_decode = msgspec.json.Decoder(CapturedText).decode


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
