"""ElevenLabs: speech whole and live, transcription of recordings and live."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

from gw.errors import ProviderError
from gw.net.http1 import HttpResponse
from gw.net.ws import WebSocket, WsClosed
from gw.policy.respelling import Phonemes
from gw.providers.background import background
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.recording_call import WholeTranscript, form
from gw.providers.spec import (
    Account,
    Honours,
    ListenSession,
    ProviderSpec,
    SpeakSession,
    SpeakStream,
    rejected,
    require_path_segment,
    require_voice,
)
from gw.providers.speech_call import SpeechAudio, SpeechEvents, said_of
from gw.providers.ws_session import ListenSocket, open_socket, why_closed
from gw.providers.ws_speech import FrameQueueSocket
from gw.types.pending import Pending
from gw.types.secret import Secret
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    NO_STORE,
    REDACT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    SPEED,
    TEMPERATURE,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenEvent, ListenPace, ListenRequest, TranscribeRequest
from gw.types.tts import SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.wire import billing, elevenlabs_listen, elevenlabs_settings, elevenlabs_speak, elevenlabs_speak_live, redaction
from gw.wire.elevenlabs_errors import close_error
from gw.wire.elevenlabs_listen import ElevenListenClient
from gw.wire.elevenlabs_speak_live import ElevenSpeakClient
from gw.wire.vendor_errors import classify_elevenlabs

_RAW = frozenset({"pcm_s16le", "mulaw", "alaw"})
_MOST_CHANNELS = 5
_MANY_KEYTERMS = 100
"""With more of them at least 20 s are billed (elevenlabs 2.78.0, `speech_to_text/client.py`)."""
_KEEP_ALIVE_S = 10.0
"""The vendor closes a speech context after 20 s without a message unless configured otherwise; a transcription too."""
_COUNT = re.compile(rb"[0-9]{1,6}")
_FLUSHED_S = 1.0
"""A flush is answered after so long a silence, where the alignments do not tell."""
_QUIET_S = 1.0
"""After the answer to the last commit: the vendor announces no end, and answers to its own commits may still come."""


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"xi-api-key", key.reveal().encode())] if key else []


def _learn_slots(response: HttpResponse, account: Account) -> None:
    """Note how many calls at once the plan has, and how many run now.

    Source: the vendor's page "Models", on concurrency: every answer has these headers.
    """
    most, used = (response.header(name) or b"" for name in (b"maximum-concurrent-requests", b"current-concurrent-requests"))
    if _COUNT.fullmatch(most) and int(most):
        account.slots.named(int(most), int(used) if _COUNT.fullmatch(used) else None, trio.current_time())


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/text-to-speech/{voice}/stream`, with timestamps if the client wants them (lines of JSON with audio)."""
    require_voice(request.voice, account)
    require_path_segment(request.voice, account)
    provider, fmt = account.provider_id, elevenlabs_speak.sent_for(request.format)

    def read(response: HttpResponse) -> SpeakStream:
        _learn_slots(response, account)
        said = said_of(response, b"character-cost", "credits", b"request-id")
        if request.want_timings:
            return SpeechEvents(response, provider, elevenlabs_speak.TimedDecoder(provider), fmt, said)
        return SpeechAudio(response, provider, fmt, said)

    path = elevenlabs_speak.http_path(request).encode()
    headers = json_lines(key_headers, account)
    body = elevenlabs_speak.body(request, account.model)
    return HttpCall(account, path, headers, body, classify_elevenlabs, read)


def _close_error(provider: str, closed: WsClosed) -> ProviderError:
    return close_error(provider, closed.reason) or why_closed(provider, closed)


class _SpeakSocket(FrameQueueSocket):
    """Answers a flush after a silence, where the alignments do not."""

    _wire: ElevenSpeakClient

    def __init__(self, ws: WebSocket, wire: ElevenSpeakClient, provider: str) -> None:
        super().__init__(ws, wire, provider, wire.format, close_error=_close_error)

    async def receive(self) -> list[SpeakEvent]:
        while not self._wire.due:
            self._check_not_ended()
            frame = None
            silence_s = _FLUSHED_S if self._wire.may_be_spoken else math.inf
            with trio.move_on_after(silence_s) as self._receiving:
                try:
                    frame = await self._ws.receive()
                except WsClosed as closed:
                    return self._last_events(closed)
            if frame is None:
                if not self._wire.due and self._receiving.cancelled_caught and self._wire.may_be_spoken:
                    return self._wire.quiet()
            else:
                events = self._wire.receive(frame)
                await self.send_frames()
                if events:
                    return events
        events, self._wire.due = self._wire.due, []
        return events


def _speak_socket(request: SpeakLiveRequest, account: Account) -> tuple[str, list[tuple[bytes, bytes]]]:
    return elevenlabs_speak_live.path_of(request, account.model), key_headers(account.api_key)


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /v1/text-to-speech/{voice}/multi-stream-input`, one context after the other."""
    require_voice(request.voice, account)
    require_path_segment(request.voice, account)
    if not elevenlabs_speak_live.is_offered(account.model):
        raise rejected(account, "this model has no live speech")
    provider = account.provider_id
    async with open_socket(account, *_speak_socket(request, account), prewarmed=True) as ws:
        wire = ElevenSpeakClient(provider, request, (account.api_key.reveal(),))
        session = _SpeakSocket(ws, wire, provider)
        async with background(session.keep_alive, _KEEP_ALIVE_S, wire.keep_alive):
            yield session


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[WholeTranscript]:
    """`POST /v1/speech-to-text` as a multipart form."""
    decode = partial(
        elevenlabs_listen.decode_transcript, provider=account.provider_id, keep_raw=request.dialect == "elevenlabs",
        redacted=bool(request.redact),
    )
    path, fields = elevenlabs_listen.recording_path(request).encode(), elevenlabs_listen.form_fields(request, account.model)
    audio = None if request.url else request.audio  # the form has the address already
    content_type, body = form(fields, audio)

    def read(response: HttpResponse) -> WholeTranscript:
        _learn_slots(response, account)
        return WholeTranscript(response, decode)

    return HttpCall(account, path, [content_type, *key_headers(account.api_key)], body, classify_elevenlabs, read)


class _ListenSocket(ListenSocket):
    """A `ListenSocket` whose session ends when the vendor falls silent."""

    _wire: ElevenListenClient

    def __init__(self, ws: WebSocket, wire: ElevenListenClient, provider: str, pace: ListenPace) -> None:
        super().__init__(
            ws, wire, provider, pace, on_close=self._quiet_if_done, close_error=_close_error,
            idle_s=_KEEP_ALIVE_S, idle_frames=wire.keep_alive,
        )  # fmt: skip

    def _quiet_if_done(self) -> list[ListenEvent]:
        return self._wire.quiet() if self._wire.may_end else []

    async def receive(self) -> list[ListenEvent]:
        self._check_not_ended()
        while not (events := await self._receive_frame()):
            pass
        return events

    async def _receive_frame(self) -> list[ListenEvent]:
        try:
            with trio.move_on_after(_QUIET_S if self._wire.may_end else math.inf) as waiting:
                frame = await self._ws.receive()
        except WsClosed as closed:
            return self._last_events(closed)
        return self._wire.quiet() if waiting.cancelled_caught else self._wire.receive(frame)

    async def for_each_batch(self, handle: Callable[[list[ListenEvent]], Pending]) -> None:
        while not self._wire.ended:
            if (pending := handle(await self._receive_frame())) is not None:
                await pending


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v1/speech-to-text/realtime`, kept alive while nobody speaks."""
    provider = account.provider_id
    wire = ElevenListenClient(provider, request, (account.api_key.reveal(),))
    path = elevenlabs_listen.path_of(request, account.model)
    async with open_socket(account, path, key_headers(account.api_key)) as ws:
        yield _ListenSocket(ws, wire, provider, elevenlabs_listen.pace_of(request))


_TRANSCRIBE: Honours = {
    REDACT: lambda request, account: redaction.to_elevenlabs(request.redact) is not None,
    NO_STORE: True, DIARIZE: True, LANGUAGE: True, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True,
    TEMPERATURE: True, KEYTERMS: lambda request, account: elevenlabs_settings.takes(request.keyterms, live=False),
}  # fmt: skip
_LISTEN: Honours = {
    NO_STORE: True, LANGUAGE: True, KEYTERMS: lambda request, account: elevenlabs_settings.takes(request.keyterms, live=True),
}  # fmt: skip
"""Live, redacted transcripts come beside others that are not (the SDK's `RealtimeAudioOptions`): so redaction is not here."""
_SPEECH: Honours = {
    NO_STORE: True, SPEED: True, WORD_TIMESTAMPS: True,
    LANGUAGE: lambda request, account: elevenlabs_speak.speaks(request.language, account.model),
}  # fmt: skip


_BILLED_ON_TOP = {
    "keyterms": "keyterm", "detect_speaker_roles": "speaker_roles", "entity_detection": "detect_entities",
    "entity_redaction": "redact", "transcript_edit": "transcript_edit",
}  # fmt: skip
"""Source: the surcharges that elevenlabs 2.78.0 (`speech_to_text/client.py`) and the vendor's help pages name."""


def billed_options(request: TranscribeRequest | ListenRequest, model: str) -> tuple[str, ...]:
    if isinstance(request, TranscribeRequest):
        fields = elevenlabs_listen.form_fields(request, model)
        options = billing.billed_options(fields, _BILLED_ON_TOP)
        many = sum(name == "keyterms" for name, _ in fields) > _MANY_KEYTERMS
        return tuple(sorted((*options, "many_keyterms"))) if many else options
    return billing.billed_options(billing.query_of(elevenlabs_listen.path_of(request, model)), _BILLED_ON_TOP)


def billed_channels(request: TranscribeRequest | ListenRequest, model: str) -> int:
    """Return the number of billed channels: with `use_multi_channel` each is billed for the whole duration, else one is.

    Source: elevenlabs 2.78.0, speech_to_text/client.py.
    """
    if not isinstance(request, TranscribeRequest) or request.format is None or request.format.channels == 1:
        return 1
    apart = dict(elevenlabs_listen.form_fields(request, model)).get("use_multi_channel")
    return min(_MOST_CHANNELS, request.format.channels) if str(apart).lower() == "true" else 1


_WITH_PHONEMES = frozenset({"eleven_flash_v2", "eleven_turbo_v2", "eleven_monolingual_v1"})
"""Source: the vendor's help page on phoneme tags with the API, November 2026. A socket parses them with `enable_ssml_parsing` only."""


def _phonemes(request: SpeakRequest | SpeakLiveRequest, account: Account) -> Phonemes | None:
    """Return the tag for one word."""
    if account.model not in _WITH_PHONEMES:
        return None
    if isinstance(request, SpeakLiveRequest) and not (
        request.dialect == "elevenlabs" and dict(request.options).get("enable_ssml_parsing") == "true"
    ):
        return None
    return lambda ipa, word: (
        "" if " " in word or "&" in word else f'<phoneme alphabet="ipa" ph="{ipa.replace(" ", "")}">{word}</phoneme>'
    )


SPEC = ProviderSpec(
    type="elevenlabs", base_url="https://api.elevenlabs.io", dialect="elevenlabs", phonemes=_phonemes,
    default_voice=lambda model: None,
    fetches=frozenset({"elevenlabs"}), transcribe=transcribe, listen=listen, speak=speak, speak_live=speak_live,
    speak_socket=_speak_socket,
    honours={"transcribe": _TRANSCRIBE, "listen": _LISTEN, "speak": _SPEECH, "speak_live": _SPEECH},
    health_path="/v1/user/subscription", key_headers=key_headers,
    speak_formats=_RAW | {"mp3", "opus", "ogg"},
    speak_rates_hz=elevenlabs_speak.RATES_HZ, speak_live_formats=_RAW | {"mp3"}, makes_mp3=elevenlabs_speak.makes_mp3,
    listen_formats=frozenset({"pcm_s16le"}), listen_rates_hz=elevenlabs_listen.RATES_HZ,
    reported=frozenset({"transcribe"}), billed_options=billed_options,
    billed_channels=billed_channels,
)
