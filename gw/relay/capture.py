"""Collects the words and the sound of a request whose project has `capture`, and hands them over when the request is over.

All dialects and providers meet in the relay, so this is the only place that sees both sides of every request. Collecting
appends references to a list; what takes time (joining, replacing personal data, encoding) is done by `Piece.make` in the
thread of the sink's writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from gw.errors import GwError
from gw.policy.personal_data import redacted
from gw.policy.shares import share_of
from gw.relay.accounting import CaptureSink
from gw.relay.capture_sound import CopiedAudio, SoundCollector
from gw.relay.meter import Meter
from gw.relay.request_spec import RequestSpec
from gw.telemetry.clock import DAY_S
from gw.types.audio import AudioFormat
from gw.types.captured import CapturedText, CaptureState, Piece, PieceKind, Said
from gw.types.entities import Capture
from gw.types.llm import ChatRequest, Completion, Delta
from gw.types.stt import AudioSource, Final, ListenRequest, TextDelta, Transcript
from gw.types.tts import AudioChunk, SpeakLiveRequest, SpeakRequest
from gw.wire import chat_messages

MAX_CHARACTERS = 400_000  # of one request; the rest is cut off
MAX_EVENTS = 20_000  # of one answer
EVENT_BYTES = 600  # what an event takes in memory, about: the text and the vendor's bytes of a word or two
MEASURED = 50  # events; an answer in a few large pieces has no more
_FINEST = 2**32


def begin_capture(settings: Capture, meter: Meter, spec: RequestSpec) -> RequestCapture | None:
    """Return what collects the words of a request, if it belongs to the share that is kept.

    Requests with the same session id, else the same turn id, are kept together or not at all.
    """
    sink, caller = meter.accounting.captures, meter.caller
    if sink is None or not settings.on:
        return None
    whole = caller.session_id or caller.turn_id or meter.id
    if not is_in_share(settings.share, whole):
        return None
    return RequestCapture(sink, settings, caller.project, meter.id, meter.timestamp, spec.chat or spec.settings)


def is_in_share(share: float, session: str) -> bool:
    """Return whether a session belongs to the share that is kept; the same on every gateway, and also with any larger share."""
    kept = round(share * _FINEST)
    return share_of((kept, _FINEST - kept), "capture", session) == 0


class RequestCapture:
    """The words and the sound of one request until they are handed over."""

    __slots__ = ("_at", "_cut", "_dropped", "_events", "_is_live", "_project", "_put", "_request", "_request_id", "_settings",
                 "_sink", "_sound", "_speech_format", "_state", "_text_size", "given")  # fmt: skip

    def __init__(self, sink: CaptureSink, settings: Capture, project: str, request_id: str, at: float, request: object) -> None:
        self._sink = sink
        self._settings = settings
        self._project = project
        self._request_id = request_id
        self._at = at
        self._request = request if isinstance(request, (ChatRequest, SpeakRequest)) else None  # a recording is not held
        self.given: list[Sequence[Any]] = []
        """Lists of events of the answer."""
        self._events = self._text_size = 0
        self._is_live = isinstance(request, (ListenRequest, SpeakLiveRequest))
        self._speech_format = request.format if isinstance(request, SpeakLiveRequest) else None
        self._cut = False
        self._put = self._dropped = 0
        self._state: CaptureState | None = None
        self._sound = SoundCollector(partial(self._hand_over, "audio")) if settings.audio else None

    def sound(self, data: bytes, fmt: AudioFormat) -> None:
        """Note a piece of the sound of the request or of its answer."""
        if self._sound is not None:
            self._sound.add(data, fmt)

    def recording(self, source: AudioSource, fmt: AudioFormat | None) -> AudioSource:
        """Return an uploaded recording in a form whose bytes are noted as they are read, each once."""
        if self._sound is None:
            return source
        return CopiedAudio(source, fmt or AudioFormat(encoding="unknown"), self._sound)

    def text(self, text: str) -> None:
        """Note text to speak."""
        if text and self._settings.text:
            self.given.append([text])
            self._text_size += len(text)

    def give(self, events: Sequence[Any]) -> None:
        """Note events of the answer. Of a chat or a transcript nothing is looked at here; a live session may last for hours."""
        if self._is_live:
            self._give_live(events)
        elif self._settings.text:
            self._keep(events)

    def _give_live(self, events: Sequence[Any]) -> None:
        """Keep final transcripts and pass sound on, so that no frame is held until the end."""
        for event in events:
            if isinstance(event, AudioChunk):
                if self._sound is not None and self._speech_format is not None:
                    self._sound.add(event.data, self._speech_format)
            elif isinstance(event, Final) and self._settings.text:
                self._keep([msgspec.structs.replace(event, raw=None, words=())])

    def _keep(self, events: Sequence[Any]) -> None:
        if self._events < MAX_EVENTS:
            self.given.append(events)
            self._events += len(events)
        else:
            self._cut = True

    def finish(self) -> CaptureState:
        """Hand over what was collected, once, and say what became of it."""
        if self._state is None:
            if (sound := self._sound) is not None:
                sound.end()
                self._sound, self._cut = None, self._cut or sound.cut
            if self._settings.text:
                make = partial(_text, self._request, self.given, self._settings.names, cut=self._cut)
                self._hand_over("text", 0, self._size(), make)
            self._request, self.given = None, []
            self._state = "stored" if not self._dropped else "incomplete" if self._put else "dropped"
        return self._state

    def _size(self) -> int:
        """Return what the words take in memory, about."""
        size = 1_000 + EVENT_BYTES * self._events + self._text_size + _size_of(self._request)
        if self._events <= MEASURED:
            size += sum(_size_of(event) for events in self.given for event in events)
        return size

    def _hand_over(self, kind: PieceKind, part: int, size: int, make: Callable[[], bytes]) -> None:
        expires_at = self._at + self._settings.keep_days * DAY_S
        presidio = self._settings.presidio if kind == "text" else ""
        piece = Piece(self._request_id, self._project, self._at, expires_at, kind, part, size, make, presidio)
        if self._sink.put(piece):
            self._put += 1
        else:
            self._dropped += 1


def _size_of(request: object) -> int:
    """Return the size of the words of a request or of an event."""
    match request:
        case ChatRequest():
            return len(request.native) + sum(memoryview(value).nbytes for value in request.fields.values())  # with images
        case SpeakRequest():
            return len(request.text)
        case Completion() | Delta() | Transcript():
            return len(request.text) + len(request.raw or b"")
        case _:
            return 0


# ---------------------------------------------------------------------- in the writer's thread


def _text(request: object, given: Iterable[Sequence[Any]], names: tuple[str, ...], *, cut: bool) -> bytes:
    """Return the words of a request as JSON, personal data replaced."""
    kept: list[Said] = []
    room = MAX_CHARACTERS
    for one in (*_asked(request), *_answered(chain.from_iterable(given))):
        text = redacted(one.text[: 2 * room], names)
        cut = cut or len(text) > room or len(one.text) > 2 * room
        if room:
            kept.append(msgspec.structs.replace(one, text=text[:room]))
        room = max(0, room - len(text))
    return msgspec.json.encode(CapturedText(said=tuple(kept), cut=cut))


def _asked(request: object) -> list[Said]:
    match request:
        case ChatRequest():
            try:
                messages = chat_messages.messages(request)
            except GwError:
                return [Said("user", "[a conversation in a form that is not kept]")]
            return [Said(message.role, _message_text(message)) for message in messages]
        case SpeakRequest():
            return [Said("speech", request.text)]
        case _:
            return []


def _message_text(message: chat_messages.ChatMessage) -> str:
    parts = [message.text] if message.text else []
    parts += ["[image]"] * len(message.images) + ["[audio]"] * len(message.audio)
    parts += [f"[call {call.name}({call.arguments})]" for call in message.tool_calls]
    return "\n".join(parts)


def _answered(given: Iterable[Any]) -> list[Said]:
    """Join pieces of an answer; transcripts stay apart, each with its time."""
    said: list[Said] = []
    answer: dict[int, list[str]] = {}
    texts: list[str] = []
    for event in given:
        match event:
            case Delta() | Completion():
                pieces = answer.setdefault(event.choice if isinstance(event, Delta) else 0, [])
                pieces.append(event.text + event.refusal)
                pieces += [f"{f'[call {call.name}] ' if call.name else ''}{call.arguments}" for call in event.tool_calls]
            case str():
                texts.append(event)
            case Final():
                said.append(Said("transcript", event.text, event.start_s))
            case Transcript():
                said = [Said("transcript", event.text)]  # complete, also where pieces of it came before
            case TextDelta():
                said.append(Said("transcript", event.text))
    if texts:
        said.append(Said("speech", "".join(texts)))
    return [*said, *(Said("answer", "".join(pieces)) for pieces in answer.values())]
