"""Access control: every route needs a right, and pages of other sites are refused.

`fenced` wraps an ASGI app and checks Host and Origin only; credentials are not its concern. It keeps a page of another
site from using its visitor's browser against a gateway on the visitor's machine: through a name that resolves to 127.0.0.1
(DNS rebinding; the Host header reveals it), or by plain cross-site requests (Origin and Sec-Fetch-Site reveal them;
checked on everything but GET, HEAD and OPTIONS, and on WebSocket upgrades, which browsers send without a preflight).

`authorize` is called with what the matched route needs (`gw.web.rights`).

The dashboard's session cookie is enough for the control plane. On the data plane, whose bodies need no preflight (a form
with a file), it counts only with the header `X-GW-Dashboard`: a page of another site cannot send that, because its
preflight is never granted, not even to `serve.cors_origins`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from ipaddress import ip_address

import msgspec
import trio

from gw.admin.logins import touch
from gw.config.settings import ANY_ORIGIN, Serve, Settings
from gw.dialects.auth import credential, principal, request_id
from gw.dialects.request_io import header
from gw.errors import AuthError, ForbiddenError, Overloaded
from gw.gateway import Gateway
from gw.policy.bucket import Bucket
from gw.registry.credentials import ADMIN, Principal
from gw.types.address import is_loopback
from gw.types.asgi import ASGIApp, Message, Receive, Scope, Send
from gw.web.reply import Reply, gateway_error
from gw.web.rights import ROLE_OF, Need
from gw.web.session_cookies import cookies, session_expiry, sessions_of

FAILURES_A_MINUTE = 10
HELD_S = 1.0  # before a wrong token gets its 429
MAX_HELD = 100  # answers that wait so; beyond it the next ones are given at once
MAX_ADDRESSES = 1_000  # addresses that are remembered; beyond it the one added first is forgotten

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_DASHBOARD = b"x-gw-dashboard"
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]{1,100}")
_MAX_ASKED = 100  # names of headers in one preflight


def authorize(gateway: Gateway, need: Need, scope: Scope, now: float) -> Principal | None:
    """Return who may do what `need` says, None where nobody is asked. `now`: Unix seconds.

    Raises AuthError (no or wrong credential) or ForbiddenError (a valid one without the right). A single-use token that is let in is
    used up here, and Overloaded raised when too many others have been used.
    """
    if need.right == "public" or (need.right == "metrics" and _from_this_machine(gateway.settings.serve, scope)):
        return None
    principal = caller(gateway, scope, now)
    access, role = principal.access, ROLE_OF.get(need.right)
    if role is not None and access is None and need.right != "call":
        raise ForbiddenError(what="this needs the admin token, or somebody with a role; a project key is not enough")
    if role is not None and access is not None and not access.covers(role):
        raise ForbiddenError(what=f"this needs the role {role}; yours is {access.role}")
    if need.capture and (access is None or not access.capture):
        raise ForbiddenError(what="this needs the right to read captured content")
    gateway.credentials.use_up(principal)
    return principal


def still_may(gateway: Gateway, need: Need, scope: Scope, projects: frozenset[str] | None) -> bool:
    """Return whether whoever sent a request that goes on has its right still, for the same projects. It counts as a use of a session."""
    try:
        principal = authorize(gateway, need, scope, gateway.clock.now())
    except AuthError:
        return False
    if principal is not None and principal.login_id:
        keep_login(gateway, principal)
    return projects == (principal.access.projects if principal is not None and principal.access is not None else None)


def caller(gateway: Gateway, scope: Scope, now: float) -> Principal:
    """Identify the caller by the request's credential, or by the dashboard's session. Raises AuthError."""
    needs_one = gateway.settings.auth.on or gateway.current.catalog.tokens
    presented = credential(scope["headers"], scope.get("query_string", b"")) if needs_one else None
    session = _session(gateway, scope, now) if presented is None else None
    return session or principal(gateway, presented)


def _session(gateway: Gateway, scope: Scope, now: float) -> Principal | None:
    auth, catalog = gateway.settings.auth, gateway.current.catalog
    ends = session_expiry(cookies(scope), auth.admin_token, now, gateway.ended_sessions) if auth.admin_token else None
    if ends is not None:
        return msgspec.structs.replace(ADMIN, expires_at=ends)
    if not catalog.logins:
        return None
    holders = (gateway.credentials.session(auth, catalog, value) for value in sessions_of(cookies(scope)))
    return next((holder for holder in holders if holder is not None), None)


def keep_login(gateway: Gateway, holder: Principal) -> None:
    """Write from time to time that a stored session is in use; the request does not wait for it."""
    if gateway.credentials.should_store_use(gateway.settings.auth, gateway.current.catalog, holder.login_id):
        with suppress(Overloaded):
            gateway.background.start(partial(touch, gateway.registrar, holder.login_id, holder.name))


def _from_this_machine(serve: Serve, scope: Scope) -> bool:
    """Return whether a gateway bound to loopback got this from loopback, without a proxy, which makes every client local."""
    client = scope.get("client")
    if not _is_loopback(serve.host) or not client or not _is_loopback(client[0]):
        return False
    return not any(header(scope, name) is not None for name in (b"forwarded", b"x-forwarded-for", b"x-real-ip"))


@lru_cache(maxsize=256)
def _is_loopback(host: str) -> bool:
    return host.endswith(".localhost") or is_loopback(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def host_allowed(settings: Settings, host: str) -> bool:
    """Return whether `host`, without its port, may be in a Host header.

    Loopback names, the unspecified address, `serve.host` and `serve.allowed_hosts` always may. If the gateway is bound beyond
    loopback, addresses may too (a rebound name is never an address), and any name may if credentials are needed and no list
    is configured: then the credential is the protection.
    """
    serve = settings.serve
    if _is_loopback(host) or host in _ANY_ADDRESS or host == serve.host.lower() or _listed(host, serve.allowed_hosts):
        return True
    if _is_loopback(serve.host):
        return False
    return _is_address(host) or (settings.auth.on and not serve.allowed_hosts)


_ANY_ADDRESS = ("0.0.0.0", "::")
"""Addresses that clients connect to as this machine, when they use the address that a server is bound to."""


def _listed(host: str, allowed: Iterable[str]) -> bool:
    """Match `example.org` exactly, `*.example.org` against names below it, `*` against anything."""
    return any(
        entry == "*" or host == entry.lower() or (entry.startswith("*.") and host.endswith(entry[1:].lower()))
        for entry in allowed
    )


def host_in(authority: str) -> str:
    """Return the host without its port: `Example.org:8080` → `example.org`; `[::1]:8080` → `::1`."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower().rstrip(".")


def check_origin(settings: Settings, scope: Scope) -> bytes | None:
    """Return the Origin for CORS headers if `serve.cors_origins` has it. Raises ForbiddenError for a foreign Host or page."""
    host = origin = site = None
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1").strip()
            if not host_allowed(settings, host_in(host)):
                raise ForbiddenError(what="this Host is not served here; list it in serve.allowed_hosts")
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            site = value
    listed = settings.serve.cors_origins
    if origin is not None and listed and (origin.decode("latin-1") in listed or ANY_ORIGIN in listed):
        return bytes(origin)
    if scope["type"] == "http" and scope["method"] in _SAFE:
        return None
    if origin is not None and not _same_host(origin.decode("latin-1"), host):
        raise ForbiddenError(what="this Origin may not do that; list it in serve.cors_origins")
    if origin is None and site in (b"cross-site", b"same-site"):
        raise ForbiddenError(what="a page of another site may not do that")
    return None


def _same_host(origin: str, host: str | None) -> bool:
    """Compare without the scheme: a proxy in front may end TLS."""
    scheme, _, authority = origin.lower().partition("://")
    return scheme in ("http", "https") and bool(host) and authority == (host or "").lower()


def fenced(app: ASGIApp, gateway: Gateway) -> ASGIApp:
    """Return `app` behind the Host and Origin checks, with CORS for `serve.cors_origins`. Costs a pass over the headers."""

    def fence(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] not in ("http", "websocket"):
            return app(scope, receive, send)
        settings = gateway.settings
        known = scope.get("gw.known", {})
        if known.get("fence") is settings:  # the same head has passed with these settings
            return app(scope, receive, send)
        try:
            origin = check_origin(settings, scope)
        except ForbiddenError as error:
            return _refuse(gateway, scope, send, error)
        if origin is None:
            if settings.auth.on and scope["type"] == "http" and header(scope, _DASHBOARD) is not None:
                scope["gw.session"] = _session(gateway, scope, gateway.clock.now())
            elif "gw.known" in scope:
                known["fence"] = settings
            return app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            return _preflight(gateway, scope, send, origin)
        return app(scope, receive, _with_cors(send, origin))

    return fence


async def _refuse(gateway: Gateway, scope: Scope, send: Send, error: AuthError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # before the accept, so the client gets a 403
        return
    ident = request_id(gateway, scope)
    await gateway_error(error, ident).send(send, [(b"x-request-id", ident.encode())])


async def _preflight(gateway: Gateway, scope: Scope, send: Send, origin: bytes) -> None:
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin, access-control-request-headers"),
        (b"x-request-id", request_id(gateway, scope).encode()),
    ]
    if names := _allowed_headers(header(scope, b"access-control-request-headers") or b""):
        headers.append((b"access-control-allow-headers", b", ".join(names)))
    if header(scope, b"access-control-request-private-network") == b"true":  # a public page and a gateway in a private network
        headers.append((b"access-control-allow-private-network", b"true"))
    await Reply(b"", b"", headers, 204).send(send, [])


def _allowed_headers(requested: bytes) -> list[bytes]:
    """Return the requested header names that are valid. Every SDK sends some of its own, so none is refused but the dashboard's."""
    names = dict.fromkeys(name.strip().lower() for name in requested.split(b",", _MAX_ASKED)[:_MAX_ASKED])
    return [name for name in names if name != _DASHBOARD and _HEADER_NAME.fullmatch(name)]


def _with_cors(send: Send, origin: bytes) -> Send:
    """Return `send` with the headers that let the page read the answer and all of its headers.

    `*` covers every header, because credentials in the sense of CORS (cookies) are never allowed.
    """
    allowed = (b"access-control-allow-origin", origin)
    added = [allowed, (b"access-control-expose-headers", b"*"), (b"vary", b"origin")]

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_with_cors


class TooManyLogins(Overloaded, status=429, code="too_many_attempts"):
    """This address has failed too often."""


class LoginFailures:
    """Limit of failed logins by address, so that guessing the admin token is slow. `now` is monotonic seconds.

    Wrong tokens from an address that has failed `FAILURES_A_MINUTE` times are answered 429, after `HELD_S`, until a minute's
    share has come back.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._held = 0

    async def slow_down(self, address: str, now: float) -> None:
        """Return at once if this address may fail once more. Raises TooManyLogins, late if not too many are held already."""
        bucket = self._buckets.get(address)
        if bucket is None or bucket.remaining(now):
            return
        if self._held < MAX_HELD:
            self._held += 1
            try:
                await trio.sleep(HELD_S)
            finally:
                self._held -= 1
        what = "too many failed logins from this address; try again later"
        raise TooManyLogins(what=what, retry_after_s=60 / FAILURES_A_MINUTE)

    def add(self, address: str, now: float) -> None:
        if address not in self._buckets and len(self._buckets) >= MAX_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]
        self._buckets.setdefault(address, Bucket(FAILURES_A_MINUTE, now)).take(now)
