"""The dashboard's session: `POST /api/login`, `POST /api/logout` and `GET /api/session`.

Failed logins are slowed down by address (`LoginFailures`). Credentials in headers are not: they are 32 random bytes,
or the operator's choice. The right token is admitted whatever failed before: behind a proxy all people have one address, and
somebody who guesses must not keep the administrator out.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

import msgspec
import trio

from gw.admin import logins
from gw.admin.request_models import read
from gw.admin.schemas import Schema
from gw.dialects.auth import principal
from gw.errors import AuthError, ForbiddenError, SignInRefused
from gw.registry.credentials import Principal
from gw.types.entities import Actor
from gw.types.roles import Role
from gw.web import session_cookies
from gw.web.authorization import caller
from gw.web.oidc_login import is_secure, session_header, visit_of
from gw.web.reply import Reply, json_reply
from gw.web.route import Request, Route
from gw.web.session_cookies import cookies


class Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class LoginAnswer(Schema):
    """`open`: the gateway asks for no credential, so there is no session."""

    status: Literal["logged_in", "open"]
    expires_at: float | None


class LogoutAnswer(Schema):
    """`redirect`: where the browser ends the session at the OpenID provider too; null where there is no such place."""

    status: Literal["logged_out"]
    redirect: str | None


class SessionState(Schema):
    """`principal` is null where a credential is needed and none, or a wrong one, was sent. `role` is null for a key, `projects` for a
    role for all projects. `sign_in`: people can sign in with an OpenID provider, at `/api/oidc/start`."""

    auth_on: bool
    authenticated: bool
    principal: Literal["anyone", "admin", "key", "token", "person"] | None
    name: str
    role: Role | None
    projects: Sequence[str] | None
    capture: bool
    project: str | None
    expires_at: float | None
    sign_in: bool


async def login(request: Request) -> object:
    """Raises RequestError, AuthError, ForbiddenError, TooManyLogins, StoreUnavailable."""
    gateway, token = request.gateway, read(request.body, Login).token
    holder = await _holder(request, token)
    if holder.kind == "token":
        digest = sha256(token.encode()).hexdigest()
        stored = next(each for each in gateway.current.catalog.tokens if each.digest == digest)
        cookie, begun = await logins.begin_for_token(request.registrar, stored, visit_of(request))
        answer = LoginAnswer(status="logged_in", expires_at=begun.expires_at)
        return json_reply(answer, headers=[session_header(request, cookie)])
    admin_token = gateway.settings.auth.admin_token
    if not admin_token:
        return LoginAnswer(status="open", expires_at=None)
    value = session_cookies.issue_session(admin_token, gateway.clock.now())
    return _with_cookie(request, value, LoginAnswer(status="logged_in", expires_at=session_cookies.expiry_of(value)))


async def logout(request: Request) -> Reply:
    """End the session of the cookie. Raises StoreUnavailable, and then it goes on."""
    gateway = request.gateway
    token, now = gateway.settings.auth.admin_token, gateway.clock.now()
    session_cookies.end_sessions(cookies(request.scope), token, now, gateway.ended_sessions)
    redirect = ""
    for value in session_cookies.sessions_of(cookies(request.scope)):
        holder = gateway.credentials.session(gateway.settings.auth, gateway.current.catalog, value)
        if holder is not None:
            redirect = redirect or await _end(request, holder)
    return _with_cookie(request, "", LogoutAnswer(status="logged_out", redirect=redirect or None))


async def _end(request: Request, holder: Principal) -> str:
    """End a stored session; return where the browser ends it at the provider too, "" for nowhere."""
    catalog, login_id = request.gateway.current.catalog, holder.login_id
    is_of_person = any(each.id == login_id and each.subject for each in catalog.logins)
    await logins.end_all(request.registrar, lambda each: each.id == login_id, Actor(source="api", name=holder.name))
    try:
        return await request.plane.sign_ins.provider(request.gateway).logout_url() if is_of_person else ""
    except SignInRefused:  # the settings have no provider any more
        return ""


def session(request: Request) -> SessionState:
    gateway = request.gateway
    auth = gateway.settings.auth
    try:
        holder = caller(gateway, request.scope, gateway.clock.now())
    except AuthError:
        return SessionState(
            auth_on=True, authenticated=False, principal=None, name="", role=None, projects=None, capture=False, project=None,
            expires_at=None, sign_in=bool(auth.oidc.issuer),
        )  # fmt: skip
    access = holder.access
    return SessionState(
        auth_on=auth.on, authenticated=True, principal=holder.kind, name=holder.actor, role=access.role if access else None,
        projects=sorted(access.projects) if access and access.projects is not None else None,
        capture=access is not None and access.capture, project=holder.project, expires_at=holder.expires_at,
        sign_in=bool(auth.oidc.issuer),
    )  # fmt: skip


async def _holder(request: Request, token: str) -> Principal:
    """Return whose token it is. Raises AuthError, ForbiddenError and TooManyLogins."""
    try:
        owner = principal(request.gateway, token.encode())
    except AuthError:
        client, failures = request.scope.get("client"), request.plane.login_failures
        address, now = client[0] if client else "", trio.current_time()
        await failures.slow_down(address, now)
        failures.add(address, now)
        raise
    if owner.access is None:
        raise ForbiddenError(what="the dashboard needs the admin token or a service token; a project key is not enough")
    return owner


def _with_cookie(request: Request, value: str, answer: object) -> Reply:
    cookie = session_cookies.set_session_cookie(value, secure=is_secure(request))
    return json_reply(answer, headers=[(b"set-cookie", cookie.encode())])


ROUTES = (
    Route(
        "POST", "/api/login", "login", "Exchange the admin token, or a service token, for a session cookie.", login, tag="Dashboard",
        body=Login, answers=(LoginAnswer,), errors=(401, 403, 422, 429, 503),
        notes="The cookie lasts 7 days, for a service token as long as `auth.oidc` says. After ten failed attempts from one address in a "
        "minute, wrong tokens get 429, a second late; the right one is always admitted.",
    ),
    Route(
        "POST", "/api/logout", "logout", "End the session.", logout, tag="Dashboard",
        answers=(LogoutAnswer,), errors=(422, 503),
    ),
    Route(
        "GET", "/api/session", "session", "Say who is asking, and whether a credential is needed.", session, tag="Dashboard",
        answers=(SessionState,),
    ),
)  # fmt: skip
