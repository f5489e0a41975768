"""The dashboard's session: `POST /api/login`, `POST /api/logout` and `GET /api/session`.

Failed logins are slowed down by address (`LoginFailures`). Credentials in headers are not: they are 32 random bytes,
or the operator's choice. The right token is admitted whatever failed before: behind a proxy all people have one address, and
somebody who guesses must not keep the administrator out.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import trio

from gw.admin.request_models import read
from gw.admin.schemas import Schema, from_attributes
from gw.dialects.auth import principal
from gw.errors import AuthError, ForbiddenError
from gw.web import authorization
from gw.web.authorization import caller, cookies
from gw.web.reply import Reply, json_reply
from gw.web.route import Request, Route


class Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class LoginAnswer(Schema):
    """`open`: the gateway asks for no credential, so there is no session."""

    status: Literal["logged_in", "open"]
    expires_at: float | None


class LogoutAnswer(Schema):
    status: Literal["logged_out"]


class SessionState(Schema):
    """`principal` is null where a credential is needed and none, or a wrong one, was sent."""

    auth_on: bool
    authenticated: bool
    principal: Literal["anyone", "admin", "key", "token"] | None
    project: str | None
    expires_at: float | None


async def login(request: Request) -> object:
    """Raises RequestError, AuthError, ForbiddenError, TooManyLogins."""
    gateway, token = request.gateway, read(request.body, Login).token
    await _check_token(request, token)
    admin_token = gateway.settings.auth.admin_token
    if not admin_token:
        return LoginAnswer(status="open", expires_at=None)
    value = authorization.issue_session(admin_token, gateway.clock.now())
    return _with_cookie(request, value, LoginAnswer(status="logged_in", expires_at=authorization.expiry_of(value)))


def logout(request: Request) -> Reply:
    gateway = request.gateway
    token, now = gateway.settings.auth.admin_token, gateway.clock.now()
    authorization.end_sessions(cookies(request.scope), token, now, gateway.ended_sessions)
    return _with_cookie(request, "", LogoutAnswer(status="logged_out"))


def session(request: Request) -> SessionState:
    gateway = request.gateway
    try:
        principal = caller(gateway, request.scope, gateway.clock.now())
    except AuthError:
        return SessionState(auth_on=True, authenticated=False, principal=None, project=None, expires_at=None)
    auth_on = gateway.settings.auth.on
    return from_attributes(SessionState, principal, auth_on=auth_on, authenticated=True, principal=principal.kind)


async def _check_token(request: Request, token: str) -> None:
    """Raises AuthError, ForbiddenError and TooManyLogins."""
    try:
        owner = principal(request.gateway, token.encode())
    except AuthError:
        client, failures = request.scope.get("client"), request.plane.login_failures
        address, now = client[0] if client else "", trio.current_time()
        await failures.slow_down(address, now)
        failures.add(address, now)
        raise
    if owner.kind not in ("admin", "anyone"):
        raise ForbiddenError(what="the dashboard needs the admin token; this credential is not enough")


def _with_cookie(request: Request, value: str, answer: object) -> Reply:
    cookie = authorization.set_session_cookie(value, secure=request.scope.get("scheme") == "https")
    return json_reply(answer, headers=[(b"set-cookie", cookie.encode())])


ROUTES = (
    Route(
        "POST", "/api/login", "login", "Exchange the admin token for a session cookie.", login, tag="Dashboard",
        body=Login, answers=(LoginAnswer,), errors=(401, 403, 422, 429),
        notes="The cookie lasts 7 days. After ten failed attempts from one address in a minute, wrong tokens get 429, a second late; "
        "the right one is always admitted.",
    ),
    Route(
        "POST", "/api/logout", "logout", "End the session.", logout, tag="Dashboard",
        answers=(LogoutAnswer,), errors=(422,),
    ),
    Route(
        "GET", "/api/session", "session", "Say who is asking, and whether a credential is needed.", session, tag="Dashboard",
        answers=(SessionState,),
    ),
)  # fmt: skip
