"""Authentication: from a request's headers and query to its project and ids.

One function reads the credential from every place where voice clients put it, and one maps it to a project; both planes use
them, so that access is decided in one place (`gw.registry.credentials`).

Places: `Authorization` as Bearer, Token or bare; `xi-api-key`; `x-api-key`; `api-key` (Azure's); `x-goog-api-key` (Google's); the
subprotocols `token, K`, `bearer, K` (Deepgram in a browser) and `openai-insecure-api-key.K` (OpenAI in a browser); the query fields
`token`, `access_token`, `api_key`, `single_use_token`, `key` (Google's in a browser). A short-lived token (`gw.registry.credentials`) is
accepted in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import unquote_to_bytes
from weakref import ref

import msgspec

from gw.config.settings import Auth
from gw.dialects.known_caller import KnownCaller, TokenClaims
from gw.errors import ForbiddenError, UnknownProjectError
from gw.gateway import Gateway
from gw.registry.catalog import Catalog
from gw.registry.credentials import Principal
from gw.types.asgi import Scope
from gw.types.base64url import decode_base64url
from gw.types.ids import Caller, TraceContext

DEFAULT_PROJECT = "default"
_QUERY_KEYS = (b"token", b"access_token", b"api_key", b"single_use_token", b"key")
_GW_QUERY = (b"gw_project", b"gw_session", b"gw_turn", b"gw_fallback", b"gw_regions")
_KEY_HEADERS = (b"xi-api-key", b"x-api-key", b"api-key", b"x-goog-api-key")
_OPENAI_PROTOCOL = b"openai-insecure-api-key."
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]([0-9a-f])(?:-.*)?")
_TRACE = frozenset((b"traceparent", b"tracestate"))
_MAX_TRACE_STATE = 512
_MAX_ID_CHARACTERS = 128

Headers = Iterable[tuple[bytes, bytes]]


_CLAIMS = msgspec.json.Decoder(TokenClaims)


def credential(headers: Headers, query: bytes = b"") -> bytes | None:
    """Return the credential as sent, or None. Header names are lower-case; `query` is the raw query string."""
    by_name: dict[bytes, bytes] = {}
    for name, value in headers:
        by_name.setdefault(name, value)
    if authorization := by_name.get(b"authorization"):
        scheme, _, value = authorization.strip().partition(b" ")
        is_scheme = scheme.lower() in (b"bearer", b"token")
        if value and is_scheme:
            return _issuer(value.strip())
        if not value and not is_scheme:
            return scheme
    for name in _KEY_HEADERS:
        if key := by_name.get(name):
            return key.strip()
    if (offered := by_name.get(b"sec-websocket-protocol")) and (embedded := _from_subprotocols(offered)):
        return embedded
    if query:
        fields = query_fields(query, _QUERY_KEYS)
        return next((fields[name] for name in _QUERY_KEYS if fields.get(name)), None)
    return None


def _issuer(token: bytes) -> bytes:
    """Return the issuer of a token that a LiveKit client signed itself, which is its API key; other tokens unchanged.

    The signature adds nothing: a client that knows the key has it, and it was signed with a secret that is not ours.
    """
    head, _, payload = token.partition(b".")
    claims, dot, _ = payload.partition(b".")
    if not (dot and head.startswith(b"eyJ")):
        return token
    try:
        issuer = _CLAIMS.decode(decode_base64url(claims)).iss
    except (ValueError, msgspec.DecodeError):
        return token
    return issuer.encode() or token


def _from_subprotocols(offered: bytes) -> bytes | None:
    """Return the credential among the subprotocols of a browser. Deepgram's SDK adds the id of its session as two more names."""
    names = [name.strip() for name in offered.split(b",")]
    for name in names:
        if name.startswith(_OPENAI_PROTOCOL):
            return name[len(_OPENAI_PROTOCOL) :] or None
    for scheme, key in pairwise(names):
        if scheme.lower() in (b"token", b"bearer"):
            return key or None
    return None


def query_fields(query: bytes, wanted: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the first value of each wanted field of a query string, percent-decoded."""
    fields: dict[bytes, bytes] = {}
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name in wanted and name not in fields:
            fields[name] = unquote_to_bytes(value.replace(b"+", b" "))
    return fields


def principal(gateway: Gateway, presented: bytes | None) -> Principal:
    """Return the principal of a credential. Raises what `Credentials.principal` raises."""
    return gateway.credentials.principal(gateway.settings.auth, gateway.current.catalog, presented)


def grant(
    gateway: Gateway, scope: Scope, project: str, lifetime_s: float, *, single_use: bool = False, session: bytes = b""
) -> tuple[str, float]:
    """Return a short-lived token and its end, made with the credential of a request that `identify` has let in.

    `session`: settings of the realtime sessions that are opened with it, as JSON.
    """
    presented = credential(scope["headers"], scope.get("query_string", b"")) or b""
    expires_at = gateway.clock.now() + lifetime_s
    token = gateway.credentials.grant(presented, project, expires_at, single_use=single_use, session=session)
    return token, expires_at


def granted_session(gateway: Gateway, scope: Scope) -> bytes:
    """Return the settings, as JSON, that the token of a request has for realtime sessions; empty without such a token."""
    presented = credential(scope["headers"], scope.get("query_string", b""))
    return gateway.credentials.session_of(presented) if presented else b""


def request_id(gateway: Gateway, scope: Scope) -> str:
    """Return the id of the request that this scope belongs to: 32 hex digits, created at the first call."""
    id_: str | None = scope.get("gw.request_id")
    if id_ is None:
        id_ = scope["gw.request_id"] = gateway.request_ids.new()
    return id_


_EMPTY: Mapping[str, Any] = {}


def identify(gateway: Gateway, scope: Scope, *, dialect: str = "") -> Caller:
    """Return the caller of an ASGI request (`http` or `websocket`).

    A key determines the project. The admin token, and anyone in open mode, may choose one with `X-GW-Project` or `gw_project`; the
    default is `default`. A service token must have the role operator for the project. `scope["gw.session"]` is the principal of the
    dashboard's cookie, set if the request comes from one of its own pages; it counts if no credential was sent. A single-use token is
    used up here. Raises AuthError, ForbiddenError (a key with another project's name, or a role that may not call models),
    UnknownProjectError, and Overloaded for a single-use token when too many others have been used.
    """
    cached: KnownCaller | None = scope.get("gw.known", _EMPTY).get("caller")
    auth, catalog = gateway.settings.auth, gateway.current.catalog
    if cached is not None and cached.auth is auth and cached.catalog() is catalog and cached.caller.dialect == dialect:
        return msgspec.structs.replace(cached.caller, request_id=request_id(gateway, scope), link=scope.get("gw.link"))
    caller, cacheable = _identify(gateway, scope, auth, catalog, dialect)
    if cacheable and "gw.known" in scope:
        scope["gw.known"]["caller"] = KnownCaller(auth, ref(catalog), msgspec.structs.replace(caller, link=None))
    return caller


def _identify(gateway: Gateway, scope: Scope, auth: Auth, catalog: Catalog, dialect: str) -> tuple[Caller, bool]:
    """Return the caller, and whether the same request head means the same caller while settings and catalog are unchanged."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    query: bytes = scope.get("query_string", b"")
    presented = credential(headers, query) if auth.on or catalog.keys or catalog.tokens else None
    logged_in: Principal | None = scope.get("gw.session") if presented is None else None
    bearer = logged_in or principal(gateway, presented)
    fields = _gw_fields(headers, query)
    chosen = _text(fields.get(b"project"))
    if bearer.project is not None and chosen not in (None, bearer.project):
        raise ForbiddenError(what="this key belongs to another project")
    projects = catalog.projects
    project = bearer.project or _project_of(bearer, chosen)
    if project not in projects:
        raise UnknownProjectError(name=project, available=() if bearer.kind == "key" else tuple(projects))
    if bearer.single_use_id:
        gateway.credentials.use_up(bearer)
        scope["gw.single_use"] = bearer
    vendor, path_vendor = vendors_of(dialect, scope["path"], headers, catalog)
    trace = trace_context(fields[b"traceparent"], fields.get(b"tracestate", b"")) if b"traceparent" in fields else None
    caller = Caller(
        project=project, key_id=bearer.key_id, limits=bearer.limits, session_id=_text(fields.get(b"session")),
        turn_id=_text(fields.get(b"turn")) or (None if trace is None else trace.trace_id), trace=trace,
        request_id=request_id(gateway, scope), link=scope.get("gw.link"), endpoint=scope["path"], dialect=dialect,
        vendor=vendor, path_vendor=path_vendor,
        fallback=fields.get(b"fallback", b"").lower() != b"off",
        regions=_regions(fields[b"regions"]) if b"regions" in fields else (),
    )
    return caller, logged_in is None and bearer.expires_at is None


def _project_of(bearer: Principal, chosen: str | None) -> str:
    """Return the project of a caller who is not bound to one. Raises ForbiddenError and UnknownProjectError."""
    access = bearer.access
    if access is None or not access.covers("operator"):
        raise ForbiddenError(what="calling models needs the role operator, or a project's key")
    if access.projects is None:
        return chosen or DEFAULT_PROJECT
    if chosen is None and len(access.projects) == 1:
        return next(iter(access.projects))
    if chosen is None:
        raise ForbiddenError(what=f"name a project with X-GW-Project: {', '.join(sorted(access.projects))}")
    if chosen not in access.projects:
        raise UnknownProjectError(name=chosen, available=tuple(sorted(access.projects)))
    return chosen


def vendors_of(dialect: str, path: str, headers: Headers, catalog: Catalog) -> tuple[str, str]:
    """Return the provider type whose API the caller was written for, and another one that it may mean by a name, or "".

    OpenAI's protocol below `/openai/v1` is the address of Groq's API and of Azure's: Groq's own SDK says its name, and where no OpenAI
    provider is configured, the others mean Groq as well. Else the name decides: frameworks call Groq by other HTTP clients.
    """
    if dialect == "openai" and path.startswith("/livekit/"):
        return dialect, "livekit"
    types = {provider.type for provider in catalog.providers.values()}
    if dialect != "openai" or not path.startswith("/openai/v1/") or "groq" not in types:
        return dialect, ""
    names_itself = any(name == b"user-agent" and b"groq/" in value.lower() for name, value in headers)
    return ("groq", "") if names_itself or "openai" not in types else (dialect, "groq")


def _gw_fields(headers: Headers, query: bytes) -> Mapping[bytes, bytes]:
    """Return `X-GW-<Name>` headers and `gw_<name>` query fields by bare name, headers winning; and those of a trace."""
    fields: dict[bytes, bytes] = {}
    if b"gw_" in query:
        fields = {name[3:]: value for name, value in query_fields(query, _GW_QUERY).items()}
    for name, value in headers:
        if name.startswith(b"x-gw-"):
            fields[name[5:]] = value.strip()
        elif name in _TRACE:
            fields[name] = fields[name] + b"," + value.strip() if name in fields else value.strip()
        elif name == b"x-livekit-job-id":  # one per call; X-LiveKit-Session-ID is one per request (livekit.agents.inference._utils)
            fields.setdefault(b"session", value.strip())
    return fields


def _text(value: bytes | None) -> str | None:
    """Return an id that the client sent, at most 128 characters; None if it is empty or has control characters."""
    if not value:
        return None
    text = value.decode("utf-8", "replace")[:_MAX_ID_CHARACTERS]
    return text if text.isprintable() else None


def _regions(value: bytes) -> tuple[str, ...]:
    return tuple([region.strip() for region in value.decode("utf-8", "replace")[:_MAX_ID_CHARACTERS].split(",")])


def trace_context(traceparent: bytes, state: bytes = b"") -> TraceContext | None:
    """Return the caller's span by `traceparent` (W3C Trace Context, section 3.2), whose trace id also serves as a turn id.

    None for an invalid value. A `tracestate` that is too long or has characters that are not allowed is left out.
    """
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return None
    usable = len(state) <= _MAX_TRACE_STATE and state.isascii() and state.decode("ascii").isprintable()
    return TraceContext(
        trace_id=match[1].decode(), span_id=match[2].decode(), sampled=int(match[3], 16) & 1 == 1,
        state=state.decode("ascii") if usable else "",
    )  # fmt: skip
