"""The library in asyncio programs, on the standard loop and on uvloop; every gateway here is a real one in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trio
import uvloop

import gw
from gw.errors import (
    ConfigError,
    DatabaseLocked,
    ProviderFailed,
    RateLimitError,
    RequestError,
    UnknownModelError,
    UnknownProjectError,
    UnknownProviderError,
)
from gw.library.asyncio_portal import PIECES
from gw.store.sqlite import open_reader
from gw.types.stt import Final
from tests.library.conftest import CHAIN, HELLO, YAML

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Scenario = Callable[[Any], Coroutine[Any, Any, Any]]


@pytest.fixture(params=LOOPS)
def run(request) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    def in_loop(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(main)

    return in_loop


def statuses(settings: Any) -> list[str]:
    """Return the statuses of all records of a database that is closed, in the order of their ids."""
    db = open_reader(settings.cost_tracking.db_path)
    try:
        assert not list(settings.cost_tracking.db_path.parent.glob("*.journal*")), "everything has been committed"
        return [status for (status,) in db.execute("select status from requests order by id")]
    finally:
        db.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a state that the trio thread brings about."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # another thread changes it
            await asyncio.sleep(0)


async def said(g: Any, text: str = "one two three") -> bytes:
    async with g.tts().speak(text, sample_rate_hz=16_000) as speech:
        return b"".join([piece async for piece in speech])


async def listened(g: Any, samples: bytes) -> str:
    async with g.stt().stream() as live:

        async def speak() -> None:
            for at in range(0, len(samples), 3_200):
                await live.send(samples[at : at + 3_200])
            await live.finish()

        speaking = asyncio.create_task(speak())
        finals = [event.text async for event in live if isinstance(event, Final)]
        await speaking
    assert (live.model, live.record.status) == ("sim/tone", "success")
    return " ".join(finals)


def test_chat_speech_and_transcript(run, settings):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g:
            async with g.llm("sim/echo", session_id="s1", turn_id="t1").chat(message for message in HELLO) as reply:
                assert [piece async for piece in reply] == ["Hello", " you", " there"]
            assert (reply.model, reply.finish_reason, reply.tool_calls) == ("sim/echo", "stop", ())
            assert (reply.record.session_id, reply.record.turn_id, reply.record.endpoint) == ("s1", "t1", "library")
            stack = g.stack("demo")
            async with stack.tts.speak("Hello you there") as speech:
                samples = b"".join([piece async for piece in speech])
            assert speech.format.sample_rate_hz == 24_000
            transcript = await stack.stt.transcribe(samples, sample_rate_hz=24_000)
            assert transcript.text == "Hello you there"

    run(main())
    assert statuses(settings()) == ["success"] * 3


def test_live_sessions(run, settings):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g:
            assert await listened(g, await said(g)) == "one two three"
            async with g.tts().stream(sample_rate_hz=16_000) as voice:
                await voice.send("what nobody hears")
                await voice.clear()
                await voice.send("what is said")
                await voice.flush()
                await voice.finish()
                samples = b"".join([piece async for piece in voice])
            assert voice.format.sample_rate_hz == 16_000
            assert (await g.stt().transcribe(samples, sample_rate_hz=16_000)).text == "what is said"

    run(main())
    assert set(statuses(settings())) == {"success"}


@pytest.mark.parametrize(
    ("model", "error", "python", "words"),
    [
        ("nobody/x", UnknownProviderError, ValueError, "unknown provider 'nobody'"),
        ("sim/nothing", UnknownModelError, ValueError, "unknown model 'sim/nothing'"),
        ("busy/echo", RateLimitError, Exception, "busy: rate limited"),
        ("down/echo", ProviderFailed, Exception, "down"),
        ("alone/llama", ConnectionRefusedError, OSError, "Connection refused"),
    ],
)
def test_errors_have_their_types(settings, model, error, python, words):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g:
            with pytest.raises(error, match=words) as raised:
                async with g.llm(model).chat(HELLO):
                    pass
            assert isinstance(raised.value, python)
            with pytest.raises(RequestError, match="unknown stack 'gold'; available: demo"):
                g.stack("gold")
            with pytest.raises(RequestError, match="the recording is empty"):
                await g.stt().transcribe(b"")
            with pytest.raises(ZeroDivisionError):
                async with g.llm("sim/echo").chat(HELLO):
                    raise ZeroDivisionError

    asyncio.run(main())


def test_a_failure_moves_on_to_the_chain(settings):
    async def main() -> Any:
        async with gw.asyncio.open_gateway(settings(YAML + CHAIN)) as g, g.llm("down/echo").chat(HELLO) as reply:
            assert "".join([piece async for piece in reply]) == "Hello you there"
            return reply.record

    record = asyncio.run(main())
    assert (record.status, record.fallback_from) == ("fallback", "down/echo")


def test_what_opening_raises(settings, tmp_path):
    async def main() -> None:
        with pytest.raises(ConfigError):
            async with gw.asyncio.open_gateway(tmp_path / "missing.yaml"):
                pass
        with pytest.raises(UnknownProjectError):
            async with gw.asyncio.open_gateway(settings(), project="nobody"):
                pass
        async with gw.asyncio.open_gateway(settings()):
            with pytest.raises(DatabaseLocked):
                async with gw.asyncio.open_gateway(settings()):
                    pass

    asyncio.run(main())


async def test_outside_asyncio_it_names_what_to_use():
    with pytest.raises(RuntimeError, match=r"in trio use gw\.open_gateway\(\), in plain threads gw\.Gateway\(\)"):
        gw.asyncio.open_gateway()


def test_usage_events_come_on_the_loop(run, settings):
    events: list[tuple[Any, gw.UsageCollected]] = []

    async def main() -> Any:
        async with gw.asyncio.open_gateway(settings()) as g:
            g.on("usage_collected", lambda event: 1 / 0)  # logged; the next one is called all the same
            g.on("usage_collected", lambda event: events.append((asyncio.get_running_loop(), event)))
            with pytest.raises(ValueError, match="unknown event"):
                g.on("other", print)
            async with g.llm("sim/echo").chat(HELLO) as reply:
                async for _ in reply:
                    pass
            await g.emit(gw.UsageCollected(modality="tts", model="mine/voice", characters=3))
            with pytest.raises(RequestError, match="model must be"):
                await g.emit(gw.UsageCollected(modality="tts", model="voice", characters=3))
            return asyncio.get_running_loop()

    loop = run(main())
    assert [event.model for _, event in events] == ["sim/echo", "mine/voice"]
    assert {where for where, _ in events} == {loop}


def test_a_slow_reader_holds_the_answer_up_and_loses_nothing(run, settings):
    words = [f"w{n}" for n in range(1_000)]

    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g:
            async with g.llm("sim/echo").chat([{"role": "user", "content": " ".join(words)}]) as reply:
                pieces = [await anext(reply)]
                await until(lambda: len(reply._task._pieces) == PIECES - 1)
                await g.emit(gw.UsageCollected(modality="tts", model="mine/voice"))  # a way there and back: nothing is underway
                assert len(reply._task._pieces) == PIECES - 1
                assert reply.record is None
                pieces += [piece async for piece in reply]
            assert "".join(pieces).split() == words

    run(main())


def test_one_task_reads_at_a_time_and_may_stop_waiting(settings):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g, g.llm("slow/echo").chat(HELLO) as reply:
            await anext(reply)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await anext(reply)
            waiting = asyncio.ensure_future(anext(reply))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="another task is reading this answer"):
                await anext(reply)
            waiting.cancel()

    asyncio.run(main())


# ---- cancellation


class CancelledAt:
    """Awaits a coroutine, and has its task cancelled where it waits for the nth time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int) -> None:
        self.coroutine = coroutine
        self.at = at
        self.waits = 0

    def __await__(self) -> Any:
        steps = self.coroutine.__await__()
        send, value = steps.send, None
        while True:
            try:
                future = send(value)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self.at:
                asyncio.current_task().cancel()
            try:
                send, value = steps.send, (yield future)
            except BaseException as error:
                send, value = steps.throw, error


async def _chats(g: Any) -> None:
    async with g.llm("sim/echo").chat(HELLO) as reply:
        async for _ in reply:
            pass


async def _speaks_and_transcribes(g: Any) -> None:
    await g.stt().transcribe(await said(g), sample_rate_hz=16_000)


async def _listens(g: Any) -> None:
    async with g.stt().stream() as live:
        await live.send(bytes(3_200))
        await live.finish()
        async for _ in live:
            pass


async def _speaks_live(g: Any) -> None:
    async with g.tts().stream() as voice:
        await voice.send("what is said")
        await voice.clear()
        await voice.flush()
        await voice.finish()
        async for _ in voice:
            pass


async def _emits(g: Any) -> None:
    await g.emit(gw.UsageCollected(modality="tts", model="mine/voice", characters=3))


@pytest.mark.parametrize("scenario", [_chats, _speaks_and_transcribes, _listens, _speaks_live, _emits])
def test_cancelled_at_every_await_it_leaves_nothing_behind(run, settings, scenario):
    """After each cancellation the trio thread has no task of the call left, and every record is made."""
    configured = settings()

    async def main() -> int:
        at, ended = 1, False
        async with gw.asyncio.open_gateway(configured) as g:

            async def nothing_runs(gateway: Any) -> None:
                assert g.portal.portal.nursery.child_tasks == {trio.lowlevel.current_task()}
                assert not gateway._gateway.relay.in_flight.requests

            while not ended:
                attempt = CancelledAt(scenario(g), at)

                async def cancelled(attempt: CancelledAt = attempt) -> bool:
                    try:
                        await attempt
                    except asyncio.CancelledError:
                        return False
                    return True

                ended = await asyncio.create_task(cancelled())
                assert ended == (attempt.waits < at)
                await g.portal.run(nothing_runs)
                at += 1
        return at

    assert run(main()) > 2
    assert set(statuses(configured)) <= {"success", "cancelled"}


def test_cancelled_while_it_opens_or_closes(run, settings):
    configured = settings()

    async def scenario() -> None:
        async with gw.asyncio.open_gateway(configured) as g:
            await _chats(g)

    async def main() -> int:
        at, waits = 0, 0
        while waits >= at:
            at += 1
            attempt = CancelledAt(scenario(), at)

            async def cancelled(attempt: CancelledAt = attempt) -> None:
                with contextlib.suppress(asyncio.CancelledError):
                    await attempt

            await asyncio.create_task(cancelled())
            waits = attempt.waits
            assert "gw" not in {thread.name for thread in threading.enumerate()}, "the trio thread has ended"
        return at

    assert run(main()) > 3
    assert set(statuses(configured)) <= {"success", "cancelled"}


@contextlib.contextmanager
def endless_vendor():
    """A server of OpenAI's protocol that sends one piece of an answer, and then waits for the end of the connection."""
    choice = {"index": 0, "delta": {"content": "Hi"}}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                body = b"data: " + json.dumps(chunk).encode() + b"\n\n"
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + body)
                with contextlib.suppress(OSError):
                    while connection.recv(65_536):
                        pass
                ended.set()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", ended
        thread.join(60)


def test_a_cancelled_task_closes_the_upstream_before_it_ends(run, settings):
    with endless_vendor() as (url, ended):
        text = f"providers: {{v: {{type: openai, base_url: {url!r}, api_key: k}}}}\nmodels: {{llm: [v/m]}}\n"
        records = []

        async def main() -> None:
            async with gw.asyncio.open_gateway(settings(text)) as g:
                begun = asyncio.Event()

                async def talk() -> None:
                    async with g.llm("v/m").chat(HELLO) as reply:
                        try:
                            async for _ in reply:
                                begun.set()
                        finally:
                            records.append(reply)

                task = asyncio.create_task(talk())
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert records[0].record.status == "cancelled"
                assert await asyncio.to_thread(ended.wait, 60)

        run(main())


def test_closing_under_load_ends_every_call(run, settings):
    configured = settings()

    async def main() -> list[str]:
        ends: list[str] = []

        async def client(g: Any) -> None:
            try:
                while True:
                    await _chats(g)
            except RuntimeError as error:
                ends.append(str(error))

        async with asyncio.TaskGroup() as group, gw.asyncio.open_gateway(configured) as g:
            for _ in range(50):
                group.create_task(client(g))
            for _ in range(20):
                await _chats(g)
            begun = asyncio.Event()
            group.create_task(_waits(g, begun, ends))
            await begun.wait()
        return ends

    ends = run(main())
    assert len(ends) == 51
    assert set(ends) == {"this gateway has been closed"}
    recorded = statuses(configured)
    assert recorded.count("success") >= 20
    assert set(recorded) <= {"success", "cancelled"}


async def _waits(g: Any, begun: asyncio.Event, ends: list[str]) -> None:
    try:
        async with g.llm("slow/echo").chat(HELLO) as reply:
            async for _ in reply:
                begun.set()
    except RuntimeError as error:
        ends.append(str(error))


# ---- several loops


def test_several_loops_share_a_gateway(settings):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g:

            def other_loop(make_loop: Callable[[], Any]) -> str:
                async def talk() -> str:
                    samples = await said(g)
                    async with g.llm("sim/echo").chat(HELLO) as reply:
                        async for _ in reply:
                            pass
                    return await listened(g, samples)

                with asyncio.Runner(loop_factory=make_loop) as runner:
                    return runner.run(talk())

            texts = await asyncio.gather(*(asyncio.to_thread(other_loop, loop) for loop in [*LOOPS.values()] * 3))
            assert texts == ["one two three"] * 6

    asyncio.run(main())


def test_an_answer_belongs_to_its_loop(settings):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g, g.llm("slow/echo").chat(HELLO) as reply:

            async def elsewhere() -> None:
                with pytest.raises(RuntimeError, match="belongs to another event loop"):
                    await anext(reply)

            await asyncio.to_thread(asyncio.run, elsewhere())

    asyncio.run(main())


def test_a_loop_that_just_ends_stops_its_upstream(settings):
    async def main() -> Any:
        async with gw.asyncio.open_gateway(settings()) as g:
            left: list[Any] = []

            def abandoned() -> None:
                loop = asyncio.new_event_loop()
                text = " ".join(map(str, range(1_000)))
                left.append(g.llm("sim/echo").chat([{"role": "user", "content": text}]))
                reply = loop.run_until_complete(left[0].__aenter__())
                left.append(reply)
                loop.run_until_complete(anext(reply))
                loop.close()

            await asyncio.to_thread(abandoned)
            reply = left[1]
            reply._task.portal.portal.run_soon(lambda: reply._task._return_credit(PIECES))
            await until(lambda: reply.record is not None)
            return reply.record

    assert asyncio.run(main()).status == "cancelled"


def test_a_gateway_that_has_failed_says_so(settings):
    async def main() -> None:
        async with gw.asyncio.open_gateway(settings()) as g:
            portal = g.portal.portal

            async def fail() -> None:
                raise ZeroDivisionError

            async def explode(_gateway: Any) -> None:
                portal.nursery.start_soon(fail)
                await trio.sleep_forever()

            with pytest.raises(RuntimeError, match="this gateway has been closed"):
                await g.portal.run(explode)
            await asyncio.to_thread(portal._thread.join, 5)
            with pytest.raises(RuntimeError, match="ended because of the error") as raised:
                await _chats(g)
            assert isinstance(raised.value.__cause__, ZeroDivisionError)

    asyncio.run(main())
