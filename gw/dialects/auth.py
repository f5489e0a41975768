"""Authentication: from a request's headers and query to its project and ids.

One function reads the credential from every place where voice clients put it, and one maps it to a project; both planes use
them, so that access is decided in one place. A credential is looked up by its SHA-256: the time that takes reveals nothing
about existing credentials, and any bytes are allowed.

Places: `Authorization` as Bearer, Token or bare; `xi-api-key`; `x-api-key`; `api-key` (Azure's); the subprotocols
`token, K`, `bearer, K` (Deepgram in a browser) and `openai-insecure-api-key.K` (OpenAI in a browser); the query fields
`token`, `access_token`, `api_key`, `single_use_token`. A short-lived token (`gw.dialects.short_lived_tokens`) is accepted in
each of them.
"""

from __future__ import annotations

import random
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, Protocol
from urllib.parse import unquote_to_bytes

import attrs
import msgspec

from gw.config.settings import Auth, Settings
from gw.dialects import short_lived_tokens
from gw.errors import AuthError, ForbiddenError, Overloaded, UnknownProjectError
from gw.registry.catalog import AccessKey, Catalog
from gw.telemetry.clock import Clock, SystemClock
from gw.types.asgi import Scope
from gw.types.caller import Caller

DEFAULT_PROJECT = "default"
_QUERY_KEYS = (b"token", b"access_token", b"api_key", b"single_use_token")
_GW_QUERY = (b"gw_project", b"gw_session", b"gw_turn", b"gw_fallback")
_KEY_HEADERS = (b"xi-api-key", b"x-api-key", b"api-key")
_OPENAI_PROTOCOL = b"openai-insecure-api-key."
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_MAX_ID_CHARACTERS = 128

Headers = Iterable[tuple[bytes, bytes]]


class _Claims(msgspec.Struct):
    iss: str = ""


_CLAIMS = msgspec.json.Decoder(_Claims)


class _Live(Protocol):
    @property
    def catalog(self) -> Catalog: ...


class Access(Protocol):
    """The parts of a gateway that authentication needs: the settings and catalog in force, and the clock."""

    @property
    def settings(self) -> Settings: ...

    @property
    def live(self) -> _Live: ...

    @property
    def clock(self) -> Clock: ...


@attrs.frozen(kw_only=True)
class Principal:
    """Identity that a credential stands for; `anyone` in open mode, which needs none. `project` is a key's project.

    `single_use_id` is the id of a short-lived token for one request.
    """

    kind: Literal["anyone", "admin", "key"]
    project: str | None = None
    key_id: str | None = None
    expires_at: float | None = None
    single_use_id: bytes = b""

    @property
    def is_admin(self) -> bool:
        return self.kind != "key"


_ANYONE = Principal(kind="anyone")
_ADMIN = Principal(kind="admin")


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
        issuer = _CLAIMS.decode(urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))).iss
    except (ValueError, msgspec.DecodeError):
        return token
    return issuer.encode() or token


def _from_subprotocols(offered: bytes) -> bytes | None:
    names = [name.strip() for name in offered.split(b",")]
    for name in names:
        if name.startswith(_OPENAI_PROTOCOL):
            return name[len(_OPENAI_PROTOCOL) :] or None
    if len(names) == 2 and names[0].lower() in (b"token", b"bearer"):
        return names[1] or None
    return None


def query_fields(query: bytes, wanted: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the first value of each wanted field of a query string, percent-decoded."""
    fields: dict[bytes, bytes] = {}
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name in wanted and name not in fields:
            fields[name] = unquote_to_bytes(value.replace(b"+", b" "))
    return fields


class _KeyRing:
    """Principals of one `Auth` and one catalog, by digest of their credential."""

    def __init__(self, auth: Auth, keys: tuple[AccessKey, ...]) -> None:
        self.auth = auth
        self.keys = keys
        self.principals: dict[bytes, Principal] = {}
        for access_key in keys:
            self.principals[access_key.digest] = Principal(
                kind="key", project=access_key.project, key_id=access_key.id, expires_at=access_key.expires_at
            )
        for number, key in enumerate(auth.keys, 1):
            by_name = Principal(kind="key", project=key.project, key_id=key.name or f"key-{number}")
            self.principals[_digest(key.key.reveal().encode())] = by_name
        if auth.admin_token:
            self.principals[_digest(auth.admin_token.reveal().encode())] = _ADMIN

    def principal(self, presented: bytes) -> Principal | None:
        return self.principals.get(_digest(presented)) or self._token_principal(presented)

    def _token_principal(self, presented: bytes) -> Principal | None:
        """Return the principal of a token: its project, until it or the key it was made with expires."""
        grant = short_lived_tokens.read(presented)
        key = self._by_fingerprint.get(grant.key) if grant is not None else None
        if grant is None or key is None:
            return None
        expires_at = grant.expires_at if key.expires_at is None else min(grant.expires_at, key.expires_at)
        return Principal(
            kind="key", project=grant.project, key_id=key.key_id, expires_at=expires_at, single_use_id=grant.single_use_id
        )

    @cached_property
    def _by_fingerprint(self) -> dict[bytes, Principal]:
        return {short_lived_tokens.key_fingerprint(digest): key for digest, key in self.principals.items()}


def _digest(value: bytes) -> bytes:
    return sha256(value).digest()


_ring: _KeyRing | None = None  # of the latest keys; a reload or a change brings new ones


def principal(access: Access, presented: bytes | None) -> Principal:
    """Return the principal of `presented`. Raises AuthError if it is missing or wrong, unless the gateway is open.

    In an open gateway a key created through the API still names its bearer's project.
    """
    global _ring
    auth, keys = access.settings.auth, access.live.catalog.keys
    if not auth.on and not (keys and presented):
        return _ANYONE
    if not presented:
        raise AuthError()
    ring = _ring
    if ring is None or ring.auth is not auth or ring.keys is not keys:
        ring = _ring = _KeyRing(auth, keys)
    bearer = ring.principal(presented)
    if bearer is not None and (reason := _invalid_reason(bearer, access.clock.now())):
        if auth.on:
            raise AuthError(what=reason)
        bearer = None
    if auth.on:
        if bearer is None:
            raise AuthError(what="this credential is not known")
        return bearer
    return _ANYONE if bearer is None else attrs.evolve(bearer, kind="anyone")


def _invalid_reason(bearer: Principal, now: float) -> str | None:
    """Return why a credential is no longer valid; None if it is."""
    if bearer.expires_at is not None and bearer.expires_at <= now:
        return "this key has expired"
    is_used = bearer.single_use_id and bearer.single_use_id in short_lived_tokens.used
    return "this token was valid for one request" if is_used else None


def _use_up(single_use_id: bytes, expires_at: float, now: float) -> None:
    if not short_lived_tokens.used.add(single_use_id, expires_at, now):
        raise Overloaded(what="too many single-use tokens have been used lately")


def grant(access: Access, scope: Scope, project: str, lifetime_s: float, *, once: bool = False) -> str:
    """Return a short-lived token for `project`, made with the credential of a request that `identify` has let in.

    `once`: it is valid for one request. Raises ForbiddenError for a request that came with a token itself.
    """
    presented = credential(scope["headers"], scope.get("query_string", b"")) or b""
    if short_lived_tokens.read(presented) is not None:
        raise ForbiddenError(what="a short-lived token cannot make another one; use the key")
    contents = short_lived_tokens.Grant(
        key=short_lived_tokens.key_fingerprint(_digest(presented)),
        project=project,
        expires_at=access.clock.now() + lifetime_s,
        single_use_id=short_lived_tokens.new_single_use_id() if once else b"",
    )
    return short_lived_tokens.issue(contents)


_ids = random.Random()  # seeded by the system; ids must be unique, not secret, and the system's source costs a call


_clock = SystemClock()


def new_id() -> str:
    """Return a unique id of 32 hex digits; the first 12 are the time in ms.

    Ids in ascending order cost the database a third less per record: those of a commit are adjacent in its index.
    """
    return f"{int(_clock.now() * 1000) << 80 | _ids.getrandbits(80):032x}"


def request_id(scope: Scope) -> str:
    """Return the id of the request that this scope belongs to: 32 hex digits, created at the first call."""
    id_: str | None = scope.get("gw.request_id")
    if id_ is None:
        id_ = scope["gw.request_id"] = new_id()
    return id_


class _CachedCaller(msgspec.Struct):
    """Caller of a connection's latest request, valid for these settings and this catalog, if its credential cannot expire."""

    auth: Auth
    catalog: Catalog
    caller: Caller


_EMPTY: Mapping[str, Any] = {}


def identify(access: Access, scope: Scope, *, dialect: str = "") -> Caller:
    """Return the caller of an ASGI request (`http` or `websocket`).

    A key determines the project. The admin token, and anyone in open mode, may choose one with `X-GW-Project` or
    `gw_project`; the default is `default`. `scope["gw.session"]` is the principal of the dashboard's cookie, set if the request
    comes from one of its own pages; it counts if no credential was sent. A single-use token is used up here. Raises AuthError,
    ForbiddenError (a key with another project's name), UnknownProjectError, and Overloaded for a single-use token when too many
    others have been used.
    """
    cached: _CachedCaller | None = scope.get("gw.known", _EMPTY).get("caller")
    auth, catalog = access.settings.auth, access.live.catalog
    if cached is not None and cached.auth is auth and cached.catalog is catalog and cached.caller.dialect == dialect:
        return msgspec.structs.replace(cached.caller, request_id=request_id(scope))
    caller, cacheable = _identify(access, scope, auth, catalog, dialect)
    if cacheable and "gw.known" in scope:
        scope["gw.known"]["caller"] = _CachedCaller(auth, catalog, caller)
    return caller


def _identify(access: Access, scope: Scope, auth: Auth, catalog: Catalog, dialect: str) -> tuple[Caller, bool]:
    """Return the caller, and whether the same request head means the same caller while settings and catalog are unchanged."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    query: bytes = scope.get("query_string", b"")
    presented = credential(headers, query) if auth.on or catalog.keys else None
    logged_in: Principal | None = scope.get("gw.session") if presented is None else None
    bearer = logged_in or principal(access, presented)
    fields = _gw_fields(headers, query)
    chosen = _text(fields.get(b"project"))
    if bearer.project is not None and chosen not in (None, bearer.project):
        raise ForbiddenError(what="this key belongs to another project")
    project = bearer.project or chosen or DEFAULT_PROJECT
    projects = catalog.projects
    if project not in projects:
        raise UnknownProjectError(name=project, available=() if bearer.kind == "key" else tuple(projects))
    if bearer.single_use_id and bearer.expires_at is not None:
        _use_up(bearer.single_use_id, bearer.expires_at, access.clock.now())
    caller = Caller(
        project=project,
        key_id=bearer.key_id,
        session_id=_text(fields.get(b"session")),
        turn_id=_text(fields.get(b"turn")) or _trace_id(fields.get(b"traceparent")),
        request_id=request_id(scope),
        endpoint=scope["path"],
        dialect=dialect,
        fallback=fields.get(b"fallback", b"").lower() != b"off",
    )
    return caller, logged_in is None and bearer.expires_at is None


def _gw_fields(headers: Headers, query: bytes) -> Mapping[bytes, bytes]:
    """Return `X-GW-<Name>` headers and `gw_<name>` query fields by bare name, headers winning; and `traceparent`."""
    fields: dict[bytes, bytes] = {}
    if b"gw_" in query:
        fields = {name[3:]: value for name, value in query_fields(query, _GW_QUERY).items()}
    for name, value in headers:
        if name.startswith(b"x-gw-"):
            fields[name[5:]] = value.strip()
        elif name == b"traceparent":
            fields[name] = value.strip()
        elif name == b"x-livekit-session-id":
            fields.setdefault(b"session", value.strip())
    return fields


def _text(value: bytes | None) -> str | None:
    """Return an id that the client sent, at most 128 characters; None if it is empty or has control characters."""
    if not value:
        return None
    text = value.decode("utf-8", "replace")[:_MAX_ID_CHARACTERS]
    return text if text.isprintable() else None


def _trace_id(traceparent: bytes | None) -> str | None:
    """Return the trace id of a W3C `traceparent` header (Trace Context, section 3.2), used as a turn id."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    return match[1].decode() if match else None
