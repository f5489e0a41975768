"""The dashboard's cookie."""

from __future__ import annotations

import pytest

from gw.types.secret import Secret
from gw.web.session import LASTS_S, issue, set_cookie, valid

TOKEN = Secret("admin-token-0123456789")
NOW = 1_800_000_000.7


def cookie(value: str) -> list[bytes]:
    return [b"theme=dark; gw_session=" + value.encode() + b"; x=y"]


def test_a_session_holds_until_its_end():
    value = issue(TOKEN, NOW)
    assert valid(cookie(value), TOKEN, NOW)
    assert valid([b"other=1", *cookie(value)], TOKEN, NOW + LASTS_S - 2)
    assert not valid(cookie(value), TOKEN, NOW + LASTS_S)


def test_another_token_ends_it():
    assert not valid(cookie(issue(TOKEN, NOW)), Secret("another-token-000000"), NOW)


def test_the_token_cannot_be_read_from_it():
    assert "admin-token" not in issue(TOKEN, NOW)


@pytest.mark.parametrize("value", ["", ".", "9999999999.", "9999999999.00", "x.y", "²." + "0" * 64, "9" * 400 + ".x"])
def test_forgeries_fail(value):
    assert not valid(cookie(value), TOKEN, NOW)


def test_the_end_cannot_be_moved():
    until, signature = issue(TOKEN, NOW).split(".")
    assert not valid(cookie(f"{int(until) + 1}.{signature}"), TOKEN, NOW)


def test_attributes_of_the_cookie():
    assert set_cookie("v", secure=False) == f"gw_session=v; Path=/; Max-Age={LASTS_S}; HttpOnly; SameSite=Strict"
    assert set_cookie("v", secure=True).endswith("; Secure")
    assert "Max-Age=0" in set_cookie("", secure=False)
