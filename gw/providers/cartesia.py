"""Cartesia: speech whole and live, transcription of recordings and live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from gw.errors import UpstreamProtocolError
from gw.net.http1 import HttpResponse
from gw.policy.respelling import Phonemes
from gw.providers.background import background
from gw.providers.http_call import HttpCall, is_type, json_lines
from gw.providers.recording_call import WholeTranscript, form_call
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, SpeakSession, SpeakStream, require_voice
from gw.providers.speech_call import SpeechAudio, SpeechEvents
from gw.providers.ws_session import ListenSocket, open_listen_socket, open_socket
from gw.providers.ws_speech import QueueingSpeakSocket
from gw.types.audio import AudioFormat
from gw.types.secret import Secret
from gw.types.speech_settings import (
    KEYTERMS,
    LANGUAGE,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    SPEED,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import cartesia_listen, cartesia_speak, vendor_errors
from gw.wire.cartesia_listen import CartesiaListenClient, CartesiaTurnsClient
from gw.wire.cartesia_speak import CartesiaSpeakClient
from gw.wire.convert import silence

_VERSION = b"2026-03-01"
_RAW = frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw"})
_SSE = b"text/event-stream"
_WATCH_S = 0.5
_UNFINISHED_TURN_S = 0.5  # a turn that gets no audio for this long is sent silence, or it would never end
_IDLE_S = 60.0  # the vendor closes a transcription after three minutes without audio
_SILENCE_S = 0.02


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    """Return the key, and the version of the API that our codec speaks."""
    version = (b"cartesia-version", _VERSION)
    return [version, (b"x-api-key", key.reveal().encode())] if key else [version]


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /tts/bytes`, streamed while it is made; `POST /tts/sse` where the client wants the times of words."""
    require_voice(request.voice, account)
    as_events = cartesia_speak.wants_events(request)
    provider = account.provider_id

    def read(response: HttpResponse) -> SpeakStream:
        if as_events != is_type(response, _SSE):
            raise UpstreamProtocolError(provider=provider, detail="the answer has another content type than requested")
        if as_events:
            own = request.dialect == "cartesia"
            decoder = cartesia_speak.CartesiaSpeechDecoder(provider, keep_raw=own, secrets=(account.api_key.reveal(),))
            return SpeechEvents(response, provider, decoder, request.format)
        return SpeechAudio(response, provider, request.format)

    headers = json_lines(key_headers, account)
    body = cartesia_speak.body(request, account.model)
    path = b"/tts/sse" if as_events else b"/tts/bytes"
    return HttpCall(account, path, headers, body, vendor_errors.classify_cartesia, read)


def _speak_socket(request: SpeakLiveRequest, account: Account) -> tuple[str, list[tuple[bytes, bytes]]]:
    return "/tts/websocket", key_headers(account.api_key)


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /tts/websocket`, one context after the other."""
    require_voice(request.voice, account)
    provider = account.provider_id
    wire = CartesiaSpeakClient(provider, request, account.model, (account.api_key.reveal(),))
    async with open_socket(account, *_speak_socket(request, account), prewarmed=True) as ws:
        yield QueueingSpeakSocket(ws, wire, provider, request.format)


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[WholeTranscript]:
    """`POST /stt` as a multipart form."""
    decode = partial(cartesia_listen.decode_transcript, provider=account.provider_id, keep_raw=request.dialect == "cartesia")
    path, fields = cartesia_listen.path_of(request).encode(), cartesia_listen.form_fields(request, account.model)
    headers = key_headers(account.api_key)
    return form_call(account, path, headers, fields, request.audio, vendor_errors.classify_cartesia, decode)


async def _send_silence(
    session: ListenSocket, wire: CartesiaListenClient | CartesiaTurnsClient, fmt: AudioFormat
) -> None:
    """Send silence while no audio is sent, as often as the vendor needs it. A failure ends the session."""
    while not wire.finishing:
        await trio.sleep(_WATCH_S)
        idle_s = trio.current_time() - session.sent_at
        if not wire.finishing and idle_s >= (_UNFINISHED_TURN_S if wire.speaking else _IDLE_S):
            session.sent_at, length_s = trio.current_time(), idle_s if wire.speaking else _SILENCE_S
            session.padding_s += length_s
            await session.send_frames(silence(fmt, length_s))


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /stt/turns/websocket` if the model finds the ends of turns and the client does not control them with the
    vendor's own commands; else `WS /stt/websocket`.
    """
    provider, model, secret = account.provider_id, account.model, account.api_key.reveal()
    by_turns = cartesia_listen.uses_turns(request, model)
    path = cartesia_listen.live_path(request, model, turns=by_turns)
    pace = cartesia_listen.pace_of(request, model, turns=by_turns)
    wire: CartesiaTurnsClient | CartesiaListenClient
    on_close = None
    if by_turns:
        wire = CartesiaTurnsClient(provider, request, (secret,))
        on_close = wire.closed
    else:
        wire = CartesiaListenClient(provider, request, model, (secret,))
    async with (
        open_listen_socket(account, path, key_headers(account.api_key), wire, pace, on_close=on_close) as session,
        background(_send_silence, session, wire, request.format),
    ):
        session.flush_padding_s = cartesia_listen.FLUSH_S if by_turns else 0.0
        yield session


def _takes_own(request: TranscribeRequest | ListenRequest | SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    """Return whether the call is of Cartesia's own dialect; its two live protocols have settings of their own."""
    if request.dialect != "cartesia" or not isinstance(request, ListenRequest):
        return request.dialect == "cartesia"
    by_turns = cartesia_listen.uses_turns(request, account.model)
    return by_turns == (cartesia_listen.BY_TURNS in request.options)


_LISTEN: Honours = {
    LANGUAGE: lambda request, account: cartesia_listen.takes_language(request.language, account.model),
    KEYTERMS: lambda request, account: cartesia_listen.takes_keyterms(request.keyterms, account.model),
}  # fmt: skip
_TRANSCRIBE: Honours = {
    LANGUAGE: _LISTEN[LANGUAGE], WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True,
    RESPONSE_FORMAT: lambda request, account: request.response_format != "diarized_json",
}  # fmt: skip
_SPEECH: Honours = {
    LANGUAGE: True, SPEED: lambda request, account: cartesia_speak.takes_speed(account.model), WORD_TIMESTAMPS: True,
}  # fmt: skip

def _phonemes(request: SpeakRequest | SpeakLiveRequest, account: Account) -> Phonemes | None:
    """Return the markup for one word: `<<w|ɪ|n>>` (its page "IPA phonemes", November 2026: all Sonic models)."""
    if not account.model.startswith("sonic"):
        return None
    return lambda ipa, word: "" if " " in word else f"<<{'|'.join(ipa.split())}>>"


SPEC = ProviderSpec(
    type="cartesia", base_url="https://api.cartesia.ai", dialect="cartesia", full_at_429=True, phonemes=_phonemes,
    default_voice=lambda model: None,
    transcribe=transcribe, listen=listen, speak=speak, speak_live=speak_live, speak_socket=_speak_socket,
    honours={"transcribe": _TRANSCRIBE, "listen": _LISTEN, "speak": _SPEECH, "speak_live": _SPEECH},
    takes_own=_takes_own,
    health_path="/voices?limit=1", key_headers=key_headers,
    speak_formats=_RAW | {"wav", "mp3"},
    speak_rates_hz=cartesia_speak.RATES_HZ, speak_g711_rates_hz=cartesia_speak.RATES_HZ, speak_live_formats=_RAW,
    makes_mp3=cartesia_speak.makes_mp3,
    listen_formats=_RAW,
    reported=frozenset(),
)
