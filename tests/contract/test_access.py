"""Every route × method × spelling of a credential × right, over a socket. Generated from the table of routes."""

from __future__ import annotations

import re

import pytest
import trio

from gw.web.routes import TABLE
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import WITH_AUTH, YAML

ADMIN, SHOP = "admin-token-8351026789", "gwk_shop_8351026789"
NOT_THERE = {"model_id": "none/none", "modality": "video"}
"""Example of a path parameter; others are `none`."""
ROUTES = [(op, path) for op in TABLE.routes for path in op.paths]

SPELLINGS = {
    "bearer": lambda key: ({"authorization": f"Bearer {key}"}, ""),
    "bearer, odd case": lambda key: ({"authorization": f"bEaReR   {key} "}, ""),
    "token": lambda key: ({"authorization": f"Token {key}"}, ""),
    "bare": lambda key: ({"authorization": key}, ""),
    "xi-api-key": lambda key: ({"xi-api-key": key}, ""),
    "x-api-key": lambda key: ({"X-API-Key": key}, ""),
    "api-key": lambda key: ({"api-key": key}, ""),
    "x-goog-api-key": lambda key: ({"x-goog-api-key": key}, ""),
    "subprotocol": lambda key: ({"sec-websocket-protocol": f"token, {key}"}, ""),
    "openai subprotocol": lambda key: ({"sec-websocket-protocol": f"realtime, openai-insecure-api-key.{key}"}, ""),
    "query token": lambda key: ({}, f"token={key}"),
    "query access_token": lambda key: ({}, f"access_token={key}"),
    "query api_key": lambda key: ({}, f"api_key={key}"),
    "query key": lambda key: ({}, f"key={key}"),
}
NO_CREDENTIALS = [
    ({}, ""),
    ({"authorization": ""}, ""),
    ({"authorization": "Bearer"}, ""),
    ({"authorization": "Basic YWRtaW46YWRtaW4="}, ""),
    ({"authorization": "Bearer schl\xfcssel\xff"}, ""),
    ({"authorization": "Bearer " + ADMIN[:-1]}, ""),
    ({"authorization": "Bearer " + ADMIN.upper()}, ""),
    ({"x-api-key": "Bearer " + ADMIN}, ""),
    ({"cookie": "gw_session="}, ""),
    ({"cookie": "gw_session=9999999999.aa.bb"}, ""),
    ({"cookie": f"gw_session={ADMIN}"}, ""),
    ({"cookie": f"token={ADMIN}"}, ""),
    ({"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"}, ""),
    ({"x-gw-project": "shop"}, ""),
    ({}, "token="),
    ({}, "gw_project=shop"),
    ({}, "admin_token=" + ADMIN),
]


@pytest.fixture
async def guarded(tmp_path):
    async with open_running(tmp_path, YAML + WITH_AUTH) as running:
        yield running


def target_of(path: str, query: str = "") -> str:
    target = re.sub(r"{(\w+)}", lambda match: NOT_THERE.get(match[1], "none"), path)
    return f"{target}?{query}" if query else target


async def status_of(running, method: str, target: str, headers: dict[str, str]) -> int:
    """`/api/live` goes on for ever, so only the head is waited for there."""
    body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
    fields = {**headers, **({"content-type": "application/json"} if body else {})}
    with trio.fail_after(60):
        async with running.open(method, target, body, **fields) as response:
            if not target.startswith("/api/live"):
                await response.read()
            return response.status


async def refusals(running, headers: dict[str, str], query: str, expected: dict[str, int]) -> list[str]:
    """Routes that let in, or turned away, whom they should not. `expected`: right → 401, 403, or 0 for let in."""
    wrong = []
    for operation, path in ROUTES:
        if operation.id == "logout":
            continue
        status = await status_of(running, operation.method, target_of(path, query), headers)
        wanted = expected[operation.right]
        if operation.id == "metrics" and "x-forwarded-for" in headers:
            wanted = 401
        if (status if status in (401, 403) else 0) != wanted:
            wrong.append(f"{operation.method} {path}: {status}")
        assert status < 500 or (operation.id, status) == ("front", 503), (operation.id, status)
    return wrong


ROLES = ("viewer", "operator", "admin")
LET_IN = dict.fromkeys(("public", "key", "call", "metrics", *ROLES), 0)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_the_admin_token_opens_everything(guarded, spelling):
    assert await refusals(guarded, *SPELLINGS[spelling](ADMIN), LET_IN) == []


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_project_key_opens_the_data_plane_only(guarded, spelling):
    assert await refusals(guarded, *SPELLINGS[spelling](SHOP), {**LET_IN, **dict.fromkeys(ROLES, 403)}) == []


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_wrong_credential_opens_nothing(guarded, spelling):
    expected = {**LET_IN, **dict.fromkeys((*ROLES, "key", "call"), 401)}
    assert await refusals(guarded, *SPELLINGS[spelling]("gwk_wrong_8351026789"), expected) == []


@pytest.mark.parametrize(("headers", "query"), NO_CREDENTIALS)
async def test_what_is_no_credential_opens_nothing(guarded, headers, query):
    assert await refusals(guarded, headers, query, {**LET_IN, **dict.fromkeys((*ROLES, "key", "call"), 401)}) == []


async def test_a_session_opens_what_the_dashboard_needs(guarded):
    answer = await guarded.ask("POST", "/api/login", {"token": ADMIN})
    headers = {"cookie": "theme=dark; " + answer.headers["set-cookie"].partition(";")[0]}
    wrong = []
    for operation, path in ROUTES:
        if operation.tag != "Voice" and operation.id != "logout":
            status = await status_of(guarded, operation.method, target_of(path), headers)
            wrong += [f"{operation.method} {path}"] if status in (401, 403) else []
    assert wrong == []
    assert (await guarded.ask("POST", "/api/logout", **headers)).status == 200
    assert (await guarded.get("/v1/costs", **headers)).status == 401


DATA = [(op, path) for op, path in ROUTES if op.tag == "Voice"]
DASHBOARD = {"x-gw-dashboard": "1"}


async def session_cookie(running) -> dict[str, str]:
    answer = await running.ask("POST", "/api/login", {"token": ADMIN})
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def statuses_of(running, headers: dict[str, str], *, reads: bool = True) -> set[int]:
    """Return 401 and 403 as they are and 0 for any other status, of every route of the data plane."""
    routes = [(op, path) for op, path in DATA if reads or op.method != "GET"]
    statuses = [await status_of(running, op.method, target_of(path), headers) for op, path in routes]
    return {status if status in (401, 403) else 0 for status in statuses}


async def test_the_dashboards_own_pages_use_the_data_plane_by_their_session(guarded):
    cookie = await session_cookie(guarded)
    own = {**cookie, **DASHBOARD, "origin": guarded.url}
    assert await statuses_of(guarded, own) == {0}
    assert await statuses_of(guarded, {**cookie, **DASHBOARD, "sec-fetch-site": "same-origin"}) == {0}
    chat = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
    answer = await guarded.ask("POST", "/v1/chat/completions", chat, **own, x_gw_project="shop")
    assert answer.status == 200
    await guarded.gateway.store.flush()
    admin = {"authorization": f"Bearer {ADMIN}"}
    created = (await guarded.get(f"/v1/requests/{answer.headers['x-request-id']}", **admin)).json
    assert (created["project"], created["key_id"]) == ("shop", None)
    await guarded.ask("POST", "/api/logout", **cookie)
    assert await statuses_of(guarded, own) == {401}


async def test_a_session_without_the_dashboards_header_opens_no_data_plane(guarded):
    cookie = await session_cookie(guarded)
    for headers in (cookie, {**cookie, "origin": guarded.url}, {**cookie, "x-gw-session": "1", "x-requested-with": "x"}):
        assert await statuses_of(guarded, headers) == {401}
    for headers in (DASHBOARD, {**DASHBOARD, "cookie": "gw_session=9999999999.aa.bb"}, {**DASHBOARD, "cookie": f"gw_session={ADMIN}"}):
        assert await statuses_of(guarded, headers) == {401}


async def test_a_credential_goes_before_the_session(guarded):
    own = {**await session_cookie(guarded), **DASHBOARD, "origin": guarded.url}
    assert await statuses_of(guarded, {**own, "authorization": "Bearer gwk_wrong_8351026789"}) == {401}
    assert await statuses_of(guarded, {**own, "x-api-key": SHOP, "x-gw-project": "default"}) == {403}


async def test_a_session_ends_on_the_data_plane_too(guarded):
    own = {**await session_cookie(guarded), **DASHBOARD, "origin": guarded.url}
    guarded.clock.at += 7 * 86_400 + 1
    assert await statuses_of(guarded, own) == {401}


async def test_pages_of_other_sites_have_no_use_of_a_session(tmp_path):
    """Not even one of `serve.cors_origins`, which need a key; and no WebSocket."""
    listed = "http://app.example"
    async with open_running(tmp_path, YAML + WITH_AUTH + f"serve: {{port: 0, cors_origins: ['{listed}']}}\n") as running:
        own = {**await session_cookie(running), **DASHBOARD}
        for headers in FOREIGN:
            # A read is not refused: a browser does not show its answer to the page, and sends no cookie with it.
            assert await statuses_of(running, {**own, **headers}, reads=False) == {403}
        assert await statuses_of(running, {**own, "origin": listed}) == {401}
        preflight = {"access-control-request-method": "POST", "access-control-request-headers": "X-GW-Dashboard, x-one"}
        answer = await running.ask("OPTIONS", "/v1/chat/completions", origin=listed, **preflight)
        assert answer.status == 204
        assert answer.headers["access-control-allow-headers"] == "x-one"
        assert "access-control-allow-credentials" not in answer.headers
        upgrade = {
            "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
            "sec-websocket-key": "MDEyMzQ1Njc4OWFiY2RlZg==", "origin": running.url,
        }  # fmt: skip
        for path in ("/v1/listen", "/v1/realtime?intent=transcription"):
            assert (await running.get(path, **own, **upgrade)).status == 401


async def test_an_open_gateway_asks_nobody(tmp_path):
    async with open_running(tmp_path) as running:
        for headers, query in NO_CREDENTIALS[:1]:
            assert await refusals(running, headers, query, LET_IN) == []


async def test_a_key_made_now_works_until_it_expires_or_is_revoked(guarded):
    admin = {"authorization": f"Bearer {ADMIN}"}
    expires = guarded.clock.now() + 60
    created = [
        (await guarded.ask("POST", "/v1/keys", {"project": "shop", "expires_at": at}, **admin)).json
        for at in (expires, None)
    ]

    async def statuses():
        return [(await guarded.get("/v1/models", x_api_key=key["key"])).status for key in created]

    assert await statuses() == [200, 200]
    assert (await guarded.get("/v1/costs", x_api_key=created[1]["key"])).status == 403
    guarded.clock.at += 61
    assert await statuses() == [401, 200]
    await guarded.ask("DELETE", f"/v1/keys/{created[1]['key_id']}?confirm=true", **admin)
    assert await statuses() == [401, 401]


async def test_metrics_ask_for_the_token_behind_a_proxy(guarded):
    assert (await guarded.get("/v1/metrics")).status == 200
    assert (await guarded.get("/v1/metrics", forwarded="for=192.0.2.1")).status == 401
    answer = await guarded.get("/v1/metrics", forwarded="for=192.0.2.1", authorization=f"Bearer {ADMIN}")
    assert answer.status == 200


UNSAFE = [(op, path) for op, path in ROUTES if op.method != "GET"]
FOREIGN = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_pages_of_other_sites_write_nothing(guarded, headers):
    let_in = []
    for operation, path in UNSAFE:
        status = await status_of(guarded, operation.method, target_of(path, f"token={ADMIN}"), headers)
        let_in += [f"{operation.method} {path}: {status}"] if status != 403 else []
    assert let_in == []


async def test_foreign_hosts_get_nothing(guarded):
    """DNS rebinding: a page's own name, created to point here."""
    port = guarded.url.rpartition(":")[2]
    answered = []
    for operation, path in ROUTES:
        stream = await trio.open_tcp_stream("127.0.0.1", int(port))
        async with stream:
            head = f"{operation.method} {target_of(path)} HTTP/1.1\r\nhost: evil.example:{port}\r\nx-api-key: {ADMIN}\r\n"
            await stream.send_all(head.encode() + b"content-length: 0\r\nconnection: close\r\n\r\n")
            answer = await stream.receive_some(65_536)
            answered += [path] if not answer.startswith(b"HTTP/1.1 403 ") else []
            assert ADMIN.encode() not in answer
    assert answered == []
