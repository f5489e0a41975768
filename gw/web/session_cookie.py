"""The dashboard's session: a cookie that says until when the admin token was shown, signed with that token.

Sessions are not stored. A changed admin token ends all of them; the token itself cannot be read from the cookie. Those
that were logged out are remembered until they would have ended, by this process: a restart brings back a cookie that
somebody copied before its owner logged out. Changing the token is the way to be rid of everybody.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable

from gw.policy.expiring_set import ExpiringSet
from gw.types.secret import Secret

COOKIE = "gw_session"
LASTS_S = 7 * 86_400


def issue(admin_token: Secret, now: float) -> str:
    """The cookie's value."""
    said = f"{int(now) + LASTS_S}.{secrets.token_hex(8)}"
    return f"{said}.{_signature(admin_token, said.encode()).decode()}"


def until(value: str) -> float:
    """When a session that was issued ends, in Unix seconds."""
    return float(value.partition(".")[0])


def valid_until(
    cookie_headers: Iterable[bytes], admin_token: Secret, now: float, ended: ExpiringSet
) -> float | None:
    """When the session of one of the request's `Cookie` headers ends; None without a session in force."""
    for value in _values(cookie_headers):
        if _holds(value, admin_token, now) and value not in ended:
            return until(value.decode("ascii"))
    return None


def end(cookie_headers: Iterable[bytes], admin_token: Secret, now: float, ended: ExpiringSet) -> None:
    """Log out: add the sessions to `ended`, in place of the oldest there when it is full."""
    for value in _values(cookie_headers):
        if _holds(value, admin_token, now):
            expires_at = until(value.decode("ascii"))
            while not ended.add(value, expires_at, now):
                ended.drop_oldest()


def _values(cookie_headers: Iterable[bytes]) -> Iterable[bytes]:
    for header in cookie_headers:
        for pair in header.split(b";"):
            name, _, value = pair.strip().partition(b"=")
            if name == COOKIE.encode():
                yield value


def _holds(value: bytes, admin_token: Secret, now: float) -> bool:
    said, _, signature = value.rpartition(b".")
    ends = said.partition(b".")[0]
    if not admin_token or not ends.isdigit() or len(ends) > 12:
        return False
    return hmac.compare_digest(_signature(admin_token, said), signature) and now < int(ends)


def _signature(admin_token: Secret, said: bytes) -> bytes:
    message = b"gw dashboard session until " + said
    return hmac.new(admin_token.reveal().encode(), message, "sha256").hexdigest().encode()


def set_cookie(value: str, *, secure: bool) -> str:
    """The `Set-Cookie` header; an empty `value` ends the session."""
    age = LASTS_S if value else 0
    return f"{COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
