import pytest
import structlog
import trio
import trio.testing
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from gw.web import http_server_websocket
from tests.fakes.edge import Stuck, open_host, request, respond


class Peer:
    """A WebSocket client by the Sans-I/O protocol of `websockets`, over the Client's stream."""

    def __init__(self, client, **options):
        self.client = client
        self.protocol = ClientProtocol(parse_uri("ws://gw/data/ws?m=1"), max_size=None, **options)

    async def flush(self):
        for data in self.protocol.data_to_send():
            await (self.client.send(data) if data else self.client.stream.send_eof())

    async def open(self, behind=()):
        self.protocol.send_request(self.protocol.connect())
        head = b"".join(self.protocol.data_to_send())
        await self.client.send(head + b"".join(behind))
        return await self.events(lambda: self.protocol.state is not State.CONNECTING or self.protocol.handshake_exc)

    async def events(self, until=None):
        """The next events; with `until`, all until it holds."""
        events = []
        while not (events and until is None) and not (until and until()):
            assert await self.client.more(), "the connection ended"
            data = bytes(self.client.seen)
            self.client.seen.clear()
            self.protocol.receive_data(data)
            events += self.protocol.events_received()
        return events

    async def frame(self):
        while True:
            for event in await self.events():
                if isinstance(event, Frame):
                    return event

    async def closed(self):
        await self.events(lambda: self.protocol.close_rcvd is not None)
        return self.protocol.close_rcvd.code


async def ws_echo(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", **{k: v for k, v in message.items() if k != "type"}})
    assert await receive() == message
    ws_echo.last = message


async def test_echoes_text_binary_and_empty_frames(autojump_clock):
    async with open_host(ws_echo) as host:
        peer = Peer(host.client)
        await peer.open()
        for send, data, opcode in (
            (peer.protocol.send_text, "héllo".encode(), Opcode.TEXT),
            (peer.protocol.send_binary, b"\0\1", Opcode.BINARY),
            (peer.protocol.send_binary, b"", Opcode.BINARY),
            (peer.protocol.send_text, b"", Opcode.TEXT),
        ):
            send(data)
            await peer.flush()
            frame = await peer.frame()
            assert (frame.opcode, bytes(frame.data)) == (opcode, data)
        peer.protocol.send_close(1000, "bye")
        await peer.flush()
        assert await peer.closed() == 1000
        assert await host.client.ended()
        await host.done.wait()
    assert ws_echo.last == {"type": "websocket.disconnect", "code": 1000, "reason": "bye"}


async def test_fragments_are_joined_and_pings_answered_in_between(autojump_clock):
    async with open_host(ws_echo) as host:
        peer = Peer(host.client)
        await peer.open()
        peer.protocol.send_binary(b"one ", fin=False)
        peer.protocol.send_ping(b"?")
        peer.protocol.send_continuation(b"two ", fin=False)
        peer.protocol.send_continuation(b"three", fin=True)
        await peer.flush()
        frames = []
        while len(frames) < 2:
            frames += [event for event in await peer.events() if isinstance(event, Frame)]
        assert [(f.opcode, bytes(f.data)) for f in frames] == [
            (Opcode.PONG, b"?"),
            (Opcode.BINARY, b"one two three"),
        ]


async def test_a_handshake_may_be_cut_anywhere_and_carry_frames_behind_it(autojump_clock):
    early = ClientProtocol(parse_uri("ws://gw/"), state=State.OPEN)
    early.send_binary(b"early")
    async with open_host(ws_echo) as host:
        peer = Peer(host.client)
        await peer.open(behind=early.data_to_send())
        assert bytes((await peer.frame()).data) == b"early"


async def test_a_ping_is_answered_while_the_app_is_busy(autojump_clock):
    async def app(scope, receive, send):
        await send({"type": "websocket.accept"})
        await trio.sleep_forever()

    async with open_host(app) as host:
        peer = Peer(host.client)
        await peer.open()
        peer.protocol.send_ping(b"1")
        await peer.flush()
        assert (await peer.frame()).opcode is Opcode.PONG


async def test_scope_subprotocol_and_headers(autojump_clock):
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        await send({"type": "websocket.accept", "subprotocol": "b", "headers": [(b"x-request-id", b"1")]})

    async with open_host(app) as host:
        peer = Peer(host.client, subprotocols=["a", "b"])
        await peer.open()
        assert peer.protocol.subprotocol == "b"
        assert await peer.closed() == 1000
    assert (seen["type"], seen["scheme"], seen["path"], seen["query_string"]) == ("websocket", "ws", "/data/ws", b"m=1")
    assert seen["subprotocols"] == ["a", "b"]
    assert {"websocket.http.response", "gw.cancels"} <= set(seen["extensions"])


async def test_a_denied_handshake_answers_over_http(autojump_clock):
    async def app(scope, receive, send):
        await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-a", b"b")]})
        await send({"type": "websocket.http.response.body", "body": b"no ", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"key"})

    async with open_host(app) as host:
        await host.client.send(_handshake())
        response = await host.client.response()
        assert (response.status, response.body, response.headers["x-a"]) == (401, b"no key", "b")
        assert await host.client.ended()


@pytest.mark.parametrize(
    ("message", "status"), [({"type": "websocket.close"}, 403), (None, 500), ({"type": "nonsense"}, 500)]
)
async def test_an_app_that_does_not_accept(message, status, autojump_clock):
    async def app(scope, receive, send):
        if message:
            await send(message)

    with structlog.testing.capture_logs():
        async with open_host(app) as host:
            await host.client.send(_handshake())
            assert (await host.client.response()).status == status
            assert await host.client.ended()


def _handshake(version=b"13", method="GET", body=b""):
    return request(
        method,
        "/data/ws",
        body,
        b"Connection: keep-alive, Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Version: " + version,
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )


@pytest.mark.parametrize(
    "data",
    [_handshake(version=b"8"), _handshake(method="POST"), _handshake(body=b"x"), _handshake()[:-34] + b"\r\n\r\n"],
)
async def test_bad_handshakes_are_refused_without_the_app(data, autojump_clock):
    app = Stuck()
    async with open_host(app) as host:
        await host.client.send(data)
        assert (await host.client.response()).status == 400
        assert await host.client.ended()
        assert not app.started.is_set()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x82\0\0\0\0\xff\xfe", 1007),
        (b"\x82\x02ab", 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x82\xff\0\0\0\0\x01\x00\x00\x01\0\0\0\0", 1009),
    ],
)
async def test_bad_frames_close_with_their_code(data, code, autojump_clock):
    async with open_host(ws_echo) as host:
        peer = Peer(host.client)
        await peer.open()
        await host.client.send(data)
        assert await peer.closed() == code
        await host.done.wait()
    assert ws_echo.last["code"] == code


async def test_the_apps_close_code_and_reason_are_sent(autojump_clock):
    async def app(scope, receive, send):
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4001, "reason": "é" * 100})
        with pytest.raises(OSError, match="over"):
            await send({"type": "websocket.send", "text": "late"})

    async with open_host(app) as host:
        peer = Peer(host.client)
        await peer.open()
        assert await peer.closed() == 4001
        assert peer.protocol.close_rcvd.reason == "é" * 61
        await host.done.wait()


async def test_a_crash_closes_with_1011(autojump_clock):
    async def app(scope, receive, send):
        await send({"type": "websocket.accept"})
        raise KeyError

    with structlog.testing.capture_logs() as logs:
        async with open_host(app) as host:
            peer = Peer(host.client)
            await peer.open()
            assert await peer.closed() == 1011
    assert [line["event"] for line in logs] == ["request_crashed"]


async def test_a_client_gone_without_a_close_frame_cancels_the_app(autojump_clock):
    app = Stuck()

    async def accepting(scope, receive, send):
        await send({"type": "websocket.accept"})
        await app(scope, receive, send)

    async with open_host(accepting) as host:
        peer = Peer(host.client)
        await peer.open()
        await app.started.wait()
        await host.client.stream.aclose()
        with trio.fail_after(0.1):
            await app.ended.wait()
            await host.done.wait()


async def test_after_a_close_frame_the_app_has_a_moment(autojump_clock):
    app = Stuck()

    async def accepting(scope, receive, send):
        await send({"type": "websocket.accept"})
        await app(scope, receive, send)

    async with open_host(accepting) as host:
        peer = Peer(host.client)
        await peer.open()
        peer.protocol.send_close(1000)
        await peer.flush()
        began = trio.current_time()
        await app.ended.wait()
        assert trio.current_time() - began == pytest.approx(http_server_websocket.LEAVE_S)
        await host.done.wait()


async def test_the_end_of_a_drain_closes_with_1012(autojump_clock):
    app = Stuck()

    async def accepting(scope, receive, send):
        await send({"type": "websocket.accept"})
        await app(scope, receive, send)

    async with open_host(accepting) as host:
        peer = Peer(host.client)
        await peer.open()
        await app.started.wait()
        host.cancel.cancel()
        assert await peer.closed() == 1012
        await host.client.stream.aclose()


@pytest.mark.parametrize("cut", [0, 1, 2], ids=["in one read", "one before the app takes", "two reads"])
async def test_messages_are_taken_one_at_a_time_in_order(cut, autojump_clock):
    """A message may have to wait; the next ones must not overtake it, whoever delivers them."""
    steps, ended = [], trio.Event()

    async def slow(message):
        steps.append(f"begin {message}")
        await trio.sleep(0.1)
        steps.append(f"end {message}")

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await trio.sleep(0.01)
        await scope["extensions"]["gw.websocket"].for_each_message(slow)
        ended.set()

    async with open_host(app) as host:
        peer = Peer(host.client)
        await peer.open()
        for number, text in enumerate((b"a", b"b", b"c")):
            peer.protocol.send_text(text)
            if cut:
                await peer.flush()
                await trio.sleep(0.02 if number == cut - 1 else 0)
        peer.protocol.send_close(1000)
        await peer.flush()
        await ended.wait()
    assert steps == [f"{step} {name}" for name in "abc" for step in ("begin", "end")]


async def test_unread_messages_hold_the_client_back(autojump_clock):
    go = trio.Event()
    sizes = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await go.wait()
        while (message := await receive())["type"] == "websocket.receive":
            sizes.append(len(message["bytes"]))

    async with open_host(app, pair=trio.testing.lockstep_stream_pair) as host, trio.open_nursery() as nursery:
        peer = Peer(host.client)
        nursery.start_soon(peer.open)
        await trio.testing.wait_all_tasks_blocked()
        sent = []

        async def upload():
            for _ in range(20):
                peer.protocol.send_binary(b"x" * 100_000)
                await peer.flush()
                sent.append(100_000)
            peer.protocol.send_close(1000)
            await peer.flush()

        nursery.start_soon(upload)
        await trio.testing.wait_all_tasks_blocked()
        assert sum(sent) < 600_000
        go.set()
        assert await peer.closed() == 1000
    assert sum(sizes) == 2_000_000


async def test_overload_denies_the_handshake(autojump_clock):
    async with open_host(ws_echo, max_in_flight=0) as host:
        await host.client.send(_handshake())
        response = await host.client.response()
        assert (response.status, response.headers["retry-after"]) == (503, "1")


async def test_a_connection_after_a_request_may_become_a_websocket(autojump_clock):
    async def app(scope, receive, send):
        await (ws_echo if scope["type"] == "websocket" else _ok)(scope, receive, send)

    async with open_host(app) as host:
        await host.client.send(request())
        assert (await host.client.response()).status == 200
        peer = Peer(host.client)
        await peer.open()
        peer.protocol.send_text(b"hi")
        await peer.flush()
        assert bytes((await peer.frame()).data) == b"hi"


async def _ok(scope, receive, send):
    await respond(send, b"ok")
