"""The bearer check on all three routes, and who else may not come in."""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs

from gw.mcp.run import guarded
from gw.types.secret import Secret
from tests.mcp.conftest import TOKEN, open_mcp_gateway

pytestmark = pytest.mark.filterwarnings(
    # the official client and its server transport leave generators and streams to the collector when a session ends
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

ROUTES = [("GET", "/sse"), ("POST", "/messages/?session_id=0"), ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp")]


async def send_request(url, method, path, *headers, host="localhost"):
    """Status and the first bytes of the body, over a plain socket: header values may be any bytes."""
    port = int(url.rpartition(":")[2])
    lines = [f"{method} {path} HTTP/1.1".encode(), b"host: " + host.encode(), b"connection: close", *headers]
    if method == "POST":
        lines += [b"content-type: application/json", b"accept: application/json, text/event-stream", b"content-length: 2"]
    with trio.fail_after(60):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"\r\n".join(lines) + b"\r\n\r\n" + (b"{}" if method == "POST" else b""))
            data = b""
            while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < 12:
                piece = await stream.receive_some()
                if not piece:
                    break
                data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body, head.lower()


@pytest.fixture
async def mcp_gateway(tmp_path):
    async with open_mcp_gateway(tmp_path) as server:
        yield server


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("header", "body"),
    [
        (None, b"Missing bearer token"),
        (b"authorization: Basic " + TOKEN.encode(), b"Missing bearer token"),
        (b"authorization: " + TOKEN.encode(), b"Missing bearer token"),
        (b"authorization: ", b"Missing bearer token"),
        (b"authorization: Bearer", b"Invalid token"),
        (b"authorization: Bearer wrong", b"Invalid token"),
        (b"authorization: Bearer " + TOKEN.encode()[:-1], b"Invalid token"),
        (b"authorization: Bearer " + TOKEN.encode() + b"x", b"Invalid token"),
        ("authorization: Bearer töken".encode(), b"Invalid token"),
        (b"authorization: Bearer \xff\xfe", b"Invalid token"),
    ],
)
async def test_who_does_not_show_the_token(mcp_gateway, method, path, header, body):
    status, answer, head = await send_request(mcp_gateway.url, method, path, *([header] if header else []))
    assert (status, answer) == (401, body)
    assert b"www-authenticate: bearer" in head


@pytest.mark.parametrize("spelling", ["Bearer", "bearer", "BEARER"])
async def test_who_shows_it(mcp_gateway, spelling):
    header = f"authorization: {spelling} {TOKEN}".encode()
    status, body, _ = await send_request(mcp_gateway.url, "GET", "/sse", header)
    assert (status, b"event: endpoint" in body or b"endpoint" in body) == (200, True)


OURS = "schlüssel-ключ-🗝"
"""A token that is no ASCII, as the environment may hold one."""


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("shown", "let_in"),
    [
        (OURS.encode(), True),
        ("schlüssel".encode("latin-1"), False),
        ("schlu\u0308ssel-ключ-🗝".encode(), False),
        (OURS.encode()[:-1], False),
        (b"schl?ssel-????-?", False),
    ],
    ids=["its bytes", "Latin-1", "another normal form", "a character cut off", "replaced by ?"],
)
async def test_a_token_that_is_no_ascii(tmp_path, method, path, shown, let_in):
    async with open_mcp_gateway(tmp_path, token=OURS) as mcp_gateway:
        status, body, _ = await send_request(mcp_gateway.url, method, path, b"authorization: Bearer " + shown)
    assert (status == 401) is not let_in
    assert (body == b"Invalid token") is not let_in


async def test_a_token_of_any_bytes(tmp_path):
    """The environment of a process holds bytes; Python keeps those that are no UTF-8 as surrogates."""
    async with open_mcp_gateway(tmp_path, token=b"\xff\xfetoken".decode("utf-8", "surrogateescape")) as mcp_gateway:
        assert (await send_request(mcp_gateway.url, "GET", "/sse", b"authorization: Bearer \xff\xfetoken"))[0] == 200
        assert (await send_request(mcp_gateway.url, "GET", "/sse", b"authorization: Bearer \xfftoken"))[:2] == (401, b"Invalid token")


async def test_without_a_token_nobody_is_asked(tmp_path):
    async with open_mcp_gateway(tmp_path, token="") as mcp_gateway:
        assert (await send_request(mcp_gateway.url, "GET", "/sse"))[0] == 200
        assert (await send_request(mcp_gateway.url, "GET", "/sse", b"authorization: Bearer anything"))[0] == 200


@pytest.mark.parametrize(("method", "path"), ROUTES[:3])
async def test_pages_of_other_sites_do_not_get_in(tmp_path, method, path):
    async with open_mcp_gateway(tmp_path, token="") as mcp_gateway:
        assert (await send_request(mcp_gateway.url, method, path, host="evil.example"))[0] in (403, 421)
        assert (await send_request(mcp_gateway.url, method, path, b"origin: https://evil.example"))[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example"])
async def test_a_foreign_host_is_an_answer_and_no_crash(tmp_path, host):
    async with open_mcp_gateway(tmp_path, token="") as mcp_gateway:
        with capture_logs() as logs:
            assert (await send_request(mcp_gateway.url, "GET", "/sse", host=host))[:2] == (421, b"Invalid Host header")
    assert [entry["event"] for entry in logs if "traceback" in entry] == []


@pytest.mark.parametrize(
    ("peer", "status"),
    [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("192.0.2.1", 403), ("::ffff:192.0.2.1", 403), (None, 403)],
)
async def test_who_is_local_is_judged_by_the_peer(peer, status):
    """Not by `Host` nor by what a proxy may add, which anybody can write."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"x-forwarded-for", b"127.0.0.1"), (b"forwarded", b"for=127.0.0.1")]
    scope = {"type": "http", "path": "/mcp", "method": "POST", "headers": headers, "client": (peer, 9) if peer else None}
    await guarded(app, Secret(""), local_only=True)(scope, None, send)
    assert sent[0]["status"] == status


async def test_other_paths(mcp_gateway):
    header = f"authorization: Bearer {TOKEN}".encode()
    assert (await send_request(mcp_gateway.url, "GET", "/v1/providers", header))[0] == 404
    assert (await send_request(mcp_gateway.url, "GET", "/v1/providers"))[0] == 401
