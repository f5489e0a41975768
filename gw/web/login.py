"""The dashboard's way in: `POST /api/login` and `/api/logout`, and `GET /api/session`, which says who asks.

Guessing is slow: an address that has failed `FAILURES_A_MINUTE` times gets 429 until a minute's share has come back,
also for the right token. Credentials in headers are not counted: they are 32 random bytes, or the operator's choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import trio

from gw.dialects.auth import principal
from gw.errors import AuthError, ForbiddenError, Overloaded
from gw.gateway import Gateway
from gw.policy.bucket import Bucket
from gw.registry.credentials import Principal
from gw.types.asgi import Scope
from gw.web import session_cookie
from gw.web.authorization import cookies, who
from gw.web.request_body import json_reply, no_body, read_json, scope
from gw.web.router import Reply, Request, RouteTable, shown
from gw.web.schemas_entities import Login

if TYPE_CHECKING:
    from quart import Blueprint, Response

FAILURES_A_MINUTE = 10
MOST_ADDRESSES = 1_000
"""Of those that failed; beyond it the one that began first is forgotten."""


class TooManyLogins(Overloaded):
    """This address has failed too often."""

    status: ClassVar[int] = 429
    code: ClassVar[str] = "too_many_attempts"


class Failures:
    """Failed logins by address. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def check(self, address: str, now: float) -> None:
        """Raises TooManyLogins."""
        bucket = self._buckets.get(address)
        if bucket is not None and not bucket.remaining(now):
            what = "too many failed logins from this address; try again later"
            raise TooManyLogins(what=what, retry_after_s=60 / FAILURES_A_MINUTE)

    def add(self, address: str, now: float) -> None:
        if address not in self._buckets and len(self._buckets) >= MOST_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        self._buckets.setdefault(address, Bucket(FAILURES_A_MINUTE, now)).take(now)


def blueprint(gateway: Gateway) -> Blueprint:
    from quart import Blueprint  # loaded with the first change

    routes = Blueprint("access", __name__, url_prefix="/api")
    failures = Failures()

    @routes.post("/login")
    async def login() -> Response:
        body = await read_json(Login)
        _check_token(gateway, failures, body.token)
        token = gateway.settings.auth.admin_token
        if not token:
            return json_reply({"status": "open", "expires_at": None})
        value = session_cookie.issue(token, gateway.clock.now())
        return _with_cookie(value, {"status": "logged_in", "expires_at": session_cookie.until(value)})

    @routes.post("/logout")
    async def logout() -> Response:
        await no_body()
        token, now = gateway.settings.auth.admin_token, gateway.clock.now()
        session_cookie.end(cookies(scope()), token, now, gateway.ended_sessions)
        return _with_cookie("", {"status": "logged_out"})

    return routes


def views(gateway: Gateway) -> RouteTable:
    routes = RouteTable("/api")

    @routes.get("/session")
    async def state(ask: Request) -> Reply:
        found = _principal(gateway, ask.scope)
        return shown(
            {
                "auth_on": gateway.settings.auth.on,
                "authenticated": found is not None,
                "principal": found.kind if found else None,
                "project": found.project if found else None,
                "expires_at": found.expires_at if found else None,
            }
        )

    return routes


def _check_token(gateway: Gateway, failures: Failures, token: str) -> None:
    """Raises AuthError, ForbiddenError and TooManyLogins."""
    client = scope().get("client")
    address, now = client[0] if client else "", trio.current_time()
    failures.check(address, now)
    try:
        found = principal(gateway, token.encode())
    except AuthError:
        failures.add(address, now)
        raise
    if not found.is_admin:
        raise ForbiddenError(what="the dashboard needs the admin token; a project key is not enough")


def _principal(gateway: Gateway, asking: Scope) -> Principal | None:
    try:
        return who(gateway, asking, gateway.clock.now())
    except AuthError:
        return None


def _with_cookie(value: str, answer: dict[str, object]) -> Response:
    cookie = session_cookie.set_cookie(value, secure=scope()["scheme"] == "https")
    return json_reply(answer, headers={"set-cookie": cookie})
