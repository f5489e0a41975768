"""The base of fake vendors with sockets: handshake, faults counted in frames, a listener and a voice for the tone voice."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import attrs
import trio
from msgspec.structs import replace

from gw.codecs import compressed
from gw.errors import RequestError
from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEvent, SpeechStarted, UtteranceEnd
from gw.types.tts import WordTiming
from gw.wire import multipart
from gw.wire.convert import converter
from tests.fakes.vendors.heard import heard, tone_text
from tests.fakes.vendors.scripted import Answer, Entry, Receive, ScriptedVendor, Send, over
from tests.fakes.word_voice import WordVoice

HEARD_HZ = 8_000


class Closed(Exception):
    """The script has closed the socket."""


LATE_S = 0.01
"""A wait that ends so much later than it should shows that this process stood still."""
STOOD_STILL_S = 0.5
"""Then, time for a frame that has come while this process stood still: it waits in the socket when the clock says that none came."""


@attrs.define
class Peer:
    """The client of a socket. `frames` counts what it sent."""

    fake: LiveVendor
    entry: Entry
    query: bytes
    _receive: Receive
    _send: Send
    faulty: bool = True
    frames: int = 0
    mute: bool = False
    finals: int = 0
    _later: trio.MemorySendChannel[tuple[float, dict[str, Any]]] | None = None
    _due: float = 0.0
    _random: random.Random = attrs.field(factory=lambda: random.Random(1))

    async def receive(self) -> str | bytes | None:
        """None when it has left. Raises Closed where the script says so, TooSlowError after `audio_within_s` without a frame."""
        message: dict[str, Any] | None = None
        with trio.move_on_after(self.fake.audio_within_s) as waiting:
            message = await self._receive()
        if message is None:
            with trio.fail_after(STOOD_STILL_S if trio.current_time() - waiting.deadline > LATE_S else 0):
                message = await self._receive()
        if message["type"] != "websocket.receive":
            self.entry.outcome = "ended"
            return None
        self.frames += 1
        self.entry.frames.append(message.get("bytes") or message.get("text") or "")
        if self.faulty and self.fake.blocks_after == self.frames:
            await trio.sleep_forever()
        self.mute = self.mute or (self.faulty and self.fake.stalls_after == self.frames)
        fault = self.fake.close_after if self.faulty else None
        if fault is not None and fault[0] == self.frames:
            self.entry.outcome = "cut"
            await self.close(fault[1])
            raise Closed
        if self.fake.session_error_after == self.frames:
            await self.send(self.fake.socket_error_frame())
        data = message.get("bytes")
        return data if data is not None else message.get("text") or ""

    async def send(self, *frames: str | bytes) -> None:
        for frame in frames if not self.mute else ():
            kind = "bytes" if isinstance(frame, bytes) else "text"
            await self._deliver({"type": "websocket.send", kind: frame})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if not self.mute:
            await self._deliver({"type": "websocket.close", "code": code, "reason": reason})

    def heard(self, events: list[ListenEvent]) -> list[ListenEvent]:
        """Return what it says of what it has heard."""
        for n, event in enumerate(events):
            self.finals += isinstance(event, Final)
            if self.faulty and isinstance(event, Final) and self.fake.mute_from_final == self.finals:
                self.mute = True
                return events[:n]
        return events

    async def _deliver(self, message: dict[str, Any]) -> None:
        if self._later is None:
            await self._send(message)
            return
        self._due = max(self._due, trio.current_time() + self._random.uniform(*self.fake.latency_s))
        await self._later.send((self._due, message))

    @contextlib.asynccontextmanager
    async def delayed(self) -> AsyncIterator[None]:
        """Deliver late what is sent within, in order."""
        if self.fake.latency_s == (0.0, 0.0):
            yield
            return
        self._later, waiting = trio.open_memory_channel[tuple[float, dict[str, Any]]](1_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._deliver_all, waiting)
            with self._later:
                yield

    async def _deliver_all(self, waiting: trio.MemoryReceiveChannel[tuple[float, dict[str, Any]]]) -> None:
        async for due, message in waiting:
            await trio.sleep_until(due)
            await self._send(message)


Session = Callable[[Peer], Awaitable[None]]
P = TypeVar("P")
SpeechFault = Literal["", "no audio", "stalls", "ends early"]
"""Faults of speech without an error, as users report them: text reported as spoken without any audio (gojargo/jargo#55), silence
in the middle of a sentence (google-gemini/cookbook#1255), and an end before the text's (bolna-ai/bolna#746: 122 of 308
characters; pipecat-ai/pipecat#3538). Of Cartesia: a part of the chunks and never the one that is `done` (livekit/agents-js#681).
Of Deepgram: the audio ends after some of the text, by socket and over HTTP, and is reported as complete
(deepgram/deepgram-js-sdk#482)."""


@attrs.define(kw_only=True)
class LiveVendor(ScriptedVendor):
    transcript: str = "Hello there."
    """Of every recording; empty = what the tone voice says in it, which live sessions hear always."""
    private: str = ""
    """A part of what is said that the vendor removes where it was asked to redact."""
    speech_gap_s: float = 0.0
    speech_gap: Callable[[], float] | None = None
    """Returns the next pause between two pieces of live speech, in place of `speech_gap_s`."""
    speech_pcm: bytes | None = None
    """Over HTTP, in place of what the tone voice makes of the text."""
    piece_s: float = 0.1
    word_voice: WordVoice | None = None
    """In place of the tone voice."""
    speech_fault: SpeechFault = ""
    speech_share: float = 0.0
    """Share of an utterance's audio that is sent before the fault."""
    make_listener: Callable[..., FakeListener] = attrs.field(factory=lambda: FakeListener)
    """The listener of a live session."""
    _opened: int = attrs.field(init=False, default=0)
    close_after: tuple[int, int] | None = None
    """After so many frames of the client the socket is closed with this code."""
    session_error_after: int | None = None

    # A recogniser that falls silent while its socket stays open and answers pings:
    # https://github.com/pipecat-ai/pipecat/issues/5735 (Flux stops sending events), pipecat-ai/pipecat#455 and
    # gojargo/jargo#73 (Deepgram); an interim transcript whose final never comes: livekit/agents#931.
    stalls_after: int | None = None
    """After so many frames of the client it says nothing more, and takes audio as before."""
    blocks_after: int | None = None
    """After so many frames it reads no more either."""
    mute_from_final: int | None = None
    """It says nothing any more from its so-manieth final transcript on, which is the end of that utterance."""
    faulty_sockets: int = 1_000_000
    """How many sockets, the first ones, have the scripted faults."""
    audio_within_s: float = math.inf
    """It ends a session that gets no frame for so long."""
    latency_s: tuple[float, float] = (0.0, 0.0)
    """Every frame comes later by a time between these."""

    def sockets(self) -> Mapping[str, Session]:
        """Path below the prefix → session."""
        raise AssertionError

    def check_handshake(self, path: str, query: bytes) -> None:
        """Raise RequestError for settings that the vendor refuses."""

    def counts_socket(self, entry: Entry) -> bool:
        """Return whether an open socket of this path takes a slot."""
        return True

    def socket_key(self, headers: dict[str, str], query: bytes) -> str:
        return self.key_in(headers)

    def socket_error_frame(self) -> str | bytes:
        raise AssertionError

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await super().__call__(scope, receive, send)
            return
        entry = self._seen(scope)
        try:
            await self._socket(entry, scope, receive, send)
        finally:
            over(entry)

    async def _socket(self, entry: Entry, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        query: bytes = scope.get("query_string", b"")
        entry.fields["query"] = query.decode()
        run = self.sockets().get(entry.path.removeprefix(self.prefix))
        status = self.status if isinstance(self.status, int) else self.status.pop(0) if self.status else 200
        if self.api_key and self.socket_key(entry.headers, query) != self.api_key:
            status = 401
        elif run is None:
            status = 404
        try:
            self.check_handshake(entry.path.removeprefix(self.prefix), query)
        except RequestError:
            status = 400
        await receive()  # websocket.connect
        await trio.sleep(self.answer_after_s)
        full = status == 200 and self.counts_socket(entry) and self.refuses(entry)
        if status != 200 or run is None or full:
            body = self.error_body or self.error_response(status, self.error_code, "scripted failure")
            if full:
                status, body = 429, self.error_response(429, self.full_code, self.full_message())
            head = [(b"content-type", b"application/json"), *((k.encode(), v.encode()) for k, v in self.headers)]
            await send({"type": "websocket.http.response.start", "status": status, "headers": head})
            await send({"type": "websocket.http.response.body", "body": body})
            return
        await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
        peer = Peer(self, entry, query, receive, send, faulty=self._opened < self.faulty_sockets)
        self._opened += 1
        async with peer.delayed():
            with contextlib.suppress(Closed):
                await run(peer)
                while peer.mute and await peer.receive() is not None:
                    pass

    def words_of(self, recording: bytes | bytearray) -> str:
        return self.transcript or tone_text(bytes(recording))

    def recorded(self, text: str, fmt: AudioFormat) -> Iterator[bytes]:
        """Return the complete audio of `voice`."""
        return self._cut(self.speech_pcm, fmt) if self.speech_pcm is not None else self.voice(text, fmt)

    def voice(self, text: str, fmt: AudioFormat) -> Iterator[bytes]:
        """Speech in pieces of `piece_s`."""
        rate = fmt.sample_rate_hz or 24_000
        if self.word_voice is not None and fmt.encoding == "mp3":
            frames, each = self.word_voice.mp3(text, fmt), max(1, int(self.piece_s / 0.026))
            return (b"".join(frames[at : at + each]) for at in range(0, len(frames), each))
        if self.word_voice is not None:
            return self._cut(self.word_voice.pcm(text, rate), fmt)
        spoken_hz = rate if rate in fsk.SAMPLE_RATES_HZ else 24_000
        return self._cut(b"".join(fsk.encode(text, spoken_hz)), fmt, spoken_hz)

    def timed_voice(self, text: str, fmt: AudioFormat) -> list[tuple[bytes, list[WordTiming]]]:
        """Return the pieces of `voice`, each with the words that begin in it."""
        pieces = list(self.voice(text, fmt))
        spans = self.word_voice.spans(text) if self.word_voice is not None else fsk.word_spans(text)
        timed: list[tuple[bytes, list[WordTiming]]] = [(piece, []) for piece in pieces]
        for word, start_s, end_s in spans:
            at = min(len(timed) - 1, int(start_s / self.piece_s))
            timed[at][1].append(WordTiming(word=word, start_s=start_s, end_s=end_s))
        return timed

    async def answer_speech(self, answer: Answer, pieces: Iterable[bytes], encode: Callable[[Any], bytes] = bytes) -> None:
        """Send the body of an answer at the vendor's pace, as far as the fault allows."""
        all_pieces = list(pieces)
        count = round(len(all_pieces) * self.speech_share) if self.speech_fault else len(all_pieces)
        if self.speech_fault == "stalls":
            await answer.flush()
        await answer.paced(all_pieces[: 0 if self.speech_fault == "no audio" else count], self.speech_gap_s, encode)
        if self.speech_fault == "stalls":
            await trio.sleep_forever()

    async def utter(self, peer: Peer, pieces: Iterable[P], send: Callable[[P], Awaitable[None]]) -> None:
        """Send an utterance at the vendor's pace, as far as the fault allows. Raises Closed when it stalls and the client leaves."""
        await trio.sleep(self.first_token_after_s)
        all_pieces = list(pieces)
        count = round(len(all_pieces) * self.speech_share) if self.speech_fault else len(all_pieces)
        for piece in all_pieces[: 0 if self.speech_fault == "no audio" else count]:
            await trio.sleep(self.speech_gap_s if self.speech_gap is None else self.speech_gap())
            await send(piece)
        if self.speech_fault == "stalls":
            while await peer.receive() is not None:
                pass
            raise Closed

    def _cut(self, pcm: bytes, fmt: AudioFormat, pcm_hz: int = 0) -> Iterator[bytes]:
        """Return `pcm` in pieces, in that format. Without `pcm_hz` it has the format's sample rate."""
        rate = pcm_hz or fmt.sample_rate_hz or 24_000
        step = int(rate * self.piece_s) * 2
        raw = AudioFormat(encoding="pcm_s16le", sample_rate_hz=rate)
        result = compressed.converter(raw, fmt)
        for at in range(0, len(pcm), step):
            piece = pcm[at : at + step]
            yield piece if result is None else result.feed(piece)
        if result is not None and (rest := result.end()):
            yield rest


class FakeListener:
    """Hears tone in raw audio of any form. `speakers` and redaction are those of `heard`, in finals."""

    def __init__(
        self, fmt: AudioFormat, *, speakers: tuple[str, ...] = (), private: str = "", redact: bool = False
    ) -> None:
        self._speakers = speakers
        self._private = private if redact else ""
        self._converter = converter(fmt, AudioFormat(encoding="pcm_s16le", sample_rate_hz=HEARD_HZ))
        self._decoder = fsk.ToneDecoder(HEARD_HZ)
        self.seconds = 0.0
        self._format = fmt

    def feed(self, data: bytes) -> list[ListenEvent]:
        self.seconds += self._format.seconds(len(data))
        events: list[ListenEvent] = []
        for decoded in self._decoder.feed(self._converter.feed(data) if self._converter is not None else data):
            events += map(self._as_asked, _events(decoded))
        return events

    def _as_asked(self, event: ListenEvent) -> ListenEvent:
        if not isinstance(event, Final | Interim) or not (self._speakers or self._private):
            return event
        result = heard(event.text, event.end_s, speakers=self._speakers, private=self._private, redact=True)
        shifted = (replace(w, start_s=w.start_s + event.start_s, end_s=w.end_s + event.start_s) for w in result.words)
        return replace(event, text=result.text, words=tuple(shifted) if self._speakers else ())


class TurnListener:
    """Ends a turn after a silence, and goes on with it for one who speaks again before; the whole text comes before, too."""

    def __init__(self, listener: FakeListener, endpoint_s: float) -> None:
        self._listener = listener
        self.endpoint_s = endpoint_s
        self._text = ""
        self._speaking = False
        self._said_from_s = self._said_until_s = 0.0

    def feed(self, data: bytes) -> list[ListenEvent]:
        events: list[ListenEvent] = []
        for event in self._listener.feed(data):
            if isinstance(event, SpeechStarted):
                events += self._ended_until(event.at_s)
            events += self._in_turn(event)
        return events + self._ended_until(self._listener.seconds)

    def _ended_until(self, at_s: float) -> list[ListenEvent]:
        over = at_s - self._said_until_s >= self.endpoint_s
        return self.end() if over and not self._speaking else []

    def end(self) -> list[ListenEvent]:
        text, self._text = self._text, ""
        if not text:
            return []
        final = Final(text=text, start_s=self._said_from_s, end_s=self._said_until_s)
        return [final, UtteranceEnd(at_s=self._said_until_s)]

    def _in_turn(self, event: ListenEvent) -> list[ListenEvent]:
        match event:
            case SpeechStarted():
                self._speaking = True
                if self._text:
                    return []
                self._said_from_s = event.at_s
                return [event]
            case Interim() | Final():
                text = f"{self._text} {event.text}".lstrip()
                if isinstance(event, Final):
                    self._text, self._said_until_s, self._speaking = text, event.end_s, False
                return [Interim(text=text, start_s=event.start_s, end_s=event.end_s)]
        return []


class OpenTurn:
    """What a listener hears, where a flush leaves the remainder of the sentence to the next turn."""

    def __init__(self, listener: FakeListener) -> None:
        self._listener = listener
        self._latest: Interim | None = None
        self._before = ""
        """Text of the sentence in earlier turns."""

    def feed(self, data: bytes) -> list[ListenEvent]:
        return [self._remainder(event) if isinstance(event, Interim | Final) else event for event in self._listener.feed(data)]

    def _remainder(self, event: Interim | Final) -> Interim | Final:
        event = replace(event, text=event.text.removeprefix(self._before).strip())
        if isinstance(event, Interim):
            self._latest = event
        else:
            self._latest, self._before = None, ""
        return event

    def end(self) -> list[ListenEvent]:
        latest, self._latest = self._latest, None
        if latest is None or not latest.text:
            return []
        self._before = f"{self._before} {latest.text}".strip()
        final = Final(text=latest.text, start_s=latest.start_s, end_s=latest.end_s)
        return [final, UtteranceEnd(at_s=latest.end_s)]


def _events(decoded: fsk.ToneEvent) -> list[ListenEvent]:
    match decoded:
        case fsk.Started(at_s=at_s):
            return [SpeechStarted(at_s=at_s)]
        case fsk.Partial(text=text, start_s=start_s, end_s=end_s):
            return [Interim(text=text, start_s=start_s, end_s=end_s)]
        case fsk.Done(text=text, start_s=start_s, end_s=end_s):
            return [Final(text=text, start_s=start_s, end_s=end_s), UtteranceEnd(at_s=end_s)]
    return []


def form_of(entry: Entry, body: bytes) -> tuple[dict[str, Any], bytes]:
    """Fields of a multipart form, and its file."""
    decoder = multipart.MultipartDecoder(multipart.boundary_of(entry.headers.get("content-type", "").encode()))
    fields: dict[str, Any] = {}
    file = bytearray()
    for part in decoder.feed(body):
        if isinstance(part, multipart.Field):
            fields[part.name] = part.value
        elif isinstance(part, multipart.FileData):
            file += part.data
    decoder.end()
    return fields, bytes(file)
