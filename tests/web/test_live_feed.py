"""Live events of requests."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
import structlog
import trio

from gw.admin.logs import log_record
from gw.types.usage import Intent
from gw.web.drain import Drain
from gw.web.live_feed import BUFFER, CHECK_S, KEEPALIVE_S, MAX_LISTENERS, Feed, Stream, event
from gw.web.session_cookies import LASTS_S
from tests.fakes.answers import as_json
from tests.fakes.edge import open_host, request
from tests.fakes.temporary_gateway import ADMIN, NOON, SHOP, call, record


def intent(number: int = 1, attempt: int = 0) -> Intent:
    return Intent(
        id=f"{number:032x}",
        attempt=attempt,
        timestamp=NOON,
        project="shop",
        modality="llm",
        model_id="sim/echo",
        requested_model="parrot",
        stream=True,
        session_id="s",
        endpoint="/v1/chat/completions",
    )


class View:
    """A client of `/api/live`. `leave()` hangs up."""

    def __init__(self) -> None:
        self.start = None
        self.ended = trio.Event()
        self._disconnected = trio.Event()
        self._requested = False
        self._pieces, self._parts = trio.open_memory_channel[bytes](100)
        self._text = b""

    async def receive(self):
        if not self._requested:
            self._requested = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.start = message
        else:
            await self._pieces.send(message.get("body", b""))

    def leave(self) -> None:
        self._disconnected.set()

    def rest(self) -> bytes:
        """Everything that was sent and not read yet."""
        with suppress(trio.WouldBlock):
            while True:
                self._text += self._parts.receive_nowait()
        return self._text

    async def next(self) -> tuple[str, object]:
        """Name and data of the next event; ("comment", None) for a sign of life."""
        while b"\n\n" not in self._text:
            self._text += await self._parts.receive()
        block, _, self._text = self._text.partition(b"\n\n")
        if block.startswith(b":"):
            return "comment", None
        name, data = block.split(b"\n")
        return name.removeprefix(b"event: ").decode(), msgspec.json.decode(data.removeprefix(b"data: "))


def scope(method: str = "GET", query: bytes = b"", cookie: bytes = b"") -> dict[str, object]:
    return {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": "/api/live",
        "raw_path": b"/api/live", "query_string": query, "root_path": "", "headers": [(b"host", b"127.0.0.1:8080"), (b"cookie", cookie)],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080), "extensions": {},
    }  # fmt: skip


@asynccontextmanager
async def watching(app, query: bytes = b"", cookie: bytes = b""):
    view = View()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await app(scope(query=query, cookie=cookie), view.receive, view.send)
                view.ended.set()

            nursery.start_soon(run)
            yield view
            view.leave()


async def test_what_runs_begins_and_ends(gateway, app):
    gateway.store.intent(intent(1))
    gateway.store.intent(intent(1, attempt=1))
    gateway.store.intent(intent(2))
    gateway.store.finish(record(2))
    async with watching(app) as view:
        name, data = await view.next()
        assert dict(view.start["headers"])[b"content-type"] == b"text/event-stream"
        assert dict(view.start["headers"])[b"cache-control"] == b"no-store"
        assert name == "running"
        assert data == {
            "requests": [
                {
                    "id": f"{1:032x}", "attempt": 1, "timestamp": NOON, "project": "shop", "modality": "llm",
                    "model_id": "sim/echo", "requested_model": "parrot", "stream": True, "session_id": "s",
                    "turn_id": None, "key_id": None, "endpoint": "/v1/chat/completions",
                }
            ]
        }  # fmt: skip
        began = trio.current_time()
        gateway.store.intent(intent(3))
        name, data = await view.next()
        assert (name, data["id"], data["attempt"]) == ("started", f"{3:032x}", 0)
        gateway.store.finish(record(3))
        assert await view.next() == ("finished", as_json(log_record(record(3))))
        assert trio.current_time() - began < 0.1
        gateway.store.finish(record(4, status="error", error_code="budget_exceeded"))
        name, data = await view.next()
        assert (name, data["error_code"]) == ("finished", "budget_exceeded")


async def test_nobody_is_told_when_nobody_listens(gateway, app):
    assert gateway.store.watcher is None
    async with watching(app) as first, watching(app) as second:
        await first.next()
        await second.next()
        assert gateway.store.watcher is not None
        first.leave()
        gateway.store.finish(record(1))
        assert (await second.next())[0] == "finished"
    assert gateway.store.watcher is None


async def test_the_drain_ends_the_stream(gateway, app_of):
    drain = Drain()
    async with watching(app_of(gateway, drain=drain)) as view:
        await view.next()
        gateway.store.finish(record(1))
        drain.begin()
        assert (await view.next())[0] == "finished"
        await view.ended.wait()
    assert gateway.store.watcher is None


async def test_a_drain_ends_the_connection_of_a_view_at_once(gateway, app_of):
    drain = Drain()
    async with open_host(app_of(gateway, drain=drain), counted=False) as host:
        drain.at_begin(host.drain.begin)
        await host.client.send(request("GET", "/api/live", host="localhost"))
        assert (await host.client.response(head_only=True)).status == 200
        drain.begin(3_600)
        with trio.fail_after(60):
            while await host.client.more():
                pass
            await host.done.wait()
    assert gateway.store.watcher is None


async def test_a_view_that_opens_while_draining_shows_what_runs_and_ends(gateway, app_of):
    drain = Drain()
    drain.begin()
    async with watching(app_of(gateway, drain=drain)) as view:
        assert (await view.next())[0] == "running"
        await view.ended.wait()


async def test_too_many_views(gateway, app):
    views = []
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_LISTENERS):
            views.append(View())
            nursery.start_soon(app, scope(), views[-1].receive, views[-1].send)
        for view in views:
            await view.next()
        answer = await call(app, "/api/live")
        assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "overloaded", "10")
        for view in views:
            view.leave()
    assert gateway.store.watcher is None


async def test_who_may_look(guarded, app_of):
    app = app_of(guarded)
    assert (await call(app, "/api/live")).status == 401
    assert (await call(app, "/api/live", SHOP)).status == 403
    assert (await call(app, "/api/live?since=1", ADMIN)).status == 422
    async with watching(app, b"token=admin-token-8351026789") as view:  # an EventSource sends no headers
        assert (await view.next())[0] == "running"


async def made_token(app) -> tuple[str, dict[str, str]]:
    body = b'{"name": "wall", "role": "viewer", "projects": ["shop"]}'
    made = (await call(app, "/v1/tokens", {**ADMIN, "content-type": "application/json"}, method="POST", body=body)).json
    return made["token"], {"/v1/tokens": made["token_id"]}


async def begun_session(app, token: str) -> tuple[bytes, str]:
    body = msgspec.json.encode({"token": token})
    answer = await call(app, "/api/login", {"content-type": "application/json"}, method="POST", body=body)
    (login, *_) = (await call(app, "/v1/logins", ADMIN)).json["logins"] or [{"login_id": ""}]
    return answer.headers["set-cookie"].partition(";")[0].encode(), login["login_id"]


async def end(app, path: str) -> None:
    assert (await call(app, f"{path}?confirm=true", ADMIN, method="DELETE")).status == 200


@pytest.mark.parametrize("how", ["the token is revoked", "the token's session", "the session", "the admin logs out", "expiry"])
async def test_a_view_ends_with_its_right(guarded, app_of, how):
    app = app_of(guarded)
    token, ids = await made_token(app)
    revoked = "/v1/tokens/" + ids["/v1/tokens"]
    cookie, login_id = await begun_session(app, "admin-token-8351026789" if how in ("the admin logs out", "expiry") else token)
    with_token = how == "the token is revoked"
    async with watching(app, b"token=" + token.encode() if with_token else b"", b"" if with_token else cookie) as view:
        assert (await view.next())[0] == "running"
        if with_token or how == "the token's session":
            await end(app, revoked)
        elif how == "the session":
            await end(app, f"/v1/logins/{login_id}")
        elif how == "the admin logs out":
            await call(app, "/api/logout", {"cookie": cookie.decode()}, method="POST")
        else:
            guarded.clock.at += LASTS_S
        await view.ended.wait()
        guarded.store.finish(record(1, project="shop"))
        assert view.rest() == b""
    assert guarded.store.watcher is None


async def test_head_opens_nothing(gateway, app):
    answer = await call(app, "/api/live", method="HEAD")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", "text/event-stream")
    assert gateway.store.watcher is None


class NoStore:
    """The part of a store that a feed uses."""

    watcher = None

    async def running(self):
        return []


@pytest.fixture
def feed() -> Feed:
    return Feed(NoStore())


async def test_signs_of_life(feed, autojump_clock):
    async with Stream(feed) as stream:
        assert (await anext(stream)).startswith(b"event: running\n")
        began = trio.current_time()
        assert (await anext(stream)).startswith(b":")
        assert trio.current_time() - began == KEEPALIVE_S


async def test_a_slow_listener_is_dropped_and_told_how_much_it_missed(feed):
    with structlog.testing.capture_logs() as logs:
        async with Stream(feed) as stream, Stream(feed) as other:
            await anext(stream)
            await anext(other)
            for number in range(BUFFER):
                feed.finished(record(number))
            assert (await anext(other)).count(b"event: finished\n") == BUFFER
            for number in range(7):
                feed.began(intent(number))
            late = await anext(stream)
            assert late.count(b"event: finished\n") == BUFFER
            assert late.endswith(event("dropped", {"missed": 7}))
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            assert (await anext(other)).count(b"event: started\n") == 7
    assert (feed.dropped, feed.listeners) == (1, [])
    assert [(entry["event"], entry["missed"]) for entry in logs] == [("live_view_dropped", 7)]


async def test_waiting_returns_at_once_for_what_came_before(feed, autojump_clock):
    listener = Stream(feed)
    listener.put(intent())
    await listener.wait()
    with trio.move_on_after(1) as waited:
        await listener.wait()
    assert waited.cancelled_caught


async def test_the_right_is_looked_at_twice_a_second(feed, autojump_clock):
    ends_at = trio.current_time() + 100.3
    async with Stream(feed, None, lambda: trio.current_time() < ends_at) as stream:
        pieces = [piece async for piece in stream]
        assert 0 <= trio.current_time() - ends_at < CHECK_S
    assert len(pieces) == 1 + 100 // KEEPALIVE_S


async def test_an_event_is_not_sent_once_the_right_is_gone(feed):
    allowed = [True]
    async with Stream(feed, None, lambda: allowed.pop(0)) as stream:
        await anext(stream)
        feed.finished(record(1))
        assert b"finished" in await anext(stream)
        feed.finished(record(2))
        allowed[:] = [False]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
