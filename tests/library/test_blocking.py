"""The library in a program with plain threads; every gateway here is a real one with its own database."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

import gw
from gw.errors import (
    AllCandidatesFailed,
    BudgetExceededError,
    ConfigError,
    DatabaseLocked,
    ProviderFailed,
    RateLimitError,
    RequestError,
    UnknownModelError,
    UnknownProjectError,
    UnknownProviderError,
)
from gw.types.stt import Final, ListenEnd
from tests.library.conftest import CHAIN, HELLO, YAML


def test_chat_gives_its_pieces_as_they_come(gateway):
    stream = gateway.llm("sim/echo").chat(HELLO)
    assert list(stream) == ["Hello", " you", " there"]
    assert (stream.model, stream.finish_reason) == ("sim/echo", "stop")
    assert stream.record.status == "success"
    assert stream.record.usage.output_tokens > 0
    assert stream.record.cost_nusd > 0


def test_the_whole_text_at_once(gateway):
    assert gateway.llm().chat(HELLO, temperature=0.2).text() == "Hello you there"


def test_what_was_iterated_is_not_said_again(gateway):
    stream = gateway.llm("demo").chat(HELLO)
    assert next(stream) == "Hello"
    assert stream.text() == " you there"


def test_speech_and_back(gateway):
    with gateway.tts("sim/tone").speak("the weather in Paris", sample_rate_hz=16_000) as speech:
        samples = speech.audio()
    assert (speech.format.encoding, speech.format.sample_rate_hz) == ("pcm_s16le", 16_000)
    assert speech.record.usage.characters == 20
    transcript = gateway.stt("sim/tone").transcribe(samples, sample_rate_hz=16_000)
    assert transcript.text == "the weather in Paris"
    assert transcript.seconds == pytest.approx(len(samples) / 32_000)
    assert transcript.record.usage.audio_seconds == pytest.approx(len(samples) / 32_000, abs=0.01)


def test_word_times_where_they_are_asked_for(gateway):
    samples = gateway.tts().speak("two words").audio()
    transcript = gateway.stt().transcribe(samples, sample_rate_hz=24_000, timestamps=["word"])
    assert [word.text for word in transcript.words] == ["two", "words"]


def test_live_transcription_read_after_all_was_sent(gateway):
    samples = gateway.tts().speak("the weather in Paris", sample_rate_hz=16_000).audio()
    with gateway.stack("demo").stt.stream(sample_rate_hz=16_000) as live:
        for at in range(0, len(samples), 3_200):
            live.send(samples[at : at + 3_200])
        live.finish()
        events = list(live)
    assert " ".join(event.text for event in events if isinstance(event, Final)) == "the weather in Paris"
    assert isinstance(events[-1], ListenEnd)
    assert live.record.status == "success"


def test_live_transcription_sent_by_one_thread_and_read_by_another(gateway):
    samples = gateway.tts().speak("one two three", sample_rate_hz=16_000).audio()
    with gateway.stt().stream() as live:

        def speak() -> None:
            for at in range(0, len(samples), 640):
                live.send(samples[at : at + 640])
            live.finish()

        speaker = threading.Thread(target=speak)
        speaker.start()
        finals = [event.text for event in live if isinstance(event, Final)]
        speaker.join()
    assert " ".join(finals) == "one two three"


def test_what_a_language_model_says_is_spoken_as_it_comes(gateway):
    with gateway.tts().stream(sample_rate_hz=16_000) as voice:
        for piece in gateway.llm("sim/echo").chat(HELLO):
            voice.send(piece)
        voice.flush()
        voice.finish()
        samples = b"".join(voice)
    assert voice.model == "sim/tone"
    assert voice.record.usage.characters == len("Hello you there")
    assert gateway.stt().transcribe(samples, sample_rate_hz=voice.format.sample_rate_hz).text == "Hello you there"


def test_session_and_turn_stand_in_the_records(gateway):
    llm = gateway.llm("sim/echo", session_id="s1", turn_id="t1")
    stream = llm.chat(HELLO)
    stream.text()
    assert (stream.record.session_id, stream.record.turn_id, stream.record.endpoint) == ("s1", "t1", "library")


def test_a_failure_moves_on_to_the_chain(settings):
    with gw.Gateway(settings(YAML + CHAIN)) as gateway:
        stream = gateway.llm("down/echo").chat(HELLO)
        assert stream.text() == "Hello you there"
        assert (stream.record.status, stream.record.fallback_from) == ("fallback", "down/echo")
        with pytest.raises(ProviderFailed):
            gateway.llm("down/echo", fallback=False).chat(HELLO)


@pytest.mark.parametrize(
    ("model", "error", "python", "words"),
    [
        ("nobody/x", UnknownProviderError, ValueError, "unknown provider 'nobody'; available: .*sim"),
        ("sim/nothing", UnknownModelError, ValueError, "unknown model 'sim/nothing'; available: .*sim/echo"),
        ("busy/echo", RateLimitError, Exception, "busy: rate limited"),
        ("alone/llama", ConnectionRefusedError, OSError, "alone: unreachable: Connection refused"),
    ],
)
def test_errors_are_those_of_the_tree_and_of_python(gateway, model, error, python, words):
    with pytest.raises(error, match=words) as raised:
        gateway.llm(model).chat(HELLO)
    assert isinstance(raised.value, python)


def test_all_candidates_failed_names_each(settings):
    with gw.Gateway(settings(YAML + "fallbacks: {llm: [down/echo, busy/echo]}\n")) as gateway:
        with pytest.raises(AllCandidatesFailed) as raised:
            gateway.llm("down/echo").chat(HELLO)
        assert [failure.model_id for failure in raised.value.failures] == ["down/echo", "busy/echo"]


def test_a_budget_that_blocks(settings):
    words = r"project 'poor' has reached its daily budget of \$1e-06"
    with gw.Gateway(settings(), project="poor") as gateway, pytest.raises(BudgetExceededError, match=words):
        [gateway.llm("sim/echo").chat(HELLO).text() for _ in range(3)]


def test_a_project_that_there_is_not(settings):
    gateway = gw.Gateway(settings(), project="nobody")
    for _ in range(2):
        with pytest.raises(UnknownProjectError, match="unknown project 'nobody'; available: "):
            gateway.llm().chat(HELLO)
    gateway.close()


def test_a_stack_that_there_is_not(gateway):
    with pytest.raises(ValueError, match="unknown stack 'gold'; available: demo"):
        gateway.stack("gold").llm.chat(HELLO)


@pytest.mark.parametrize(
    ("audio", "rate", "words"),
    [
        (b"", 0, "empty"),
        (b"", 16_000, "empty"),
        (b"no audio at all", 0, "give sample_rate_hz"),
        (b"\0\0", 1, "sample_rate_hz must be from 8000"),
    ],
)
def test_recordings_that_are_none(gateway, audio, rate, words):
    with pytest.raises(RequestError, match=words):
        gateway.stt().transcribe(audio, sample_rate_hz=rate)


def test_a_file_that_is_not_there(gateway, tmp_path):
    with pytest.raises(FileNotFoundError):
        gateway.stt().transcribe(tmp_path / "no.wav")


def test_messages_may_come_from_an_iterator_that_uses_the_gateway(gateway):
    def messages():
        yield {"role": "user", "content": gateway.llm("sim/echo").chat(HELLO).text()}

    assert gateway.llm("sim/echo").chat(messages()).text() == "Hello you there"
    assert gateway.llm("sim/echo").chat(messages=messages()).text() == "Hello you there"


@pytest.mark.parametrize("messages", [[], [{"role": object()}]])
def test_messages_that_are_none(gateway, messages):
    with pytest.raises((RequestError, TypeError)):
        gateway.llm("sim/echo").chat(messages)


def test_a_wrong_argument_fails_at_once(gateway):
    with pytest.raises(TypeError, match="modle"):
        gateway.llm(modle="sim/echo")


def test_no_configuration(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        gw.Gateway(tmp_path / "gw.yaml")


def test_two_gateways_on_one_database(settings):
    first, second = gw.Gateway(settings()), gw.Gateway(settings())
    first.llm("sim/echo").chat(HELLO).text()
    with pytest.raises(DatabaseLocked, match="database is locked"):
        second.llm("sim/echo").chat(HELLO)
    first.close()
    assert second.llm("sim/echo").chat(HELLO).text() == "Hello you there"
    second.close()


def test_fifty_threads_at_once(gateway):
    def ask(number: int) -> str:
        return gateway.llm("sim/echo").chat([{"role": "user", "content": f"I am number {number}"}]).text()

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(100)))
    assert answers == [f"I am number {number}" for number in range(100)]


def test_a_stream_that_is_left_is_cancelled_and_recorded(gateway):
    with gateway.llm("slow/echo").chat(HELLO) as stream:
        assert next(stream) == "Hello"
    assert stream.record.status == "cancelled"
    with pytest.raises(RuntimeError, match="this answer was closed"):
        list(stream)


def test_a_stream_that_is_forgotten_is_cancelled_too(gateway):
    called = threading.Event()
    statuses: list[str] = []
    gateway.on("usage_collected", lambda event: (statuses.append(event.record.status), called.set()))
    for piece in gateway.llm("slow/echo").chat(HELLO):
        assert piece == "Hello"
        break
    gc.collect()
    assert called.wait(60)
    assert statuses == ["cancelled"]


def test_closing_the_gateway_ends_what_still_reads(settings):
    gateway = gw.Gateway(settings())
    stream = gateway.llm("slow/echo").chat(HELLO)
    assert next(stream) == "Hello"
    threading.Timer(0.02, gateway.close).start()
    with pytest.raises(RuntimeError, match="this gateway has been closed"):
        next(stream)
    with pytest.raises(RuntimeError, match="this gateway has been closed"):
        gateway.llm("sim/echo").chat(HELLO)
    gateway.close()
    stream.close()


def test_a_gateway_that_was_never_used_closes(settings):
    with gw.Gateway(settings()):
        pass


def test_inside_asyncio_it_names_what_to_use(settings, gateway):
    async def inside() -> None:
        with pytest.raises(RuntimeError, match=r"already running.*in asyncio use .*gw\.asyncio\.open_gateway\(\)"):
            gw.Gateway(settings())
        with pytest.raises(RuntimeError, match="already running"):
            gateway.llm("sim/echo")
        answers = await asyncio.to_thread(lambda: gateway.llm("sim/echo").chat(HELLO).text())
        assert answers == "Hello you there"

    asyncio.run(inside())


def test_inside_trio_it_names_its_twin(settings, gateway):
    async def inside() -> None:
        with pytest.raises(RuntimeError, match=r"already running.*gw\.open_gateway\(\)"):
            gw.Gateway(settings())
        with pytest.raises(RuntimeError, match="already running"):
            gateway.stt()
        answers = await trio.to_thread.run_sync(lambda: gateway.llm("sim/echo").chat(HELLO).text())
        assert answers == "Hello you there"

    trio.run(inside)


def test_usage_is_told_in_another_thread_before_close_returns(settings):
    events: list[gw.UsageCollected] = []
    threads: set[threading.Thread] = set()

    def listen(event: gw.UsageCollected) -> None:
        threads.add(threading.current_thread())
        events.append(event)

    with gw.Gateway(settings()) as gateway:
        gateway.on("usage_collected", listen)
        samples = gateway.tts().speak("hello", sample_rate_hz=16_000).audio()
        gateway.stt().transcribe(samples, sample_rate_hz=16_000)
        gateway.llm("sim/echo").chat(HELLO).text()
    tts, stt, llm = events
    assert (tts.modality, tts.model, tts.characters) == ("tts", "sim/tone", 5)
    assert (stt.modality, stt.audio_seconds) == ("stt", pytest.approx(len(samples) / 32_000, abs=0.01))
    assert (llm.modality, llm.output_tokens > 0, llm.project) == ("llm", True, "default")
    assert llm.cost_usd > 0
    assert threading.current_thread() not in threads


def test_a_listener_that_fails_or_asks_is_no_danger(settings, caplog):
    called: list[str] = []
    answered = threading.Event()
    with gw.Gateway(settings()) as gateway:

        def fail(_event: gw.UsageCollected) -> None:
            raise ValueError("a fault of the listener")

        def ask(event: gw.UsageCollected) -> None:
            if event.model == "sim/echo":
                called.append(gateway.stack("demo").tts.speak("told").model)
                answered.set()

        gateway.on("usage_collected", fail)
        gateway.on("usage_collected", ask)
        gateway.llm("sim/echo").chat(HELLO).text()
        assert answered.wait(60)
    assert called == ["sim/tone"]
    assert "usage_listener_failed" in caplog.text


@pytest.mark.parametrize(("event", "listener", "error"), [("other", print, ValueError), ("usage_collected", 3, TypeError)])
def test_listeners_that_cannot_be(gateway, event, listener, error):
    with pytest.raises(error):
        gateway.on(event, listener)


def test_emitted_usage_is_recorded_priced_and_told(settings):
    events: list[gw.UsageCollected] = []
    with gw.Gateway(settings(), project="poor") as gateway:
        gateway.on("usage_collected", events.append)
        gateway.emit(gw.UsageCollected(modality="tts", model="mine/parrot", characters=40, cost_usd=0.002))
        gateway.emit(gw.UsageCollected(modality="stt", model="sim/tone", audio_seconds=2.0, project="default"))
        gateway.emit(gw.UsageCollected(modality="llm", model="mine/x", input_tokens=3))
        with pytest.raises(BudgetExceededError):
            gateway.llm("sim/echo").chat(HELLO)
    own, priced, unpriced, refused = events
    assert (own.cost_usd, own.project, own.record.provider) == (0.002, "poor", "mine")
    assert (own.record.endpoint, own.record.pricing_source) == ("emitted", "vendor")
    assert priced.cost_usd > 0
    assert (unpriced.cost_usd, unpriced.record.pricing_source) == (None, "unpriced")
    assert refused.record.error_code == "budget_exceeded"


@pytest.mark.parametrize(
    "usage",
    [
        {"modality": "smell", "model": "a/b"},
        {"modality": "stt", "model": "nothing"},
        {"modality": "stt", "model": "a/"},
        {"modality": "stt", "model": "a/b", "audio_seconds": -1.0},
        {"modality": "stt", "model": "a/b", "audio_seconds": float("nan")},
        {"modality": "tts", "model": "a/b", "cost_usd": float("inf")},
    ],
)
def test_usage_that_nobody_can_have(gateway, usage):
    with pytest.raises(RequestError):
        gateway.emit(gw.UsageCollected(**usage))
