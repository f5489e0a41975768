from collections import deque

import pytest
import structlog
import trio

from gw.web.cold import Cold, check_head
from gw.web.connection import ServerLimits
from gw.web.drain import Drain
from gw.web.http_errors import Refused
from tests.fakes.edge import echo, respond


def _scope(path=b"/cold", *headers, version="1.1", query=b""):
    return {
        "type": "http",
        "method": "POST",
        "path": path.decode(),
        "raw_path": path,
        "query_string": query,
        "http_version": version,
        "headers": [(b"host", b"gw"), *headers],
    }


class Wire:
    """Both ends of an ASGI call: feeds messages, keeps what is sent."""

    def __init__(self, *messages):
        self.messages = deque(messages)
        self.sent = []

    async def receive(self):
        await trio.lowlevel.checkpoint()
        if not self.messages:
            await trio.sleep_forever()
        return self.messages.popleft()

    async def send(self, message):
        await trio.lowlevel.checkpoint()
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"]


def _piece(body=b"", more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def _cold(app=echo, **options):
    async def hot(scope, receive, send):
        await respond(send, b"hot")

    return Cold(app=app, hot=hot, is_hot=lambda m, p: p == b"/hot", drain=Drain(), **options)


async def test_passes_requests_to_the_plane_they_belong_to():
    cold = _cold()
    for path, body in ((b"/cold", b"POST /cold x"), (b"/hot", b"hot")):
        wire = Wire(_piece(b"x"))
        await cold(_scope(path), wire.receive, wire.send)
        assert wire.sent[-1]["body"] == body


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        (_scope(b"/", (b"content-length", b"3"), (b"transfer-encoding", b"chunked")), 400),
        (_scope(b"/", (b"upgrade", b"h2c")), 400),
        (_scope(b"*", version="2.0"), 400),
        (_scope(b"/", *[(b"x", b"y")] * 201), 431),
        (_scope(b"/" + b"x" * 17_000), 414),
        (_scope(b"/", query=b"x" * 17_000), 414),
        (_scope(b"/", (b"content-length", b"101")), 413),
    ],
)
async def test_refuses_what_hypercorn_would_take(scope, status, autojump_clock):
    with pytest.raises(Refused) as caught:
        check_head(scope, 100)
    assert caught.value.status == status
    wire = Wire(_piece())
    await _cold(max_body_bytes=100)(scope, wire.receive, wire.send)
    assert wire.status == status
    assert (b"connection", b"close") in wire.sent[0]["headers"]


async def test_a_body_that_grows_too_large_is_refused(autojump_clock):
    wire = Wire(*[_piece(b"x" * 60, more=True)] * 3)
    await _cold(max_body_bytes=100)(_scope(), wire.receive, wire.send)
    assert wire.status == 413


async def test_a_slow_body_is_refused(autojump_clock):
    wire = Wire(_piece(b"x", more=True))
    began = trio.current_time()
    await _cold(limits=ServerLimits(body_idle_s=30))(_scope(), wire.receive, wire.send)
    assert wire.status == 408
    assert trio.current_time() - began == pytest.approx(31)


async def test_a_crash_is_logged_and_answered(autojump_clock):
    async def app(scope, receive, send):
        raise ValueError("secret")

    wire = Wire(_piece())
    with structlog.testing.capture_logs() as logs:
        await _cold(app)(_scope(), wire.receive, wire.send)
    assert wire.status == 500
    assert (logs[0]["event"], logs[0]["exc_type"]) == ("request_crashed", "ValueError")
    assert (b"x-request-id", logs[0]["request_id"].encode()) in wire.sent[0]["headers"]


async def test_a_client_that_is_gone_is_not_a_crash():
    async def gone(message):
        raise OSError("gone")

    wire = Wire(_piece())
    with structlog.testing.capture_logs() as logs:
        await _cold()(_scope(), wire.receive, gone)
    assert logs == []


async def test_the_final_body_is_sent_although_the_app_is_cancelled():
    async def app(scope, receive, send):
        await receive()
        with trio.CancelScope() as scope:
            scope.cancel()
            await send({"type": "http.response.body", "body": b"last"})

    wire = Wire(_piece())
    await _cold(app)(_scope(), wire.receive, wire.send)
    assert [message["body"] for message in wire.sent] == [b"last"]


async def test_an_unread_body_is_dropped_while_the_answer_is_finished():
    async def app(scope, receive, send):
        await respond(send, b"no", 403)

    wire = Wire(*[_piece(b"x", more=True)] * 50)

    async def send(message):
        await Wire.send(wire, message)
        if message["type"] == "http.response.body":
            while wire.messages:
                await trio.lowlevel.checkpoint()

    with trio.fail_after(1):
        await _cold(app)(_scope(), wire.receive, send)
    assert wire.status == 403


async def test_the_limit_in_flight_holds_for_hot_paths_only(autojump_clock):
    cold = _cold(max_in_flight=0)
    for path, status in ((b"/hot", 503), (b"/cold", 200)):
        wire = Wire(_piece())
        await cold(_scope(path), wire.receive, wire.send)
        assert wire.status == status
    assert cold.drain.in_flight == 0
