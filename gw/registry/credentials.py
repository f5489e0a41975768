"""The credentials of one gateway: its keys, and the short-lived tokens made with them.

A credential is looked up by its SHA-256, so the time of a lookup reveals nothing about other credentials, and any bytes
are allowed.

A short-lived token is requested by an app's server and handed to a browser in place of the key. It names the key it was
made with, its project and its end; it is signed, and not stored, except for settings of realtime sessions: they would be
too long for a header, and are kept until the token's end. The signing secret belongs to one gateway and one run:
a restart ends every token, and the end of a key, or another secret under its name, ends those made with it. It is a
credential of the data plane alone, with the rights of a project key except to make another token. A token for one
request has a unique id, which is remembered once it was used, as long as the token would last.
"""

from __future__ import annotations

import hmac
import os
from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Literal

import msgspec

from gw.config.settings import Auth
from gw.config.sign_in_settings import RoleRule
from gw.errors import AuthError, ForbiddenError, Overloaded
from gw.registry.catalog import Catalog
from gw.telemetry.clock import Clock
from gw.types.base64url import decode_base64url
from gw.types.entities import StoredLogin, StoredToken
from gw.types.ids import KeyLimits
from gw.types.roles import EVERYTHING, Access


class ExpiringSet:
    """Remembers at most `limit` values, each until its time, in order of addition. Times in Unix seconds."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._expires_at: dict[bytes, float] = {}

    def __contains__(self, value: bytes) -> bool:
        return value in self._expires_at

    def __len__(self) -> int:
        return len(self._expires_at)

    def add(self, value: bytes, expires_at: float, now: float) -> bool:
        """Drop the oldest values as far as they have expired, and add `value`; return False when the set is full."""
        while self._expires_at and next(iter(self._expires_at.values())) <= now:
            self.drop_oldest()
        if len(self._expires_at) >= self._limit:
            return False
        self._expires_at[value] = expires_at
        return True

    def discard(self, value: bytes) -> None:
        self._expires_at.pop(value, None)

    def drop_oldest(self) -> None:
        del self._expires_at[next(iter(self._expires_at))]


class ExpiringValues:
    """Keeps values until their time, of at most `limit` bytes in total. Times in Unix seconds."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._values: dict[bytes, tuple[float, bytes]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes, now: float) -> bytes:
        """Return a value; empty when there is none, or when its time is over."""
        expires_at, value = self._values.get(key, (0.0, b""))
        return value if now < expires_at else b""

    def add(self, key: bytes, value: bytes, expires_at: float, now: float) -> bool:
        """Keep `value`; return False when there is no room, also without the values whose time is over."""
        if self._bytes + len(value) > self._limit:
            self._values = {key: kept for key, kept in self._values.items() if now < kept[0]}
            self._bytes = sum(len(kept) for _, kept in self._values.values())
        if self._bytes + len(value) > self._limit:
            return False
        self._values[key] = expires_at, value
        self._bytes += len(value)
        return True


PREFIX = b"gwt_"
REALTIME_PREFIX = b"ek_"
"""Prefix of tokens made for OpenAI's clients: some accept no other one in a browser (openai-agents for JavaScript)."""
_SIGNATURE_BYTES = 32
_FINGERPRINT_BYTES = 16
_MAX_USED = 100_000
"""Ids of used tokens, some 150 bytes each; when full, no other is accepted until the first of them would have ended."""
STORED_USES = 6
"""Writes of a session's last use during the time after which an idle one ends. Another gateway may end it by so much too early."""
_MAX_SESSION_BYTES = 32_000_000  # of the settings of realtime sessions


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Content of a token. `key` is the `key_fingerprint` of the credential it was made with; `expires_at` Unix seconds."""

    key: bytes
    project: str
    expires_at: float
    single_use_id: bytes = b""
    """Id of a token for one request; empty for a token that may be used any number of times."""
    session_id: bytes = b""
    """Id of the settings of a realtime session; empty for none."""


_GRANT = msgspec.msgpack.Decoder(Grant)


def new_single_use_id() -> bytes:
    return os.urandom(16)


class ShortLivedTokens:
    """Signs, reads and uses up the tokens of one gateway."""

    def __init__(self) -> None:
        self.used = ExpiringSet(_MAX_USED)  # ids of the single-use tokens that were used
        self._secret = os.urandom(32)

    def key_fingerprint(self, digest: bytes) -> bytes:
        """Return a stand-in, valid in this gateway, for the credential with this SHA-256; it reveals nothing of it."""
        return hmac.digest(self._secret, b"mark" + digest, "sha256")[:_FINGERPRINT_BYTES]

    def issue(self, grant: Grant) -> str:
        content = msgspec.msgpack.encode(grant)
        prefix = REALTIME_PREFIX if grant.session_id else PREFIX
        return prefix.decode() + urlsafe_b64encode(self._sign(content) + content).rstrip(b"=").decode()

    def read(self, token: bytes) -> Grant | None:
        """Return the content of a token, expired or not; None for anything that this gateway did not issue."""
        prefix = next((prefix for prefix in (PREFIX, REALTIME_PREFIX) if token.startswith(prefix)), None)
        if prefix is None:
            return None
        packed = token[len(prefix) :]
        try:
            decoded = decode_base64url(packed)
            signature, content = decoded[:_SIGNATURE_BYTES], decoded[_SIGNATURE_BYTES:]
            return _GRANT.decode(content) if hmac.compare_digest(self._sign(content), signature) else None
        except (ValueError, msgspec.DecodeError):
            return None

    def _sign(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, b"grant" + content, "sha256")


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a credential. `anyone`: the gateway is open and asks for none. `project` is a key's project.

    `access`: rights in the control plane; None for a key, which has none. `name`: of a person or a token, for the audit log.
    `login_id`: the session of the dashboard that this is, if it is a stored one.
    """

    kind: Literal["anyone", "admin", "key", "token", "person"]
    access: Access | None = None
    name: str = ""
    login_id: str = ""
    project: str | None = None
    key_id: str | None = None
    limits: KeyLimits | None = None
    expires_at: float | None = None
    single_use_id: bytes = b""

    @property
    def actor(self) -> str:
        """Return how the audit log names the holder."""
        return self.key_id or self.name or self.kind


_ANYONE = Principal(kind="anyone", access=EVERYTHING)
ADMIN = Principal(kind="admin", access=EVERYTHING)


def _token_principal(token: StoredToken) -> Principal:
    name = f"{token.name} ({token.id})" if token.name else token.id
    return Principal(kind="token", access=token.access, name=name, expires_at=token.expires_at)


def access_by_claims(rules: Iterable[RoleRule], claims: Mapping[str, Collection[str]]) -> Access | None:
    """Return the rights of the first rule that claims match; None where none does."""
    for rule in rules:
        if rule.value in claims.get(rule.claim, ()):
            return Access(role=rule.role, projects=frozenset(rule.projects) or None, capture=rule.capture)
    return None


def _login_principals(auth: Auth, catalog: Catalog) -> Iterator[tuple[StoredLogin, Principal]]:
    """Yield the sessions that are good as far as the configuration goes, with their holders."""
    tokens = {token.id: token for token in catalog.tokens}
    blocked = {(person.issuer, person.subject) for person in catalog.people if person.blocked}
    for login in catalog.logins:
        access, expires_at = None, login.expires_at
        if (token := tokens.get(login.token_id)) is not None:
            access, expires_at = token.access, min(expires_at, token.expires_at or expires_at)
        elif login.subject and login.issuer == auth.oidc.issuer and (login.issuer, login.subject) not in blocked:
            access = access_by_claims(auth.oidc.roles, login.claims)
        if access is not None:
            yield login, Principal(kind="person", access=access, name=login.name, expires_at=expires_at, login_id=login.id)


class _KeyRing:
    """The keys and service tokens of one `Auth` and one catalog, by digest."""

    def __init__(self, auth: Auth, catalog: Catalog, tokens: ShortLivedTokens) -> None:
        self.auth = auth
        self.catalog = catalog
        self._tokens = tokens
        self.logins = {bytes.fromhex(login.digest): (login, holder) for login, holder in _login_principals(auth, catalog)}
        self._principals = {bytes.fromhex(token.digest): _token_principal(token) for token in catalog.tokens}
        for key in catalog.keys:
            principal = Principal(kind="key", project=key.project, key_id=key.id, limits=key.limits, expires_at=key.expires_at)
            self._principals[bytes.fromhex(key.digest)] = principal
        for number, listed in enumerate(auth.keys, 1):
            principal = Principal(kind="key", project=listed.project, key_id=listed.id(number), limits=listed.limits)
            self._principals[sha256(listed.key.reveal().encode()).digest()] = principal
        if auth.admin_token:
            self._principals[sha256(auth.admin_token.reveal().encode()).digest()] = ADMIN

    def principal(self, presented: bytes) -> Principal | None:
        return self._principals.get(sha256(presented).digest()) or self._token_holder(presented)

    def _token_holder(self, presented: bytes) -> Principal | None:
        """Return the principal of a token. It ends with the token, or with the key that made the token."""
        grant = self._tokens.read(presented)
        maker = self._by_fingerprint.get(grant.key) if grant is not None else None
        if grant is None or maker is None:
            return None
        ends = grant.expires_at if maker.expires_at is None else min(grant.expires_at, maker.expires_at)
        return Principal(
            kind="key", project=grant.project, key_id=maker.key_id, limits=maker.limits, expires_at=ends,
            single_use_id=grant.single_use_id,
        )

    @cached_property
    def _by_fingerprint(self) -> dict[bytes, Principal]:
        return {self._tokens.key_fingerprint(digest): principal for digest, principal in self._principals.items()}


class Credentials:
    """Keys and tokens of one gateway, and the principals they stand for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = ShortLivedTokens()
        self._sessions = ExpiringValues(_MAX_SESSION_BYTES)
        self._seen_at: dict[str, float] = {}  # session of the dashboard → its last use here
        self._stored_at: dict[str, float] = {}  # the same, when that was last written to the database
        self._ring: _KeyRing | None = None  # the keys last in force; a reload or a change replaces them

    def principal(self, auth: Auth, catalog: Catalog, presented: bytes | None) -> Principal:
        """Return the holder of `presented`. Raise AuthError for none or a wrong one, unless the gateway is open.

        In an open gateway a key made through the API still determines its holder's project, and a service token its holder's rights.
        """
        if not auth.on and not (presented and (catalog.keys or catalog.tokens)):
            return _ANYONE
        if not presented:
            raise AuthError()
        principal = self._current(auth, catalog).principal(presented)
        problem = "this credential is not known" if principal is None else self._problem(principal)
        if principal is not None and not problem:
            is_open = principal.kind == "key" and not auth.on
            return msgspec.structs.replace(principal, kind="anyone", access=EVERYTHING) if is_open else principal
        if auth.on or (principal is not None and principal.kind == "token"):
            raise AuthError(what=problem)
        return _ANYONE

    def session(self, auth: Auth, catalog: Catalog, cookie: bytes) -> Principal | None:
        """Return the holder of a stored session of the dashboard; None for an unknown one, or one that has ended. It counts as a use."""
        login, principal = self._current(auth, catalog).logins.get(sha256(cookie).digest(), (None, None))
        now = self._clock.now()
        if login is None or principal is None or principal.expires_at is None or principal.expires_at <= now:
            return None
        if now >= max(login.seen_at, self._seen_at.get(login.id, 0.0)) + auth.oidc.idle_minutes * 60:
            return None
        self._seen_at[login.id] = now
        return principal

    def should_store_use(self, auth: Auth, catalog: Catalog, login_id: str) -> bool:
        """Return whether the last use of a session that the database has is long ago; once, until the database has another one."""
        now, stored_at = self._clock.now(), next((each.seen_at for each in catalog.logins if each.id == login_id), None)
        often_s = auth.oidc.idle_minutes * 60 / STORED_USES
        if stored_at is None or now < max(stored_at, self._stored_at.get(login_id, 0.0)) + often_s:
            return False
        self._stored_at[login_id] = now
        return True

    def _current(self, auth: Auth, catalog: Catalog) -> _KeyRing:
        ring = self._ring
        if ring is None or ring.auth is not auth or ring.catalog is not catalog:
            ring = self._ring = _KeyRing(auth, catalog, self._tokens)
            known = {login.id for login, _ in ring.logins.values()}
            for times in (self._seen_at, self._stored_at):
                for login_id in times.keys() - known:
                    del times[login_id]
        return ring

    def _problem(self, principal: Principal) -> str:
        """Return why a known credential is no longer valid; empty while it is."""
        if principal.expires_at is not None and principal.expires_at <= self._clock.now():
            return "this token has expired" if principal.kind == "token" else "this key has expired"
        return "this token was valid for one request" if principal.single_use_id in self._tokens.used else ""

    def use_up(self, principal: Principal) -> None:
        """Use up a token for one request; do nothing for other credentials. Raise Overloaded."""
        id_, expires_at, now = principal.single_use_id, principal.expires_at, self._clock.now()
        if id_ and expires_at is not None and not self._tokens.used.add(id_, expires_at, now):
            raise Overloaded(what="too many single-use tokens have been used lately")

    def give_back(self, principal: Principal) -> None:
        """Let a single-use token be used after all: the request was refused for want of a place."""
        self._tokens.used.discard(principal.single_use_id)

    def grant(
        self, presented: bytes, project: str, expires_at: float, *, single_use: bool = False, session: bytes = b""
    ) -> str:
        """Return a short-lived token for `project`, made with the valid credential `presented`.

        `session`: settings of the realtime sessions that are opened with it, as JSON. Raise ForbiddenError where the credential is a
        token itself, and Overloaded when too many settings are kept.
        """
        if self._tokens.read(presented) is not None:
            raise ForbiddenError(what="a short-lived token cannot make another one; use the key")
        session_id = os.urandom(16) if session else b""
        if session and not self._sessions.add(session_id, session, expires_at, self._clock.now()):
            raise Overloaded(what="too many client secrets with session settings have not expired yet")
        return self._tokens.issue(
            Grant(
                key=self._tokens.key_fingerprint(sha256(presented).digest()),
                project=project,
                expires_at=expires_at,
                single_use_id=new_single_use_id() if single_use else b"",
                session_id=session_id,
            )
        )

    def session_of(self, presented: bytes) -> bytes:
        """Return the settings, as JSON, that a token has for realtime sessions; empty for other credentials."""
        grant = self._tokens.read(presented)
        return self._sessions.get(grant.session_id, self._clock.now()) if grant is not None else b""
