"""The gateway for trio programs: the requests of the daemon's data plane as async calls.

    async with gw.open_gateway() as g:
        async with g.llm("openai/gpt-4o").chat([{"role": "user", "content": "Hello"}]) as reply:
            async for piece in reply: ...

`gw.library.blocking` offers the same to plain threads.
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

from gw import gateway as gateways
from gw.config.gw_yaml import find
from gw.config.parse import load_settings
from gw.config.settings import Settings
from gw.dialects.auth import trace_context
from gw.errors import RequestError, one_error
from gw.library.responses import (
    ChatReply,
    LiveSpeech,
    LiveTranscription,
    SpeechReply,
    StackModels,
    Transcription,
    as_python_errors,
)
from gw.library.usage_events import CallListener, Listener, UsageCollected, UsageFeed, add_listener, call_here
from gw.relay.meter import Meter, cost_of
from gw.telemetry.log import log_to_program
from gw.types.audio import AudioFormat
from gw.types.ids import Caller, split_model_id
from gw.types.stt import ListenRequest, Transcript
from gw.types.tts import SpeakLiveRequest
from gw.types.usage import NANO, Cost
from gw.wire import openai_audio, openai_chat, wav
from gw.wire.durations import LengthMeter

ENDPOINT = "library"  # `endpoint` in the records of a program's requests
EMITTED = "emitted"  # `endpoint` in the records of usage that the program reports itself
LAST_EVENTS_S = 5.0  # time for usage events that wait when the gateway closes


def settings_of(config: str | Path | Settings | None) -> Settings:
    """Return the settings of a file, or of the file that `gw serve` would take. Blocks; raises ConfigError."""
    if isinstance(config, Settings):
        return config
    return load_settings(find(os.environ) if config is None else Path(config), os.environ)


def _samples_at(sample_rate_hz: int) -> AudioFormat:
    if sample_rate_hz not in wav.RATES_HZ:
        raise RequestError(what=f"{sample_rate_hz} Hz is not a sample rate of speech", param="sample_rate_hz")
    return AudioFormat(encoding="pcm_s16le", sample_rate_hz=sample_rate_hz)


@attrs.frozen
class _Model:
    """A model to send requests to, through a gateway and as a caller."""

    _gateway: gateways.Gateway
    _model: str
    _caller: Caller


class AsyncLlm(_Model):
    """A language model."""

    @asynccontextmanager
    async def chat(self, /, messages: Iterable[Mapping[str, object]], **fields: object) -> AsyncIterator[ChatReply]:
        """Ask for a chat completion: `messages`, and `fields` such as `temperature` and `tools`, are OpenAI's.

        The answer begins with the first content. Raises GwError; TypeError for a value that JSON cannot hold.
        """
        body = msgspec.json.encode({**fields, "model": self._model, "messages": list(messages), "stream": True})
        request = openai_chat.parse_request(body)
        with as_python_errors():
            async with self._gateway.relay.chat(request, self._caller) as answer:
                yield ChatReply(answer)


class AsyncStt(_Model):
    """A speech-to-text model."""

    async def transcribe(
        self, audio: bytes | str | Path, *, sample_rate_hz: int = 0, language: str | None = None,
        prompt: str | None = None, timestamps: Iterable[Literal["word", "segment"]] = (),
    ) -> Transcription:  # fmt: skip
        """Transcribe a recording: the path or the bytes of an audio file, or with `sample_rate_hz` bare samples.

        Samples are signed 16-bit mono. Raises GwError; OSError for a file.
        """
        source = await trio.to_thread.run_sync(recording, audio, sample_rate_hz)
        detailed = [("timestamp_granularities[]", kind) for kind in timestamps]
        form = [("model", self._model), *detailed, ("response_format", "verbose_json" if detailed else "json")]
        form += [(name, value) for name, value in (("language", language), ("prompt", prompt)) if value]
        request = openai_audio.parse_transcription(form, source, source.format, source.seconds)
        with as_python_errors():
            async with self._gateway.relay.transcribe(request, self._caller) as answer:
                while not answer.done:
                    events = await answer.receive()
                transcript, record = events[-1], answer.record
        assert isinstance(transcript, Transcript), "the last event of an answer is the transcript"
        assert record is not None, "an answer that is done has its record"
        return Transcription(
            text=transcript.text,
            model=record.model_id,
            language=transcript.language,
            seconds=transcript.duration_s or source.seconds or None,
            segments=transcript.segments,
            words=transcript.words,
            record=record,
        )

    @asynccontextmanager
    async def stream(
        self, *, sample_rate_hz: int = 16_000, language: str | None = None, interim_results: bool = True
    ) -> AsyncIterator[LiveTranscription]:
        """Transcribe live: signed 16-bit mono samples in, events of `gw.types.stt` out. Raises GwError."""
        fmt = _samples_at(sample_rate_hz)
        request = ListenRequest(model=self._model, format=fmt, language=language, interim_results=interim_results)
        with as_python_errors():
            async with self._gateway.relay.listen(request, self._caller) as live:
                yield LiveTranscription(live)


class AsyncTts(_Model):
    """A text-to-speech model."""

    @asynccontextmanager
    async def speak(
        self, /, text: str, *, voice: str = "", sample_rate_hz: int = 24_000, **fields: object
    ) -> AsyncIterator[SpeechReply]:
        """Speak `text` as signed 16-bit mono samples; `fields` such as `speed` and `instructions` are OpenAI's.

        `voice` is a provider's voice or an alias of `voices`. The answer begins with the first audio. Raises GwError.
        """
        fmt = _samples_at(sample_rate_hz)
        body = {**fields, "model": self._model, "input": text, "voice": voice, "response_format": "pcm"}
        request = attrs.evolve(openai_audio.parse_speech(msgspec.json.encode(body)), format=fmt)
        with as_python_errors():
            async with self._gateway.relay.speak(request, self._caller) as answer:
                yield SpeechReply(answer)

    @asynccontextmanager
    async def stream(
        self, *, voice: str = "", sample_rate_hz: int = 24_000, language: str | None = None
    ) -> AsyncIterator[LiveSpeech]:
        """Speak live: pieces of text in, as a language model makes them; signed 16-bit mono samples out. Raises GwError."""
        fmt = _samples_at(sample_rate_hz)
        request = SpeakLiveRequest(model=self._model, voice=voice, format=fmt, language=language)
        with as_python_errors():
            async with self._gateway.relay.speak_live(request, self._caller) as live:
                yield LiveSpeech(live)


AsyncStack = StackModels[AsyncStt, AsyncLlm, AsyncTts]


class AsyncGateway:
    """A running gateway. `model` is an id, an alias or a stack; empty for the project's default.

    `session_id` and `turn_id` are recorded and put the requests of a turn on one time line; `fallback` False stops after
    the requested model. `traceparent`: the program's own span (W3C Trace Context), whose trace the exported spans continue.
    """

    def __init__(self, gateway: gateways.Gateway, project: str, listeners: list[Listener]) -> None:
        self._gateway = gateway
        self._project = project
        self._listeners = listeners

    def llm(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True,
        traceparent: str | None = None,
    ) -> AsyncLlm:
        """Return a language model."""
        return AsyncLlm(*self._arguments(model, session_id, turn_id, fallback, traceparent))

    def stt(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True,
        traceparent: str | None = None,
    ) -> AsyncStt:
        """Return a speech-to-text model."""
        return AsyncStt(*self._arguments(model, session_id, turn_id, fallback, traceparent))

    def tts(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True,
        traceparent: str | None = None,
    ) -> AsyncTts:
        """Return a text-to-speech model."""
        return AsyncTts(*self._arguments(model, session_id, turn_id, fallback, traceparent))

    def stack(
        self, name: str, *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True,
        traceparent: str | None = None,
    ) -> AsyncStack:
        """Return the three models of a stack. Raises RequestError for an unknown name."""
        stacks = self._gateway.current.catalog.stacks
        if name not in stacks:
            raise RequestError(what=f"unknown stack {name!r}; available: {', '.join(stacks) or 'none'}", param="stack")
        arguments = self._arguments(name, session_id, turn_id, fallback, traceparent)
        return StackModels(AsyncStt(*arguments), AsyncLlm(*arguments), AsyncTts(*arguments))

    def on(self, event: Literal["usage_collected"], listener: Listener) -> None:
        """Call `listener` with the usage of every finished request. It runs on the event loop and must return soon."""
        add_listener(self._listeners, event, listener)

    def emit(self, usage: UsageCollected) -> None:
        """Record what an engine of the program itself used, as if the gateway had called it; budgets count it.

        Listeners are called too. Raises RequestError, UnknownProjectError.
        """
        usage.check()
        accounting = self._gateway.relay.accounting
        project = self._gateway.current.catalog.project(usage.project or self._project).id
        caller = Caller(project=project, session_id=usage.session_id, turn_id=usage.turn_id, endpoint=EMITTED)
        meter = Meter(accounting, caller, usage.modality, usage.model, stream=False)
        meter.reservation = accounting.ledger.reserve(project, 0)
        cost = self._cost(usage, meter.day)
        meter.finish(usage=usage.units, measured=None, cost=cost, error=None, cancelled=False)

    def _cost(self, usage: UsageCollected, day: int) -> Cost:
        """Return the cost that the event states, else by the price of the configuration or the table, else unknown."""
        if usage.cost_usd is not None:
            return Cost(nusd=round(usage.cost_usd * NANO), source="vendor")
        book, catalog = self._gateway.relay.accounting.book, self._gateway.current.catalog
        model = catalog.by_modality[usage.modality].get(usage.model)
        if model is not None:
            return cost_of(book, usage.units, model, catalog.provider(model.provider), day)
        provider, name = split_model_id(usage.model)
        return book.cost(usage.units, book.price(provider, name, at_day=day), local=False)

    def _arguments(
        self, model: str, session_id: str | None, turn_id: str | None, fallback: bool, traceparent: str | None
    ) -> tuple[gateways.Gateway, str, Caller]:
        trace = None
        if traceparent is not None and (trace := trace_context(traceparent.encode())) is None:
            raise RequestError(what="traceparent must be 00-<32 hex digits>-<16 hex digits>-<2 hex digits>", param="traceparent")
        caller = Caller(
            project=self._project, session_id=session_id, turn_id=turn_id or (None if trace is None else trace.trace_id),
            trace=trace, endpoint=ENDPOINT, fallback=fallback,
        )  # fmt: skip
        return self._gateway, model, caller


@asynccontextmanager
async def opened(
    settings: Settings, project: str, listeners: list[Listener], *, call: CallListener = call_here
) -> AsyncIterator[AsyncGateway]:
    """Open the gateway and its usage feed. Raises UnknownProjectError and as `gw.gateway.open_gateway` does."""
    redactor = log_to_program()
    keys: Iterable[Any] = (p.api_key for p in settings.providers.values())
    redactor.learn([*keys, settings.auth.admin_token, *(key.key for key in settings.auth.keys)])
    async with gateways.open_gateway(settings, learn=redactor.learn) as gateway:
        gateway.current.catalog.project(project)
        feed = UsageFeed(listeners, call)
        gateway.store.watcher = feed
        with one_error():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed.run)
                yield AsyncGateway(gateway, project, listeners)
                feed.close()
                nursery.cancel_scope.deadline = trio.current_time() + LAST_EVENTS_S


def open_gateway(
    config: str | Path | Settings | None = None, *, project: str = "default"
) -> AbstractAsyncContextManager[AsyncGateway]:
    """Return a gateway inside a trio program, for the block of an `async with`. One database has one writer.

    `config`: the path of a gw.yaml, or settings; None means the file that `gw serve` would take. `project` owns the
    requests. Raises RuntimeError outside trio; when entered ConfigError, DatabaseLocked, StoreUnavailable,
    UnknownProjectError.
    """
    if not trio.lowlevel.in_trio_run():
        elsewhere = "in asyncio use gw.asyncio.open_gateway(), elsewhere gw.Gateway in a plain thread"
        raise RuntimeError(f"gw.open_gateway() is for a running trio program; {elsewhere}")
    return _open(config, project)


@asynccontextmanager
async def _open(config: str | Path | Settings | None, project: str) -> AsyncIterator[AsyncGateway]:
    settings = await trio.to_thread.run_sync(settings_of, config)
    async with opened(settings, project, []) as gateway:
        yield gateway


_PIECE_BYTES = 64 * 1024


class Recording:
    """An `AudioSource` in memory or on disk, read once to measure it, and once for every provider it is sent to.

    `format` and `seconds` are measured here; None and 0.0 where they are unknown.
    """

    content_type = "application/octet-stream"

    def __init__(self, content: bytes | Path, filename: str) -> None:
        """Block for the measuring. Raises OSError."""
        self.filename = filename
        self.size = 0
        self._content = content
        meter = LengthMeter(self.content_type, filename)
        while piece := self._piece(self.size):
            meter.feed(piece)
            self.size += len(piece)
        self.format, self.seconds = meter.format, meter.seconds

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raise RequestError for a fault of this disk, which must not look like one of the provider's connection."""
        at = 0
        while at < self.size:
            try:
                on_disk = isinstance(self._content, Path)
                piece = await trio.to_thread.run_sync(self._piece, at) if on_disk else self._piece(at)
            except OSError as error:
                what = f"{self.filename} can no longer be read: {error.strerror}"
                raise RequestError(what=what, param="audio") from error
            if not piece:
                raise RequestError(what=f"{self.filename} has become shorter", param="audio")
            piece = piece[: self.size - at]
            at += len(piece)
            yield piece

    def _piece(self, at: int) -> bytes:
        if isinstance(self._content, bytes):
            return self._content[at : at + _PIECE_BYTES]
        with self._content.open("rb") as file:
            file.seek(at)
            return file.read(_PIECE_BYTES)


def recording(audio: bytes | str | Path, sample_rate_hz: int) -> Recording:
    """Return the recording. Blocks on the disk. With a rate, the content is bare signed 16-bit mono samples.

    Raises RequestError for an empty recording or an unknown format; OSError for a file.
    """
    path, data = (Path(audio), b"") if isinstance(audio, (str, Path)) else (None, bytes(audio))
    if sample_rate_hz:
        return _samples(path.read_bytes() if path else data, sample_rate_hz)
    source = Recording(path, path.name) if path else Recording(data, "audio")
    if not source.size:
        raise RequestError(what="the recording is empty", param="audio")
    if not path and source.format is None:
        message = "these bytes are not a known audio format; for bare 16-bit mono samples give sample_rate_hz"
        raise RequestError(what=message, param="audio")
    return source


def _samples(data: bytes, sample_rate_hz: int) -> Recording:
    if sample_rate_hz not in wav.RATES_HZ:
        message = f"sample_rate_hz must be from {wav.RATES_HZ.start} to {wav.RATES_HZ.stop - 1}"
        raise RequestError(what=message, param="sample_rate_hz")
    if not data:
        raise RequestError(what="the recording is empty", param="audio")
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=sample_rate_hz)
    return Recording(wav.header(fmt, len(data)) + data, "audio.wav")
