"""The dashboard's session: a cookie that says until when the admin token was shown, signed with that token.

Sessions are not stored. A changed admin token ends all of them; the token itself cannot be read from the cookie. Those
that were logged out are remembered until they would have ended, by this process: a restart brings back a cookie that
somebody copied before its owner logged out. Changing the token is the way to be rid of everybody.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable

from gw.types.secret import Secret

COOKIE = "gw_session"
LASTS_S = 7 * 86_400
MOST_ENDED = 10_000
"""Logged-out sessions that are remembered; beyond it the one that ended first is forgotten."""


class EndedSessions:
    """Sessions that were logged out, each with the time at which it would have ended."""

    def __init__(self, most: int = MOST_ENDED) -> None:
        self._most = most
        self._until: dict[bytes, int] = {}

    def __contains__(self, value: bytes) -> bool:
        return value in self._until

    def __len__(self) -> int:
        return len(self._until)

    def add(self, value: bytes, ends: int, now: float) -> None:
        self._until = {old: at for old, at in self._until.items() if at > now}
        while len(self._until) >= self._most:
            del self._until[next(iter(self._until))]
        self._until[value] = ends


_ended = EndedSessions()


def issue(admin_token: Secret, now: float) -> str:
    """The cookie's value."""
    said = f"{int(now) + LASTS_S}.{secrets.token_hex(8)}"
    return f"{said}.{_signature(admin_token, said.encode()).decode()}"


def until(value: str) -> float:
    """When a session that was issued ends, in Unix seconds."""
    return float(value.partition(".")[0])


def valid_until(cookie_headers: Iterable[bytes], admin_token: Secret, now: float) -> float | None:
    """When the session of one of the request's `Cookie` headers ends; None without a session in force."""
    for value in _values(cookie_headers):
        if _holds(value, admin_token, now) and value not in _ended:
            return until(value.decode("ascii"))
    return None


def end(cookie_headers: Iterable[bytes], admin_token: Secret, now: float) -> None:
    """Log out."""
    for value in _values(cookie_headers):
        if _holds(value, admin_token, now):
            _ended.add(value, int(until(value.decode("ascii"))), now)


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
