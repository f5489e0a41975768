"""Service tokens: credentials of the control plane with a role. Each is shown once and stored as a hash.

Nobody can make a token with more rights than their own.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256

from gw.admin.registrar import Deleted, Registrar
from gw.admin.request_models import Body, checked_text, read
from gw.admin.schemas import Schema, from_attributes
from gw.errors import ForbiddenError, RequestError, UnknownNameError
from gw.registry.catalog import Catalog
from gw.types.entities import Actor, StoredToken, name_of
from gw.types.roles import Access, Role

PREFIX = "gws_"
_MOST_PROJECTS = 200


class UnknownTokenError(UnknownNameError, code="token_not_found", kind="token"):
    """No service token has this id: it never existed, or was revoked."""


class CreateToken(Body):
    name: str
    """Name in the audit log."""
    role: Role
    projects: list[str] | None = None
    """Null = all projects, also those made later."""
    capture: bool = False
    """Allows to read captured content."""
    expires_at: float | None = None
    """Unix seconds; null = never."""


class TokenEntry(Schema):
    """`projects` is null for a token with its role everywhere. `created_by`: as in the audit log."""

    token_id: str
    name: str
    token_masked: str
    role: Role
    projects: Sequence[str] | None
    capture: bool
    created_at: float
    created_by: str
    expires_at: float | None


class Tokens(Schema):
    tokens: list[TokenEntry]


class MadeToken(TokenEntry):
    """The only answer that shows the token."""

    token: str


class TokenPreviewed(Schema):
    token_id: str
    name: str
    role: Role


class TokenPreview(Schema):
    would_delete: TokenPreviewed


async def create(registrar: Registrar, catalog: Catalog, body: Mapping[str, object], by: Actor, maker: Access | None) -> MadeToken:
    """Make a token; only the returned value shows it. `catalog`: what the maker sees.

    Raises RequestError, UnknownProjectError, and ForbiddenError for more rights than those of `maker`.
    """
    request = read(body, CreateToken)
    access = Access(role=request.role, projects=checked_projects(catalog, request.projects), capture=request.capture)
    check_grant(access, maker)
    token = PREFIX + secrets.token_urlsafe(32)
    async with registrar.change(by) as draft:
        stored = StoredToken(
            id=f"tok_{secrets.token_hex(6)}",
            digest=sha256(token.encode()).hexdigest(),
            masked=f"{token[:8]}…{token[-4:]}",
            access=access,
            name=_checked_name(request.name),
            created_at=draft.now,
            created_by=by.name,
            expires_at=_checked_expiry(draft.now, request.expires_at),
        )
        draft.put(stored, "create", {"name": stored.name, **audited(access), "expires_at": stored.expires_at})
    return from_attributes(MadeToken, _entry(stored), token=token)


def listing(catalog: Catalog) -> Tokens:
    """Return the tokens of a catalog, the oldest first."""
    return Tokens(tokens=[_entry(token) for token in sorted(catalog.tokens, key=lambda token: (token.created_at, token.id))])


def one(catalog: Catalog, token_id: str) -> TokenEntry:
    """Return one token. Raises UnknownTokenError."""
    return _entry(_stored(catalog, token_id))


async def revoke(registrar: Registrar, catalog: Catalog, token_id: str, *, confirm: bool, by: Actor) -> TokenPreview | Deleted:
    """Revoke a token from the next request on; without `confirm` only return what would be. Raises UnknownTokenError."""
    token = _stored(catalog, token_id)
    if not confirm:
        return TokenPreview(would_delete=TokenPreviewed(token_id=token.id, name=token.name, role=token.access.role))
    async with registrar.change(by) as draft:
        if name_of(token) not in draft.stored:
            raise UnknownTokenError(name=token_id)
        draft.remove(name_of(token), {"name": token.name, **audited(token.access)})
    return Deleted(deleted=token_id)


def audited(access: Access) -> dict[str, object]:
    """Return rights as the audit log shows them."""
    return {"role": access.role, "projects": sorted_projects(access), "capture": access.capture}


def sorted_projects(access: Access) -> list[str] | None:
    return None if access.projects is None else sorted(access.projects)


def check_grant(access: Access, maker: Access | None) -> None:
    """Raise ForbiddenError for rights that `maker` does not have."""
    if maker is None or not maker.covers(access.role):
        raise ForbiddenError(what=f"only somebody with the role {access.role} can grant it")
    if maker.projects is not None and (access.projects is None or not access.projects <= maker.projects):
        raise ForbiddenError(what=f"name projects of yours: {', '.join(sorted(maker.projects))}")
    if access.capture and not maker.capture:
        raise ForbiddenError(what="only somebody who may read captured content can grant it")


def checked_projects(catalog: Catalog, projects: Iterable[str] | None) -> frozenset[str] | None:
    """Return the projects of a role, None for all. Raises RequestError and UnknownProjectError."""
    if projects is None:
        return None
    chosen = _within(set(projects))
    return frozenset(catalog.project(name).id for name in sorted(chosen))


def _within(projects: Collection[str]) -> Collection[str]:
    if not 1 <= len(projects) <= _MOST_PROJECTS:
        what = f"projects must name 1 to {_MOST_PROJECTS} projects; leave it out for all"
        raise RequestError(what=what, param="projects")
    return projects


def _checked_name(value: str) -> str:
    name = checked_text(value, "name").strip()
    if not name or not name.isprintable():
        raise RequestError(what="name must be a line of text: the audit log shows it", param="name")
    return name


def _checked_expiry(now: float, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > now):
        raise RequestError(what="expires_at must be a time in the future, in Unix seconds", param="expires_at")
    return value


def _stored(catalog: Catalog, token_id: str) -> StoredToken:
    for token in catalog.tokens:
        if token.id == token_id:
            return token
    raise UnknownTokenError(name=token_id, available=tuple(token.id for token in catalog.tokens))


def _entry(token: StoredToken) -> TokenEntry:
    access = token.access
    return from_attributes(
        TokenEntry, token, token_id=token.id, token_masked=token.masked, role=access.role, projects=sorted_projects(access),
        capture=access.capture,
    )  # fmt: skip
