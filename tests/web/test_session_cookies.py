"""The dashboard's cookie."""

from __future__ import annotations

import pytest

from gw.registry.credentials import ExpiringSet
from gw.types.secret import Secret
from gw.web.session_cookies import LASTS_S, end_sessions, expiry_of, issue_session, session_expiry, set_session_cookie

TOKEN = Secret("admin-token-8351026789")
NOW = 1_800_000_000.7
NONE_ENDED = ExpiringSet(0)


def cookie(value: str) -> list[bytes]:
    return [b"theme=dark; gw_session=" + value.encode() + b"; x=y"]


def valid(headers: list[bytes], token: Secret, now: float, ended: ExpiringSet = NONE_ENDED) -> bool:
    return session_expiry(headers, token, now, ended) is not None


def test_a_session_holds_until_its_end():
    value = issue_session(TOKEN, NOW)
    assert expiry_of(value) == int(NOW) + LASTS_S
    assert session_expiry(cookie(value), TOKEN, NOW, NONE_ENDED) == expiry_of(value)
    assert valid([b"other=1", *cookie(value)], TOKEN, NOW + LASTS_S - 2)
    assert not valid(cookie(value), TOKEN, NOW + LASTS_S)


def test_no_two_sessions_are_the_same():
    assert issue_session(TOKEN, NOW) != issue_session(TOKEN, NOW)


def test_another_token_ends_it():
    assert not valid(cookie(issue_session(TOKEN, NOW)), Secret("another-token-000000"), NOW)


def test_an_empty_token_has_no_sessions():
    assert not valid(cookie(issue_session(Secret(""), NOW)), Secret(""), NOW)


def test_the_token_cannot_be_read_from_it():
    assert "admin-token" not in issue_session(TOKEN, NOW)


@pytest.mark.parametrize(
    "value", ["", ".", "..", "9999999999.", "9999999999.00", "9999999999.00.00", "x.y", "²." + "0" * 64, "9" * 400 + ".x.y"]
)
def test_forgeries_fail(value):
    assert not valid(cookie(value), TOKEN, NOW)


def test_the_end_cannot_be_moved():
    ends, nonce, signature = issue_session(TOKEN, NOW).split(".")
    assert not valid(cookie(f"{int(ends) + 1}.{nonce}.{signature}"), TOKEN, NOW)


def test_logging_out_ends_one_session_and_no_other():
    session, other = issue_session(TOKEN, NOW), issue_session(TOKEN, NOW)
    ended = ExpiringSet(3)
    end_sessions([*cookie("forged"), *cookie(session)], TOKEN, NOW, ended)
    assert not valid(cookie(session), TOKEN, NOW, ended)
    assert valid(cookie(other), TOKEN, NOW, ended)


def test_the_session_that_was_logged_out_first_is_forgotten_first():
    ended = ExpiringSet(2)
    values = [issue_session(TOKEN, NOW) for _ in range(3)]
    for value in values:
        end_sessions(cookie(value), TOKEN, NOW, ended)
    assert [valid(cookie(value), TOKEN, NOW, ended) for value in values] == [True, False, False]


def test_attributes_of_the_cookie():
    assert set_session_cookie("v", secure=False) == f"gw_session=v; Path=/; Max-Age={LASTS_S}; HttpOnly; SameSite=Strict"
    assert set_session_cookie("v", secure=True).endswith("; Secure")
    assert "Max-Age=0" in set_session_cookie("", secure=False)
