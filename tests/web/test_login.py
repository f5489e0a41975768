"""Logging in to the dashboard, out of it, and who one is."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.web.authorization import (
    FAILURES_A_MINUTE,
    HELD_S,
    MAX_ADDRESSES,
    MAX_HELD,
    LoginFailures,
    TooManyLogins,
)
from gw.web.session_cookies import LASTS_S
from tests.fakes.temporary_gateway import ADMIN, SHOP, call

JSON = {"content-type": "application/json"}
GOOD = b'{"token": "admin-token-8351026789"}'


async def login(app, body=GOOD, **more):
    return await call(app, "/api/login", JSON, method="POST", body=body, **more)


async def test_login_gives_a_session_and_logout_takes_it(guarded, app_of):
    app = app_of(guarded)
    answer = await login(app, scheme="https")
    ends = int(guarded.clock.now()) + LASTS_S
    assert (answer.status, answer.json) == (200, {"status": "logged_in", "expires_at": ends})
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(attributes)
    assert b"admin-token" not in answer.body + answer.headers["set-cookie"].encode()
    for target in ("/api/overview", "/v1/costs", "/v1/models"):
        assert (await call(app, target, {"cookie": cookie})).status == 200
    answer = await call(app, "/api/logout", {"cookie": cookie}, method="POST")
    assert (answer.status, answer.json) == (200, {"status": "logged_out", "redirect": None})
    assert answer.headers["set-cookie"].startswith("gw_session=; ")
    assert (await call(app, "/api/overview", {"cookie": cookie})).status == 401


async def test_a_session_ends_after_seven_days(guarded, app_of):
    app = app_of(guarded)
    answer = await login(app)
    assert "Secure" not in answer.headers["set-cookie"]
    cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    guarded.clock.at += LASTS_S - 1
    assert (await call(app, "/api/overview", cookie)).status == 200
    guarded.clock.at += 2
    assert (await call(app, "/api/overview", cookie)).status == 401


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (JSON, b'{"token": "wrong"}', 401),
        (JSON, b'{"token": ""}', 401),
        (JSON, '{"token": "schlüssel"}'.encode(), 401),
        (JSON, b'{"token": "\\ud800"}', 422),
        (JSON, b'{"token": "gwk_shop_8351026789"}', 403),
        (JSON, b'{"token": 7}', 422),
        (JSON, b"{}", 422),
        (JSON, b'{"token": "x", "more": 1}', 422),
        (JSON, b'{"token": "x", "token": "y"}', 422),
        (JSON, b"{", 422),
        (JSON, b"\xff", 422),
        (JSON, b"[" * 60_000, 422),
        (JSON, b"[" * 100_000, 413),
        ({"content-type": "text/plain"}, GOOD, 422),
        ({"content-type": "application/json; charset=latin-1"}, GOOD, 422),
        ({**JSON, "content-encoding": "gzip"}, GOOD, 422),
        ({}, b"", 422),
        ({**JSON, "origin": "http://evil.example"}, GOOD, 403),
        ({**JSON, "sec-fetch-site": "cross-site"}, GOOD, 403),
    ],
)
async def test_bad_logins(guarded, app_of, headers, body, status):
    answer = await call(app_of(guarded), "/api/login", headers, method="POST", body=body)
    assert (answer.status, "error" in answer.json) == (status, True)
    assert "set-cookie" not in answer.headers
    assert b"admin-token" not in answer.body


async def test_an_open_gateway_needs_no_login(app):
    answer = await login(app, b'{"token": "x"}')
    assert answer.json == {"status": "open", "expires_at": None}
    assert "set-cookie" not in answer.headers


async def fail(app, times=FAILURES_A_MINUTE):
    for _ in range(times):
        assert (await login(app, b'{"token": "guess"}')).status == 401


async def test_guessing_is_slow_for_the_address_that_guesses(guarded, app_of, autojump_clock):
    app = app_of(guarded)
    await fail(app)
    began = trio.current_time()
    answer = await login(app, b'{"token": "guess"}')
    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (429, "too_many_attempts", "6")
    assert trio.current_time() - began == pytest.approx(HELD_S)
    assert (await login(app, b'{"token": "guess"}', client="192.0.2.1")).status == 401


async def test_nobody_keeps_the_administrator_out(guarded, app_of, autojump_clock):
    """Behind a proxy, who guesses has the same address."""
    app = app_of(guarded)
    await fail(app)
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_HELD):
            nursery.start_soon(login, app, b'{"token": "guess"}')
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert (await login(app, b'{"token": "guess"}')).status == 429  # no more of them are held
        assert (await login(app)).status == 200
        assert (await login(app, b'{"token": "gwk_shop_8351026789"}')).status == 403
        assert trio.current_time() == began


async def test_good_logins_are_not_counted(guarded, app_of):
    app = app_of(guarded)
    for _ in range(FAILURES_A_MINUTE + 1):
        assert (await login(app)).status == 200


async def test_a_share_of_the_minute_gives_another_try(autojump_clock):
    failures = LoginFailures()
    for _ in range(FAILURES_A_MINUTE):
        await failures.slow_down("a", 0.0)
        failures.add("a", 0.0)
    with pytest.raises(TooManyLogins):
        await failures.slow_down("a", 5.9)
    await failures.slow_down("a", 6.0)


async def test_few_addresses_are_remembered(autojump_clock):
    failures = LoginFailures()
    for number in range(MAX_ADDRESSES + 1):
        for _ in range(FAILURES_A_MINUTE):
            failures.add(str(number), 0.0)
    await failures.slow_down("0", 0.0)
    with pytest.raises(TooManyLogins):
        await failures.slow_down("1", 0.0)


@pytest.mark.parametrize(
    ("headers", "who", "project"), [({}, None, None), (ADMIN, "admin", None), (SHOP, "key", "shop"), ({"x-api-key": "no"}, None, None)]
)
async def test_who_one_is(guarded, app_of, headers, who, project):
    answer = await call(app_of(guarded), "/api/session", headers)
    assert answer.json == {
        "auth_on": True,
        "authenticated": who is not None,
        "principal": who,
        "name": {"key": "till"}.get(who, who or ""),
        "role": "admin" if who == "admin" else None,
        "projects": None,
        "capture": who == "admin",
        "project": project,
        "expires_at": None,
        "sign_in": False,
    }


async def test_who_one_is_by_the_cookie(guarded, app_of):
    app = app_of(guarded)
    cookie = (await login(app)).headers["set-cookie"].partition(";")[0]
    session = (await call(app, "/api/session", {"cookie": cookie})).json
    assert (session["principal"], session["expires_at"]) == ("admin", int(guarded.clock.now()) + LASTS_S)


async def test_an_open_gateway_knows_nobody(app):
    session = (await call(app, "/api/session")).json
    assert (session["auth_on"], session["authenticated"], session["principal"]) == (False, True, "anyone")


@pytest.mark.parametrize(("body", "status"), [(b"", 200), (b"{}", 200), (b'{"a": 1}', 422), (b"[]", 422), (b"{", 422)])
async def test_the_body_of_a_logout(app, body, status):
    assert (await call(app, "/api/logout", JSON, method="POST", body=body)).status == status
