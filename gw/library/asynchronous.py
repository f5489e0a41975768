"""The gateway for trio programs: the calls of the daemon's own data plane, awaited.

    async with gw.open_gateway() as g:
        async with g.llm("openai/gpt-4o").chat([{"role": "user", "content": "Hello"}]) as reply:
            async for piece in reply: ...

`Gateway` in `gw.library.blocking` gives the same to plain threads, by running this in a thread of its own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec
import trio

from gw.config.find import find
from gw.config.parse import load_settings
from gw.config.settings import Settings
from gw.errors import RequestError, one_error
from gw.gateway import Gateway as Inner
from gw.gateway import open_gateway as open_inner
from gw.library.exceptions import in_python_terms
from gw.library.log_forwarding import log_to_program
from gw.library.recordings import recording
from gw.library.responses import ChatReply, LiveSpeech, LiveTranscription, SpeechReply, Transcription
from gw.library.usage_events import Listener, Tell, UsageCollected, UsageFeed, tell_here
from gw.relay.meter import Meter, cost_of
from gw.types.audio import AudioFormat
from gw.types.caller import Caller
from gw.types.ids import split_model_id
from gw.types.stt import ListenRequest, Transcript
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import NANO, Cost
from gw.wire import openai_audio, openai_chat_server, wav

ENDPOINT = "library"
"""What stands as `endpoint` in the records of such requests."""
EMITTED = "emitted"
"""The same for what an engine of the program's own has used."""
LAST_EVENTS_S = 5.0
"""For usage events that wait when the gateway closes."""
USAGE_COLLECTED = "usage_collected"


def settings_of(config: str | Path | Settings | None) -> Settings:
    """`config` is a file's path, or settings; None = the file that `gw serve` would take. Blocks; raises ConfigError."""
    if isinstance(config, Settings):
        return config
    return load_settings(find(os.environ) if config is None else Path(config), os.environ)


@attrs.frozen(kw_only=True)
class _Asking:
    """Who asks whom, and for what."""

    inner: Inner
    model: str
    caller: Caller


def _samples_at(sample_rate_hz: int) -> AudioFormat:
    if sample_rate_hz not in wav.RATES_HZ:
        raise RequestError(what=f"{sample_rate_hz} Hz is no sample rate of speech", param="sample_rate_hz")
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=sample_rate_hz)


class AsyncLlm:
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    @asynccontextmanager
    async def chat(self, messages: Iterable[Mapping[str, object]], **fields: object) -> AsyncIterator[ChatReply]:
        """`messages`, and `fields` such as `temperature` and `tools`, are those of OpenAI's chat completions.

        Entered when the first content has come. Raises GwError; TypeError for what is no JSON.
        """
        asking = self._asking
        body = msgspec.json.encode({**fields, "model": asking.model, "messages": list(messages), "stream": True})
        request = openai_chat_server.parse_request(body)
        with in_python_terms():
            async with asking.inner.relay.chat(request, asking.caller) as answer:
                yield ChatReply(answer)


class AsyncStt:
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    async def transcribe(
        self,
        audio: bytes | str | Path,
        *,
        sample_rate_hz: int = 0,
        language: str | None = None,
        prompt: str | None = None,
        timestamps: Iterable[Literal["word", "segment"]] = (),
    ) -> Transcription:
        """A whole recording: the path or the bytes of an audio file, or, with `sample_rate_hz`, bare samples.

        Samples are signed, 16 bits, mono. Raises GwError; OSError for a file.
        """
        source = await trio.to_thread.run_sync(recording, audio, sample_rate_hz)
        asking, detailed = self._asking, [("timestamp_granularities[]", kind) for kind in timestamps]
        form = [("model", asking.model), *detailed, ("response_format", "verbose_json" if detailed else "json")]
        form += [(name, value) for name, value in (("language", language), ("prompt", prompt)) if value]
        request = openai_audio.parse_transcription(form, source, source.format, source.seconds)
        with in_python_terms():
            async with asking.inner.relay.transcribe(request, asking.caller) as answer:
                while not answer.done:
                    events = await answer.receive()
                heard, record = events[-1], answer.record
        assert isinstance(heard, Transcript), "an answer is done when its last event is the whole"
        assert record is not None, "an answer that is done has its record"
        return Transcription(
            text=heard.text,
            model=record.model_id,
            language=heard.language,
            seconds=heard.duration_s or source.seconds or None,
            segments=heard.segments,
            words=heard.words,
            record=record,
        )

    @asynccontextmanager
    async def stream(
        self, *, sample_rate_hz: int = 16_000, language: str | None = None, interim_results: bool = True
    ) -> AsyncIterator[LiveTranscription]:
        """Live: signed 16-bit mono samples in, events of `gw.types.stt` out. Raises GwError."""
        asking = self._asking
        request = ListenRequest(
            model=asking.model,
            format=_samples_at(sample_rate_hz),
            language=language,
            interim_results=interim_results,
        )
        with in_python_terms():
            async with asking.inner.relay.listen(request, asking.caller) as live:
                yield LiveTranscription(live)


class AsyncTts:
    def __init__(self, asking: _Asking) -> None:
        self._asking = asking

    @asynccontextmanager
    async def speak(
        self, text: str, *, voice: str = "", sample_rate_hz: int = 24_000, **fields: object
    ) -> AsyncIterator[SpeechReply]:
        """Signed 16-bit mono samples as they are made; `fields` as `speed` and `instructions` are OpenAI's.

        `voice` is a provider's voice, or an alias of `voices`. Entered when the first audio has come. Raises GwError.
        """
        fmt = _samples_at(sample_rate_hz)
        asking = self._asking
        body = {**fields, "model": asking.model, "input": text, "voice": voice, "response_format": "pcm"}
        parsed = openai_audio.parse_speech(msgspec.json.encode(body))
        request = attrs.evolve(parsed, format=fmt)
        with in_python_terms():
            async with asking.inner.relay.speak(request, asking.caller) as answer:
                yield SpeechReply(answer)

    @asynccontextmanager
    async def stream(
        self, *, voice: str = "", sample_rate_hz: int = 24_000, language: str | None = None
    ) -> AsyncIterator[LiveSpeech]:
        """Live: text in pieces in, as a language model gives it; signed 16-bit mono samples out. Raises GwError."""
        asking = self._asking
        request = SpeakLiveRequest(
            model=asking.model, voice=voice, format=_samples_at(sample_rate_hz), language=language
        )
        with in_python_terms():
            async with asking.inner.relay.speak_live(request, asking.caller) as live:
                yield LiveSpeech(live)


@attrs.frozen(kw_only=True)
class AsyncStack:
    """The three models of a stack."""

    stt: AsyncStt
    llm: AsyncLlm
    tts: AsyncTts


class AsyncGateway:
    """A running gateway. `model` of the factories is an id, an alias or a stack; empty = the project's usual one.

    `session_id` and `turn_id` stand in the records, and put the requests of a turn on one time line; `fallback` False
    stops after the model asked for.
    """

    def __init__(self, inner: Inner, project: str, listeners: list[Listener]) -> None:
        self._inner = inner
        self._project = project
        self._listeners = listeners

    def llm(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> AsyncLlm:
        return AsyncLlm(self._asking(model, session_id, turn_id, fallback))

    def stt(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> AsyncStt:
        return AsyncStt(self._asking(model, session_id, turn_id, fallback))

    def tts(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> AsyncTts:
        return AsyncTts(self._asking(model, session_id, turn_id, fallback))

    def stack(
        self, name: str, *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> AsyncStack:
        """Raises RequestError when there is no stack of that name."""
        stacks = self._inner.live.catalog.stacks
        if name not in stacks:
            known = ", ".join(stacks) or "none"
            raise RequestError(what=f"unknown stack {name!r}; available: {known}", param="stack")
        asking = self._asking(name, session_id, turn_id, fallback)
        return AsyncStack(stt=AsyncStt(asking), llm=AsyncLlm(asking), tts=AsyncTts(asking))

    def on(self, event: Literal["usage_collected"], listener: Listener) -> None:
        """Have `listener` told of every finished request. It runs on the event loop: it must return soon."""
        add_listener(self._listeners, event, listener)

    def emit(self, usage: UsageCollected) -> None:
        """Record what an engine of the program's own has used, as if the gateway had called it; budgets count it.

        It is told to listeners as well. Raises RequestError, UnknownProjectError.
        """
        usage.checked()
        inner, accounting = self._inner, self._inner.relay.accounting
        project = inner.live.catalog.project(usage.project or self._project).id
        caller = Caller(project=project, session_id=usage.session_id, turn_id=usage.turn_id, endpoint=EMITTED)
        meter = Meter(accounting, caller, usage.modality, usage.model, stream=False)
        meter.reservation = accounting.ledger.reserve(project, 0)
        cost = self._cost(usage, meter.day)
        meter.finish(usage=usage.units, measured=None, cost=cost, error=None, cancelled=False)

    def _cost(self, usage: UsageCollected, day: int) -> Cost:
        """The engine's own word, else the price of the configuration or the table, else unknown."""
        if usage.cost_usd is not None:
            return Cost(nusd=round(usage.cost_usd * NANO), source="vendor")
        book, catalog = self._inner.relay.accounting.book, self._inner.live.catalog
        model = catalog.by_modality[usage.modality].get(usage.model)
        if model is not None:
            return cost_of(book, usage.units, model, catalog.provider(model.provider), day)
        provider, name = split_model_id(usage.model)
        return book.cost(usage.units, book.price(provider, name, at_day=day), local=False)

    def _asking(self, model: str, session_id: str | None, turn_id: str | None, fallback: bool) -> _Asking:
        caller = Caller(
            project=self._project, session_id=session_id, turn_id=turn_id, endpoint=ENDPOINT, fallback=fallback
        )
        return _Asking(inner=self._inner, model=model, caller=caller)


def add_listener(listeners: list[Listener], event: str, listener: Listener) -> None:
    """Raises ValueError for an event that there is not, TypeError for a listener that cannot be called."""
    if event != USAGE_COLLECTED:
        raise ValueError(f"there is no event {event!r}; there is {USAGE_COLLECTED!r}")
    if not callable(listener):
        raise TypeError("a listener is a function of one argument")
    listeners.append(listener)


@asynccontextmanager
async def opened(
    settings: Settings, project: str, listeners: list[Listener], *, tell: Tell = tell_here
) -> AsyncIterator[AsyncGateway]:
    """Open the gateway, and tell `listeners` what is used. Raises as `gw.gateway.open_gateway`, UnknownProjectError."""
    redactor = log_to_program()
    keys: Iterable[Any] = (p.api_key for p in settings.providers.values())
    redactor.learn([*keys, settings.auth.admin_token, *(key.key for key in settings.auth.keys)])
    async with open_inner(settings, learn=redactor.learn) as inner:
        inner.live.catalog.project(project)
        feed = UsageFeed(listeners, tell)
        inner.store.watcher = feed
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed.run)
                yield AsyncGateway(inner, project, listeners)
                feed.close()
                nursery.cancel_scope.deadline = trio.current_time() + LAST_EVENTS_S


def open_gateway(
    config: str | Path | Settings | None = None, *, project: str = "default"
) -> AbstractAsyncContextManager[AsyncGateway]:
    """A gateway inside a trio program, for the block of an `async with`. One database has one writer.

    `config`: the path of a gw.yaml, or settings; None = the file that `gw serve` would take. `project` owns the requests.
    Raises RuntimeError outside trio; when entered ConfigError, DatabaseLocked, StoreUnavailable, UnknownProjectError.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("gw.open_gateway() is for a running trio program; elsewhere use gw.Gateway in a plain thread")
    return _open(config, project)


@asynccontextmanager
async def _open(config: str | Path | Settings | None, project: str) -> AsyncIterator[AsyncGateway]:
    settings = await trio.to_thread.run_sync(settings_of, config)
    async with opened(settings, project, []) as gateway:
        yield gateway
