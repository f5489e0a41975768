"""Who may come in: browsers of foreign pages may not, and each route asks for a right.

`fenced` wraps an ASGI app and looks at Host and Origin only; it says nothing about credentials. It keeps a page of some
other site from using its visitor's browser against a gateway on the visitor's machine: by a name that is made to point
at 127.0.0.1 (DNS rebinding: the Host header tells), or by plain cross-site requests (Origin and Sec-Fetch-Site tell;
looked at on everything but GET, HEAD and OPTIONS, and on WebSocket upgrades, which browsers send without a preflight).

`authorize` is called with the right that the matched route needs. Rights: `public`; `data` (a project key or the admin
token); `metrics` (open on loopback, else the admin token); `admin`.

The dashboard's session opens the control plane by its cookie alone. On the data plane, whose bodies need no preflight
(a form with a file in it), it counts only beside the header `X-GW-Dashboard`: a page of another site cannot send that,
since the preflight for it is never granted, not even to `serve.cors_origins`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Literal

from gw.config.settings import Serve, Settings
from gw.dialects.auth import Access, credential, principal, request_id
from gw.errors import AuthError, ForbiddenError
from gw.registry.credentials import Principal
from gw.types.asgi import ASGIApp, Message, Receive, Scope, Send
from gw.web import session_cookie
from gw.web.error_responses import of_gateway
from gw.web.reply import Reply

Right = Literal["public", "data", "metrics", "admin"]

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_CORS_HEADERS = (
    b"authorization, content-type, xi-api-key, x-api-key, api-key, anthropic-version, anthropic-beta, "
    b"cartesia-version, x-gw-project, x-gw-session, x-gw-turn, x-gw-fallback, traceparent"
)
_OF_DASHBOARD = b"x-gw-dashboard"
_CORS_EXPOSED = b"x-request-id, retry-after, x-gw-model, x-gw-attempts, x-gw-cost-usd, server-timing, dg-request-id"


def authorize(access: Access, right: Right, scope: Scope, now: float) -> None:
    """Raises AuthError (no or wrong credential) or ForbiddenError (a good one without the right).

    `now` in Unix seconds.
    """
    if right == "public" or (right == "metrics" and _from_this_machine(access.settings.serve, scope)):
        return
    principal = who(access, scope, now)
    if right != "data" and not principal.is_admin:
        raise ForbiddenError(what="this needs the admin token; a project key is not enough")


def who(access: Access, scope: Scope, now: float) -> Principal:
    """Whose request this is: by its credential, or the dashboard's session. Raises AuthError."""
    presented = credential(scope["headers"], scope.get("query_string", b"")) if access.settings.auth.on else None
    found = _logged_in(access, scope, now) if presented is None else None
    return found or principal(access, presented)


def _logged_in(access: Access, scope: Scope, now: float) -> Principal | None:
    token = access.settings.auth.admin_token
    ends = session_cookie.valid_until(cookies(scope), token, now, access.ended_sessions) if token else None
    return Principal(kind="admin", expires_at=ends) if ends is not None else None


def cookies(scope: Scope) -> Iterable[bytes]:
    return (value for name, value in scope["headers"] if name == b"cookie")


def _from_this_machine(serve: Serve, scope: Scope) -> bool:
    """Bound to loopback and not reached through a proxy, which would make the whole world look local."""
    client = scope.get("client")
    if not is_loopback(serve.host) or not client or not is_loopback(client[0]):
        return False
    return not any(name in (b"forwarded", b"x-forwarded-for", b"x-real-ip") for name, _ in scope["headers"])


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def host_allowed(settings: Settings, host: str) -> bool:
    """`host` without its port. Loopback names, `serve.host` and `serve.allowed_hosts` are always good.

    Bound beyond loopback, addresses are good too (a rebound name is never an address), and so is any name when the
    gateway asks for credentials and no list was given: then it is the credential that protects it.
    """
    serve = settings.serve
    if is_loopback(host) or host == serve.host.lower() or _listed(host, serve.allowed_hosts):
        return True
    if is_loopback(serve.host):
        return False
    return _is_address(host) or (settings.auth.on and not serve.allowed_hosts)


def _listed(host: str, allowed: Iterable[str]) -> bool:
    """`example.org` exactly, `*.example.org` below it, `*` anything."""
    return any(
        entry == "*" or host == entry.lower() or (entry.startswith("*.") and host.endswith(entry[1:].lower()))
        for entry in allowed
    )


def host_of(authority: str) -> str:
    """`Example.org:8080` → `example.org`; `[::1]:8080` → `::1`."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower().rstrip(".")


def check_origin(settings: Settings, scope: Scope) -> bytes | None:
    """The Origin to name in CORS headers, where `serve.cors_origins` has it. Raises ForbiddenError for foreigners."""
    host = origin = site = None
    for name, value in scope["headers"]:
        if name == b"host":
            host = value.decode("latin-1").strip()
            if not host_allowed(settings, host_of(host)):
                raise ForbiddenError(what="this Host is not served here; list it in serve.allowed_hosts")
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            site = value
    if origin is not None and origin.decode("latin-1") in settings.serve.cors_origins:
        return bytes(origin)
    if scope["type"] == "http" and scope["method"] in _SAFE:
        return None
    if origin is not None and not _same_host(origin.decode("latin-1"), host):
        raise ForbiddenError(what="this Origin may not do that; list it in serve.cors_origins")
    if origin is None and site in (b"cross-site", b"same-site"):
        raise ForbiddenError(what="a page of another site may not do that")
    return None


def _same_host(origin: str, host: str | None) -> bool:
    """Scheme aside: a proxy in front may end TLS."""
    scheme, _, authority = origin.lower().partition("://")
    return scheme in ("http", "https") and bool(host) and authority == (host or "").lower()


def fenced(app: ASGIApp, access: Access) -> ASGIApp:
    """`app` behind the Host and Origin checks, with CORS for `serve.cors_origins`. Costs a pass over the headers."""

    def fence(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] not in ("http", "websocket"):
            return app(scope, receive, send)
        settings = access.settings
        known = scope.get("gw.known", {})
        if known.get("fence") is settings:  # the same head came before, with these settings, from where it may
            return app(scope, receive, send)
        try:
            origin = check_origin(settings, scope)
        except ForbiddenError as error:
            return _refuse(access, scope, send, error)
        if origin is None:
            if settings.auth.on and scope["type"] == "http" and _from_dashboard(scope):
                scope["gw.session"] = _logged_in(access, scope, access.clock.now())
            elif "gw.known" in scope:
                known["fence"] = settings
            return app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            return _preflight(access, scope, send, origin)
        return app(scope, receive, _sharing(send, origin))

    return fence


def _from_dashboard(scope: Scope) -> bool:
    return any(name == _OF_DASHBOARD for name, _ in scope["headers"])


async def _refuse(access: Access, scope: Scope, send: Send, error: AuthError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # before the accept: a 403 on the wire
        return
    ident = request_id(access, scope)
    await of_gateway(error, ident).send(send, [(b"x-request-id", ident.encode())])


async def _preflight(access: Access, scope: Scope, send: Send, origin: bytes) -> None:
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", _CORS_HEADERS + _stainless(scope)),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin"),
        (b"x-request-id", request_id(access, scope).encode()),
    ]
    await Reply(b"", b"", headers, 204).send(send, [])


def _stainless(scope: Scope) -> bytes:
    """The `x-stainless-*` headers a generated SDK asks for, which have many names."""
    asked = next((value for name, value in scope["headers"] if name == b"access-control-request-headers"), b"")
    names = (name.strip().lower() for name in asked.split(b","))
    return b"".join(b", " + n for n in names if n.startswith(b"x-stainless-") and n.replace(b"-", b"").isalnum())


def _sharing(send: Send, origin: bytes) -> Send:
    added = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _CORS_EXPOSED),
        (b"vary", b"origin"),
    ]

    async def share(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return share
