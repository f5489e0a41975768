"""Who asks: from a request's headers and query to its project and ids.

One function reads the credential in every spelling that voice clients use, and one maps it to a project; both planes
use them, so that there is no second place where access is decided. A credential is looked up by its SHA-256: the time
that takes says nothing about the credentials there are, and any bytes are allowed.

Spellings: `Authorization` as Bearer, Token or bare; `xi-api-key`; `x-api-key`; `api-key` (Azure's); the subprotocols
`token, K`, `bearer, K` (Deepgram in a browser) and `openai-insecure-api-key.K` (OpenAI in a browser); the query fields
`token`, `access_token`, `api_key`, `single_use_token`. A short-lived token (`gw.dialects.short_lived_tokens`) may stand in each of them.
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
_OWN_QUERY = (b"gw_project", b"gw_session", b"gw_turn", b"gw_fallback")
_KEY_HEADERS = (b"xi-api-key", b"x-api-key", b"api-key")
_OPENAI_PROTOCOL = b"openai-insecure-api-key."
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_LONGEST_ID = 128

Headers = Iterable[tuple[bytes, bytes]]


class _Claims(msgspec.Struct):
    iss: str = ""


_CLAIMS = msgspec.json.Decoder(_Claims)


class _Live(Protocol):
    @property
    def catalog(self) -> Catalog: ...


class Access(Protocol):
    """What deciding needs of the gateway: the settings and the catalog in force."""

    @property
    def settings(self) -> Settings: ...

    @property
    def live(self) -> _Live: ...

    @property
    def clock(self) -> Clock: ...


@attrs.frozen(kw_only=True)
class Principal:
    """Whom a credential stands for. `anyone`: open mode, no credential is asked for. `project` is a key's project.

    `once`: the name of a short-lived token that is good for one request.
    """

    kind: Literal["anyone", "admin", "key"]
    project: str | None = None
    key_id: str | None = None
    expires_at: float | None = None
    once: bytes = b""

    @property
    def is_admin(self) -> bool:
        return self.kind != "key"


_ANYONE = Principal(kind="anyone")
_ADMIN = Principal(kind="admin")


def credential(headers: Headers, query: bytes = b"") -> bytes | None:
    """The credential as sent, or None. Header names are lower-case; `query` is the raw query string."""
    by_name: dict[bytes, bytes] = {}
    for name, value in headers:
        by_name.setdefault(name, value)
    if authorization := by_name.get(b"authorization"):
        scheme, _, rest = authorization.strip().partition(b" ")
        known = scheme.lower() in (b"bearer", b"token")
        if rest and known:
            return _issuer(rest.strip())
        if not rest and not known:
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
    """A LiveKit client signs a token of its own, whose issuer is its API key: that is the credential. Others as they are.

    The signature says nothing more: whoever can name the key has it, and the secret it was signed with is not ours.
    """
    head, _, rest = token.partition(b".")
    claims, dot, _ = rest.partition(b".")
    if not (dot and head.startswith(b"eyJ")):
        return token
    try:
        told = _CLAIMS.decode(urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))
    except (ValueError, msgspec.DecodeError):
        return token
    return told.iss.encode() or token


def _from_subprotocols(offered: bytes) -> bytes | None:
    names = [name.strip() for name in offered.split(b",")]
    for name in names:
        if name.startswith(_OPENAI_PROTOCOL):
            return name[len(_OPENAI_PROTOCOL) :] or None
    if len(names) == 2 and names[0].lower() in (b"token", b"bearer"):
        return names[1] or None
    return None


def query_fields(query: bytes, wanted: Iterable[bytes]) -> dict[bytes, bytes]:
    """The first value of each wanted field of a query string, percent-decoded."""
    found: dict[bytes, bytes] = {}
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name in wanted and name not in found:
            found[name] = unquote_to_bytes(value.replace(b"+", b" "))
    return found


class _Ring:
    """The credentials of one `Auth` and one catalog, by digest."""

    def __init__(self, auth: Auth, keys: tuple[AccessKey, ...]) -> None:
        self.auth = auth
        self.keys = keys
        self.principals: dict[bytes, Principal] = {}
        for made in keys:
            found = Principal(kind="key", project=made.project, key_id=made.id, expires_at=made.expires_at)
            self.principals[made.digest] = found
        for number, key in enumerate(auth.keys, 1):
            found = Principal(kind="key", project=key.project, key_id=key.name or f"key-{number}")
            self.principals[_digest(key.key.reveal().encode())] = found
        if auth.admin_token:
            self.principals[_digest(auth.admin_token.reveal().encode())] = _ADMIN

    def principal(self, presented: bytes) -> Principal | None:
        found = self.principals.get(_digest(presented))
        return found or self._granted(presented)

    def _granted(self, presented: bytes) -> Principal | None:
        """Whom a token stands for: its project, as long as it and the key it was made with last."""
        grant = short_lived_tokens.read(presented)
        behind = self._by_mark.get(grant.key) if grant is not None else None
        if grant is None or behind is None:
            return None
        ends = grant.expires_at if behind.expires_at is None else min(grant.expires_at, behind.expires_at)
        return Principal(kind="key", project=grant.project, key_id=behind.key_id, expires_at=ends, once=grant.once)

    @cached_property
    def _by_mark(self) -> dict[bytes, Principal]:
        return {short_lived_tokens.mark_of(digest): found for digest, found in self.principals.items()}


def _digest(value: bytes) -> bytes:
    return sha256(value).digest()


_ring: _Ring | None = None  # of the keys last asked about; a reload and a change bring new ones


def principal(access: Access, presented: bytes | None) -> Principal:
    """Whom `presented` stands for. Raises AuthError for none or a wrong one, unless the gateway is open.

    In an open gateway a key made through the API still says which project its bearer belongs to.
    """
    global _ring
    auth, keys = access.settings.auth, access.live.catalog.keys
    if not auth.on and not (keys and presented):
        return _ANYONE
    if not presented:
        raise AuthError()
    ring = _ring
    if ring is None or ring.auth is not auth or ring.keys is not keys:
        ring = _ring = _Ring(auth, keys)
    found = ring.principal(presented)
    if found is not None and (over := _over(found, access.clock.now())):
        if auth.on:
            raise AuthError(what=over)
        found = None
    if auth.on:
        if found is None:
            raise AuthError(what="this credential is not known")
        return found
    return _ANYONE if found is None else attrs.evolve(found, kind="anyone")


def _over(found: Principal, now: float) -> str | None:
    """Why a credential that was good is none any more."""
    if found.expires_at is not None and found.expires_at <= now:
        return "this key has expired"
    return "this token was good for one request" if found.once and found.once in short_lived_tokens.used else None


def _use(once: bytes, expires_at: float, now: float) -> None:
    """The token of this name is used from here on. Raises Overloaded."""
    if not short_lived_tokens.used.add(once, expires_at, now):
        raise Overloaded(what="too many tokens of one use have been used lately")


def grant(access: Access, scope: Scope, project: str, lifetime_s: float, *, once: bool = False) -> str:
    """A short-lived token for `project`, made with the credential of a request that `identify` has let in.

    `once`: it is good for one request. Raises ForbiddenError for a request that came with a token itself.
    """
    presented = credential(scope["headers"], scope.get("query_string", b"")) or b""
    if short_lived_tokens.read(presented) is not None:
        raise ForbiddenError(what="a short-lived token cannot make another one; use the key")
    told = short_lived_tokens.Grant(
        key=short_lived_tokens.mark_of(_digest(presented)),
        project=project,
        expires_at=access.clock.now() + lifetime_s,
        once=short_lived_tokens.new_once() if once else b"",
    )
    return short_lived_tokens.issue(told)


_ids = random.Random()  # seeded by the system; ids must be unique, not secret, and the system's source costs a call


_clock = SystemClock()


def new_id() -> str:
    """32 hex digits, unique; the first 12 are the time in ms. Ids in their order cost the database a third less per record:
    those of a commit stand side by side in its index."""
    return f"{int(_clock.now() * 1000) << 80 | _ids.getrandbits(80):032x}"


def request_id(scope: Scope) -> str:
    """The id of the request this scope belongs to: 32 hex digits, made at the first call."""
    made: str | None = scope.get("gw.request_id")
    if made is None:
        made = scope["gw.request_id"] = new_id()
    return made


class _Known(msgspec.Struct):
    """Who sends a head, as long as settings and catalog are these. For credentials that do not end by themselves."""

    auth: Auth
    catalog: Catalog
    caller: Caller


_NOTHING: Mapping[str, Any] = {}


def identify(access: Access, scope: Scope, *, dialect: str = "") -> Caller:
    """The caller of an ASGI request (`http` or `websocket`).

    A key's project is the project. The admin token, and anybody in open mode, may name one with `X-GW-Project` or
    `gw_project`; without it the project is `default`. `scope["gw.session"]` is whom the dashboard's cookie stands for,
    where the fence found that one of its own pages asks; it counts where no credential was sent. A token of one use is
    used by being let in. Raises AuthError, ForbiddenError (a key that names another project), UnknownProjectError, and
    Overloaded for such a token when too many others have been used.
    """
    known: _Known | None = scope.get("gw.known", _NOTHING).get("caller")
    auth, catalog = access.settings.auth, access.live.catalog
    if known is not None and known.auth is auth and known.catalog is catalog and known.caller.dialect == dialect:
        return msgspec.structs.replace(known.caller, request_id=request_id(scope))
    caller, lasts = _identify(access, scope, auth, catalog, dialect)
    if lasts and "gw.known" in scope:
        scope["gw.known"]["caller"] = _Known(auth, catalog, caller)
    return caller


def _identify(access: Access, scope: Scope, auth: Auth, catalog: Catalog, dialect: str) -> tuple[Caller, bool]:
    """The caller, and whether the same head stands for it as long as settings and catalog are these."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    query: bytes = scope.get("query_string", b"")
    asks = auth.on or catalog.keys
    presented = credential(headers, query) if asks else None
    logged_in: Principal | None = scope.get("gw.session") if presented is None else None
    who = logged_in or principal(access, presented)
    sent = _own_fields(headers, query)
    asked = _text(sent.get(b"project"))
    if who.project is not None and asked not in (None, who.project):
        raise ForbiddenError(what="this key belongs to another project")
    project = who.project or asked or DEFAULT_PROJECT
    projects = catalog.projects
    if project not in projects:
        raise UnknownProjectError(name=project, available=() if who.kind == "key" else tuple(projects))
    if who.once and who.expires_at is not None:
        _use(who.once, who.expires_at, access.clock.now())
    caller = Caller(
        project=project,
        key_id=who.key_id,
        session_id=_text(sent.get(b"session")),
        turn_id=_text(sent.get(b"turn")) or _trace_id(sent.get(b"traceparent")),
        request_id=request_id(scope),
        endpoint=scope["path"],
        dialect=dialect,
        fallback=sent.get(b"fallback", b"").lower() != b"off",
    )
    return caller, logged_in is None and who.expires_at is None


def _own_fields(headers: Headers, query: bytes) -> Mapping[bytes, bytes]:
    """`X-GW-<Name>` headers and `gw_<name>` query fields by bare name, the headers first; and `traceparent`."""
    sent: dict[bytes, bytes] = {}
    if b"gw_" in query:
        sent = {name[3:]: value for name, value in query_fields(query, _OWN_QUERY).items()}
    for name, value in headers:
        if name.startswith(b"x-gw-"):
            sent[name[5:]] = value.strip()
        elif name == b"traceparent":
            sent[name] = value.strip()
        elif name == b"x-livekit-session-id":
            sent.setdefault(b"session", value.strip())
    return sent


def _text(value: bytes | None) -> str | None:
    """An id somebody sent, as text: at most 128 characters; None when empty or holding control characters."""
    if not value:
        return None
    text = value.decode("utf-8", "replace")[:_LONGEST_ID]
    return text if text.isprintable() else None


def _trace_id(traceparent: bytes | None) -> str | None:
    """The trace id of a W3C `traceparent` header (Trace Context, section 3.2), which stands in for a turn id."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    return match[1].decode() if match else None
