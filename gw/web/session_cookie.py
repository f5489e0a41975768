"""The dashboard's session: a cookie with its expiry time, signed with the admin token.

Sessions are not stored. A new admin token ends all of them; the token itself cannot be read from the cookie. Sessions that
were logged out are remembered by this process until they would have expired: after a restart, a cookie that was copied
before the logout is valid again. To end every session, change the token.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Iterator

from gw.registry.credentials import ExpiringSet
from gw.types.secret import Secret

COOKIE = "gw_session"
LASTS_S = 7 * 86_400


def issue(admin_token: Secret, now: float) -> str:
    """Return the value of a new cookie."""
    payload = f"{int(now) + LASTS_S}.{secrets.token_hex(8)}"
    return f"{payload}.{_signature(admin_token, payload.encode()).decode()}"


def until(value: str) -> float:
    """Return when the session of a valid cookie expires, in Unix seconds."""
    return float(value.partition(".")[0])


def valid_until(cookie_headers: Iterable[bytes], admin_token: Secret, now: float, ended: ExpiringSet) -> float | None:
    """Return when the session in the request's `Cookie` headers expires; None without a valid session."""
    sessions = _valid(cookie_headers, admin_token, now)
    return next((until(value.decode("ascii")) for value in sessions if value not in ended), None)


def end(cookie_headers: Iterable[bytes], admin_token: Secret, now: float, ended: ExpiringSet) -> None:
    """Log out: add the sessions to `ended`, dropping its oldest ones when it is full."""
    for value in _valid(cookie_headers, admin_token, now):
        while not ended.add(value, until(value.decode("ascii")), now):
            ended.drop_oldest()


def _valid(cookie_headers: Iterable[bytes], admin_token: Secret, now: float) -> Iterator[bytes]:
    for header in cookie_headers:
        for pair in header.split(b";"):
            name, _, value = pair.strip().partition(b"=")
            if name == COOKIE.encode() and _is_valid(value, admin_token, now):
                yield value


def _is_valid(value: bytes, admin_token: Secret, now: float) -> bool:
    payload, _, signature = value.rpartition(b".")
    expires_at = payload.partition(b".")[0]
    if not admin_token or not expires_at.isdigit() or len(expires_at) > 12:
        return False
    return hmac.compare_digest(_signature(admin_token, payload), signature) and now < int(expires_at)


def _signature(admin_token: Secret, payload: bytes) -> bytes:
    message = b"gw dashboard session until " + payload
    return hmac.new(admin_token.reveal().encode(), message, "sha256").hexdigest().encode()


def set_cookie(value: str, *, secure: bool) -> str:
    """Return the `Set-Cookie` header; an empty `value` removes the cookie."""
    age = LASTS_S if value else 0
    return f"{COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
