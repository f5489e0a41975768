"""The cookie of the dashboard's session.

A session made with the admin token is its expiry time, signed with the token, and is not stored: a new admin token ends all of them. The
token itself cannot be read from the cookie. Sessions that were logged out are remembered by this process until they would have
expired: after a restart, a cookie that was copied before the logout is valid again. To end every session, change the token.

Sessions of people and of service tokens are random values; the database has their hashes (`gw.admin.logins`).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Iterator

from gw.registry.credentials import ExpiringSet
from gw.types.asgi import Scope
from gw.types.secret import Secret

COOKIE = "gw_session"
SECURE = "__Host-"  # browsers accept a cookie of such a name over TLS only, and from this host only, not from a neighbour below its domain
LASTS_S = 7 * 86_400


def issue_session(admin_token: Secret, now: float) -> str:
    """Return the value of a new cookie."""
    payload = f"{int(now) + LASTS_S}.{secrets.token_hex(8)}"
    return f"{payload}.{_signature(admin_token, payload.encode()).decode()}"


def expiry_of(value: str) -> float:
    """Return when the session of a valid cookie expires, in Unix seconds."""
    return float(value.partition(".")[0])


def session_expiry(cookie_headers: Iterable[bytes], admin_token: Secret, now: float, ended: ExpiringSet) -> float | None:
    """Return when the session in the request's `Cookie` headers expires; None without a valid session."""
    sessions = _valid(cookie_headers, admin_token, now)
    return next((expiry_of(value.decode("ascii")) for value in sessions if value not in ended), None)


def end_sessions(cookie_headers: Iterable[bytes], admin_token: Secret, now: float, ended: ExpiringSet) -> None:
    """Log out: add the sessions to `ended`, dropping its oldest ones when it is full."""
    for value in _valid(cookie_headers, admin_token, now):
        while not ended.add(value, expiry_of(value.decode("ascii")), now):
            ended.drop_oldest()


def cookies(scope: Scope) -> Iterable[bytes]:
    """Yield the request's `Cookie` headers."""
    return (value for name, value in scope["headers"] if name == b"cookie")


def values_of(cookie_headers: Iterable[bytes], *names: str) -> Iterator[bytes]:
    """Yield the values of the cookies of these names, those of the first name first."""
    pairs = [pair.strip().partition(b"=") for header in cookie_headers for pair in header.split(b";")]
    return (value for wanted in names for name, _, value in pairs if name == wanted.encode())


def sessions_of(cookie_headers: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the values of a request's session cookies. One that was set over TLS comes first, since nobody else can have set it."""
    return values_of(cookie_headers, SECURE + COOKIE, COOKIE)


def _valid(cookie_headers: Iterable[bytes], admin_token: Secret, now: float) -> Iterator[bytes]:
    return (value for value in sessions_of(cookie_headers) if _is_valid(value, admin_token, now))


def _is_valid(value: bytes, admin_token: Secret, now: float) -> bool:
    payload, _, signature = value.rpartition(b".")
    expires_at = payload.partition(b".")[0]
    if not admin_token or not expires_at.isdigit() or len(expires_at) > 12:
        return False
    return hmac.compare_digest(_signature(admin_token, payload), signature) and now < int(expires_at)


def _signature(admin_token: Secret, payload: bytes) -> bytes:
    message = b"gw dashboard session until " + payload
    return hmac.new(admin_token.reveal().encode(), message, "sha256").hexdigest().encode()


def set_session_cookie(value: str, *, secure: bool, lasts_s: int = LASTS_S) -> str:
    """Return the `Set-Cookie` header; an empty `value` removes the cookie."""
    age = lasts_s if value else 0
    name, flag = (SECURE + COOKIE, "; Secure") if secure else (COOKIE, "")
    return f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{flag}"
