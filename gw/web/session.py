"""The dashboard's session: a cookie that says until when the admin token was shown, signed with that token.

Nothing is stored. A changed admin token ends every session; the token itself cannot be read from the cookie.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from gw.types.secret import Secret

COOKIE = "gw_session"
LASTS_S = 7 * 86_400


def issue(admin_token: Secret, now: float) -> str:
    """The cookie's value."""
    until = str(int(now) + LASTS_S)
    return f"{until}.{_signature(admin_token, until)}"


def valid(cookie_headers: Iterable[bytes], admin_token: Secret, now: float) -> bool:
    """Whether one of the request's `Cookie` headers holds a session that has not ended."""
    for header in cookie_headers:
        for pair in header.split(b";"):
            name, _, value = pair.strip().partition(b"=")
            if name == COOKIE.encode() and _holds(value, admin_token, now):
                return True
    return False


def _holds(value: bytes, admin_token: Secret, now: float) -> bool:
    until, _, signature = value.partition(b".")
    if not until.isdigit() or len(until) > 12:
        return False
    expected = _signature(admin_token, until.decode("ascii")).encode()
    return hmac.compare_digest(expected, signature) and now < int(until)


def _signature(admin_token: Secret, until: str) -> str:
    message = b"gw dashboard session until " + until.encode()
    return hmac.new(admin_token.reveal().encode(), message, "sha256").hexdigest()


def set_cookie(value: str, *, secure: bool) -> str:
    """The `Set-Cookie` header; an empty `value` ends the session."""
    age = LASTS_S if value else 0
    return f"{COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
