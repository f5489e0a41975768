"""Sessions of the dashboard that people and service tokens have begun, and the people who have signed in with an OpenID provider.

Only a hash of the session's cookie is stored. Sessions that have expired are removed when another one begins.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from gw.admin.registrar import Deleted, Draft, Registrar
from gw.admin.request_models import Body, read
from gw.admin.schemas import Schema, from_attributes
from gw.admin.tokens import sorted_projects
from gw.config.sign_in_settings import Oidc
from gw.errors import GwError, SignInRefused, UnknownNameError
from gw.policy.id_token import claim_values
from gw.registry.catalog import Catalog
from gw.registry.credentials import access_by_claims
from gw.types.entities import Actor, StoredLogin, StoredPerson, StoredToken, name_of
from gw.types.roles import Role

PREFIX = "gwl_"
MOST_LOGINS = 5_000  # some 500 bytes each; when there are more, the ones that began first end
MOST_LOGINS_OF_ONE = 20  # of a person or a token: browsers whose sessions were forgotten
_NAME_CHARACTERS = 200


class UnknownLoginError(UnknownNameError, code="login_not_found", kind="login"):
    """No session has this id: it never existed, has expired, or was ended."""


class UnknownPersonError(UnknownNameError, code="person_not_found", kind="person"):
    """Nobody with this id has signed in."""


class LoginEntry(Schema):
    """`token_id`: the service token with which the session began; null for a person. `this_one`: the session of the request."""

    login_id: str
    name: str
    person_id: str | None
    token_id: str | None
    created_at: float
    seen_at: float
    expires_at: float
    address: str
    agent: str
    this_one: bool


class Logins(Schema):
    logins: list[LoginEntry]


class LoginPreviewed(Schema):
    login_id: str
    name: str


class LoginPreview(Schema):
    would_delete: LoginPreviewed


class PersonEntry(Schema):
    """`role` is null for a person to whom no rule of gw.yaml gives one, as far as a session shows. `subject`: their id at the provider.
    `seen_at`: the last use of a session that goes on, to some minutes, else when they signed in last."""

    person_id: str
    name: str
    issuer: str
    subject: str
    role: Role | None
    projects: Sequence[str] | None
    capture: bool
    blocked: bool
    created_at: float
    signed_in_at: float
    seen_at: float
    sessions: int


class People(Schema):
    people: list[PersonEntry]


class UpdatePerson(Body):
    blocked: bool
    """Ends the person's sessions, and lets them begin no other."""


class PersonUpdated(Schema):
    person_id: str
    updated: bool


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """Origin of a session: the browser's address and its `User-Agent`."""

    address: str = ""
    agent: str = ""


def person_id(issuer: str, subject: str) -> str:
    return "person_" + sha256(f"{issuer}\n{subject}".encode()).hexdigest()[:12]


async def begin_for_person(registrar: Registrar, claims: Mapping[str, Any], visit: Visit) -> tuple[str, StoredLogin]:
    """Begin the session of somebody who has signed in; return its cookie's value. Raises SignInRefused, StoreUnavailable."""
    oidc = registrar.settings.auth.oidc
    subject = str(claims["sub"])
    known = {rule.claim: values for rule in oidc.roles if (values := claim_values(claims, rule.claim))}
    if access_by_claims(oidc.roles, known) is None:
        raise SignInRefused(what="no rule of auth.oidc.roles gives this person a role", reason="no_role")
    who, name = person_id(oidc.issuer, subject), _name(claims, oidc)
    session = claims.get("sid")
    async with registrar.change(Actor(source="api", name=name)) as draft:
        before = draft.stored.get(("person", who))
        if isinstance(before, StoredPerson) and before.blocked:
            raise SignInRefused(what="this person is blocked", reason="blocked")
        created_at = before.created_at if isinstance(before, StoredPerson) else draft.now
        person = StoredPerson(
            id=who, issuer=oidc.issuer, subject=subject, name=name, created_at=created_at, signed_in_at=draft.now, claims=known
        )
        draft.replace_silently(person)
        cookie, login = _login(
            draft, oidc, visit, name=name, issuer=oidc.issuer, subject=subject, claims=known,
            provider_session=session if isinstance(session, str) else "",
        )  # fmt: skip
    return cookie, login


async def begin_for_token(registrar: Registrar, token: StoredToken, visit: Visit) -> tuple[str, StoredLogin]:
    """Begin the session of somebody who has a service token; it ends with the token. Raises StoreUnavailable."""
    name = f"{token.name} ({token.id})" if token.name else token.id
    async with registrar.change(Actor(source="api", name=name)) as draft:
        return _login(draft, registrar.settings.auth.oidc, visit, name=name, token_id=token.id)


def _login(draft: Draft, oidc: Oidc, visit: Visit, *, name: str, **fields: Any) -> tuple[str, StoredLogin]:
    cookie = PREFIX + secrets.token_urlsafe(32)
    login = StoredLogin(
        id=f"login_{secrets.token_hex(6)}", digest=sha256(cookie.encode()).hexdigest(), name=name, created_at=draft.now,
        seen_at=draft.now, expires_at=draft.now + oidc.session_hours * 3_600, address=visit.address, agent=visit.agent, **fields,
    )  # fmt: skip
    _make_room(draft, login, oidc.idle_minutes * 60)
    draft.put(login, "create", {"address": visit.address})
    return cookie, login


def _make_room(draft: Draft, login: StoredLogin, idle_s: float) -> None:
    """Remove sessions that have ended, and those that began first where there are too many."""
    logins = sorted((each for each in draft.stored.values() if isinstance(each, StoredLogin)), key=lambda each: each.created_at)
    over = {each.id for each in logins if min(each.expires_at, each.seen_at + idle_s) <= draft.now}
    open_ones = [each for each in logins if each.id not in over]
    same = [each for each in open_ones if (each.issuer, each.subject, each.token_id) == (login.issuer, login.subject, login.token_id)]
    over |= {each.id for each in same[: len(same) - MOST_LOGINS_OF_ONE + 1]} if len(same) >= MOST_LOGINS_OF_ONE else set()
    over |= {each.id for each in open_ones[: len(open_ones) - MOST_LOGINS + 1]} if len(open_ones) >= MOST_LOGINS else set()
    for each in logins:
        if each.id in over:
            draft.remove_silently(name_of(each))


def _name(claims: Mapping[str, Any], oidc: Oidc) -> str:
    """Return how the audit log names a person: by a claim, else by the subject, without anything that could look like a further field.

    People can choose most claims themselves, even "admin"; beside one that others may have too stands the person's id.
    """
    subject = str(claims["sub"])
    values = claim_values(claims, oidc.name_claim)
    text = "".join(character for character in (values[0] if values else subject) if character.isprintable())[:_NAME_CHARACTERS]
    is_own = oidc.name_claim == "email" and bool(values) and "@" in text
    return text if is_own else f"{text} ({person_id(oidc.issuer, subject)})".lstrip()


def listing(catalog: Catalog, this_one: str) -> Logins:
    """Return the sessions, the one that began last first."""
    ordered = sorted(catalog.logins, key=lambda login: (login.created_at, login.id), reverse=True)
    return Logins(logins=[_entry(login, this_one) for login in ordered])


def _entry(login: StoredLogin, this_one: str) -> LoginEntry:
    return from_attributes(
        LoginEntry, login, login_id=login.id, person_id=person_id(login.issuer, login.subject) if login.subject else None,
        token_id=login.token_id or None, this_one=login.id == this_one,
    )  # fmt: skip


async def end(registrar: Registrar, login_id: str, *, confirm: bool, by: Actor) -> LoginPreview | Deleted:
    """End a session from the next request on; without `confirm` only return what would be. Raises UnknownLoginError."""
    login = registrar.stored.get(("login", login_id))
    if not isinstance(login, StoredLogin):
        raise UnknownLoginError(name=login_id)
    if not confirm:
        return LoginPreview(would_delete=LoginPreviewed(login_id=login.id, name=login.name))
    await end_all(registrar, lambda each: each.id == login_id, by)
    return Deleted(deleted=login_id)


async def end_all(registrar: Registrar, ends: Callable[[StoredLogin], bool], by: Actor) -> int:
    """End the sessions for which `ends` is true; return their number. Raises StoreUnavailable."""
    if not any(isinstance(each, StoredLogin) and ends(each) for each in registrar.stored.values()):
        return 0
    async with registrar.change(by) as draft:
        return _end(draft, ends)


def _end(draft: Draft, ends: Callable[[StoredLogin], bool]) -> int:
    over = [each for each in draft.stored.values() if isinstance(each, StoredLogin) and ends(each)]
    for login in over:
        draft.remove(name_of(login), {"name": login.name})
    return len(over)


async def touch(registrar: Registrar, login_id: str, name: str) -> None:
    """Store that a session is in use, so that it does not end after a restart, or at another gateway. Never raises."""
    try:
        async with registrar.change(Actor(source="api", name=name)) as draft:
            login = draft.stored.get(("login", login_id))
            if isinstance(login, StoredLogin):
                draft.replace_silently(msgspec.structs.replace(login, seen_at=max(draft.now, login.seen_at)))
    except GwError:
        return  # the session goes on here; the next request tries again later


def people(catalog: Catalog, oidc: Oidc) -> People:
    """Return everybody who has signed in, by name."""
    entries = []
    for person in sorted(catalog.people, key=lambda person: (person.name, person.id)):
        access = access_by_claims(oidc.roles, person.claims) if person.issuer == oidc.issuer else None
        own = [login.seen_at for login in catalog.logins if (login.issuer, login.subject) == (person.issuer, person.subject)]
        entries.append(
            from_attributes(
                PersonEntry, person, person_id=person.id, role=access.role if access else None, sessions=len(own),
                projects=sorted_projects(access) if access else [], capture=access is not None and access.capture,
                seen_at=max(own, default=person.signed_in_at),
            )
        )  # fmt: skip
    return People(people=entries)


async def update_person(registrar: Registrar, who: str, body: Mapping[str, object], by: Actor) -> PersonUpdated:
    """Block a person, which ends their sessions, or unblock them. Raises RequestError, UnknownPersonError."""
    blocked = read(body, UpdatePerson).blocked
    async with registrar.change(by) as draft:
        person = draft.stored.get(("person", who))
        if not isinstance(person, StoredPerson):
            raise UnknownPersonError(name=who)
        if person.blocked != blocked:
            changes = {"name": person.name, "blocked": {"from": person.blocked, "to": blocked}}
            draft.put(msgspec.structs.replace(person, blocked=blocked), "update", changes)
        if blocked:
            _end(draft, lambda login: (login.issuer, login.subject) == (person.issuer, person.subject))
    return PersonUpdated(person_id=who, updated=True)
