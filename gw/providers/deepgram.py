"""Deepgram: transcription of recordings and live, speech whole and live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from gw.errors import ProviderError, ProviderRejected
from gw.net.http1 import HttpResponse, RequestBody
from gw.net.ws import WsClosed
from gw.policy.respelling import Phonemes
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.recording_call import WholeTranscript
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, SpeakSession, SpeakStream, TranscribeStream
from gw.providers.speech_call import SpeechAudio, said_of
from gw.providers.ws_session import open_listen_socket, open_socket, why_closed
from gw.providers.ws_speech import SpeakSocket
from gw.types.secret import Secret
from gw.types.speech_settings import (
    DETECT,
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    NO_STORE,
    PROFANITY_FILTER,
    REDACT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    SPEED,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakLiveRequest, SpeakRequest
from gw.wire import (
    billing,
    deepgram_errors,
    deepgram_flux_listen,
    deepgram_listen,
    deepgram_recordings,
    deepgram_settings,
    deepgram_speak,
    deepgram_speak_formats,
    deepgram_speak_markers,
    redaction,
)
from gw.wire.deepgram_flux_listen import is_flux
from gw.wire.deepgram_speak_speed import takes_speed
from gw.wire.vendor_errors import classify_deepgram

_KEEP_ALIVE_S = 5.0  # as its own SDK does; the vendor closes a session after ten seconds without audio


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Token " + key.reveal().encode())] if key else []


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[TranscribeStream]:
    """`POST /v1/listen`, the recording as the body, or its address in JSON."""
    path = deepgram_recordings.recording_path(request, account.model).encode()
    body: bytes | RequestBody = deepgram_recordings.url_body(request.url) if request.url else request.audio
    content_type = "application/json" if request.url else request.audio.content_type or "application/octet-stream"
    headers = [(b"content-type", content_type.encode()), (b"accept", b"application/json")]
    headers += key_headers(account.api_key)
    keep_raw = request.dialect == "deepgram"
    decode = partial(deepgram_recordings.decode_transcript, provider=account.provider_id, keep_raw=keep_raw)
    read = partial(WholeTranscript, decode=decode)
    return HttpCall(account, path, headers, body, classify_deepgram, read)


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/speak`, for Flux models `/v2/speak`, streamed while it is made."""

    def read(response: HttpResponse) -> SpeakStream:
        said = said_of(response, b"dg-char-count", "characters")
        return SpeechAudio(response, account.provider_id, request.format, said)

    path = deepgram_speak.http_path(request, account.model).encode()
    headers = json_lines(key_headers, account)
    return HttpCall(account, path, headers, deepgram_speak.body(request), classify_deepgram, read)


def _close_error(provider: str, closed: WsClosed) -> ProviderError:
    """Return the error of a close frame: 1008 is a wrong key, or in its reason the code of what was sent and is refused."""
    code = deepgram_errors.REFUSED_CODE.search(closed.reason) if closed.code == 1008 else None
    if code is None:
        return why_closed(provider, closed)
    detail = f"closed the session with {code[0]}"
    return ProviderRejected(provider=provider, detail=detail, upstream_status=400, upstream_code=code[0], fault="request")


def listen(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    """Models that find the ends of turns (Flux) have a path of their own."""
    return _listen_by_turns(request, account) if is_flux(account.model) else _listen(request, account)


def _listen(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    """`WS /v1/listen`, kept alive while nobody speaks."""
    same = request.dialect == "deepgram" and not deepgram_listen.by_turns(request)
    wire = deepgram_listen.DeepgramListenClient(
        account.provider_id, keep_raw=same, interims=request.interim_results, secrets=(account.api_key.reveal(),)
    )
    path, pace = deepgram_listen.path_of(request, account.model), deepgram_listen.pace_of(request)
    return open_listen_socket(
        account, path, key_headers(account.api_key), wire, pace, close_error=_close_error, idle_s=_KEEP_ALIVE_S, idle_frames=wire.keep_alive
    )


def _listen_by_turns(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    """`WS /v2/listen`. It has no keep-alive: the client has to send silence while nobody speaks."""
    wire = deepgram_flux_listen.FluxListenClient(
        account.provider_id, keep_raw=deepgram_listen.by_turns(request), interims=request.interim_results,
        secrets=(account.api_key.reveal(),),
    )
    path = deepgram_flux_listen.path_of(request, account.model)
    pace = deepgram_flux_listen.pace_of(request)
    headers = key_headers(account.api_key)
    return open_listen_socket(account, path, headers, wire, pace, on_close=wire.closed, close_error=_close_error)


def _speak_socket(request: SpeakLiveRequest, account: Account) -> tuple[str, list[tuple[bytes, bytes]]]:
    return deepgram_speak.live_path(request, account.model), key_headers(account.api_key)


@asynccontextmanager
async def speak_live(request: SpeakLiveRequest, account: Account) -> AsyncIterator[SpeakSession]:
    """`WS /v1/speak`, for Flux models `/v2/speak`."""
    provider, secrets = account.provider_id, (account.api_key.reveal(),)
    if deepgram_speak.is_flux(account.model):
        wire: deepgram_speak.DeepgramSpeakClient = deepgram_speak.FluxSpeakClient(provider, secrets=secrets)
    else:
        wire = deepgram_speak.DeepgramSpeakClient(provider, keep_raw=request.dialect == "deepgram", secrets=secrets)
    async with open_socket(account, *_speak_socket(request, account), prewarmed=True) as ws:
        yield SpeakSocket(ws, wire, provider, request.format, on_close=wire.closed, close_error=_close_error)


def _takes_own(request: TranscribeRequest | ListenRequest | SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    """Return whether the call is of Deepgram's own dialect; its two live protocols have settings of their own."""
    if request.dialect != "deepgram":
        return False
    return not isinstance(request, ListenRequest) or deepgram_listen.by_turns(request) == is_flux(account.model)


def _takes_language(request: TranscribeRequest | ListenRequest, account: Account) -> bool:
    model, bare = account.model, (request.language or "").partition("-")[0].lower()
    if is_flux(model):
        return bare == "en" or not model.endswith("-en")
    return bare != DETECT or isinstance(request, TranscribeRequest) or model.startswith(("nova-2", "nova-3"))


def _redacts(request: TranscribeRequest | ListenRequest, account: Account) -> bool:
    live, turns = isinstance(request, ListenRequest), is_flux(account.model)
    return redaction.to_deepgram(request.redact, live=live, by_turns=turns, language=request.language) is not None


def _speaks(request: SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    return deepgram_speak.speaks(request.language, account.model, request.voice)


_WITH_PHONEMES = ("en", "es")
"""Languages of the Aura-2 voices that take them: the vendor's changelog of 2026-05-04. Flux's are in early access."""


def _phonemes(request: SpeakRequest | SpeakLiveRequest, account: Account) -> Phonemes | None:
    """Return the marker for one word (deepgram-sdk 7.17.0, `helpers/text_builder.py`)."""
    voice = deepgram_speak.voice_model(account.model, request.voice)
    if not (voice.startswith("aura-2") and voice.rpartition("-")[2] in _WITH_PHONEMES):
        return None
    return deepgram_speak_markers.pronounced


def _takes_speed(request: SpeakRequest | SpeakLiveRequest, account: Account) -> bool:
    return takes_speed(deepgram_speak.voice_model(account.model, request.voice))


_COMMON: Honours = {
    REDACT: _redacts, NO_STORE: True, PROFANITY_FILTER: True, LANGUAGE: _takes_language,
    KEYTERMS: lambda request, account: deepgram_settings.keyterm_field(account.model) is not None,
    DIARIZE: lambda request, account: not is_flux(account.model),
}  # fmt: skip
_SAME_AT_BOTH: Honours = dict.fromkeys(("tag", "numerals"), lambda request, account: request.dialect == "deepgram")
_SPEECH: Honours = {NO_STORE: True, LANGUAGE: _speaks, SPEED: _takes_speed}


_BILLED_ON_TOP = {
    "keyterm": "keyterm", "redact": "redact", "diarize": "diarize", "diarize_model": "diarize",
    "detect_entities": "detect_entities", "summarize": "summarize", "topics": "topics", "intents": "intents",
    "sentiment": "sentiment",
}  # fmt: skip
"""Source: the vendor's price list as litellm 1.109.1 has it (`deepgram/streaming/…`); the last four are billed by tokens, which
no answer counts."""


def billed_options(request: TranscribeRequest | ListenRequest, model: str) -> tuple[str, ...]:
    """Return what is billed on top, by the query that is sent. `language=multi` makes another price of Nova-3."""
    if isinstance(request, TranscribeRequest):
        path = deepgram_recordings.recording_path(request, model)
    else:
        flux = deepgram_flux_listen.is_flux(model)
        path = (deepgram_flux_listen if flux else deepgram_listen).path_of(request, model)
    pairs = billing.query_of(path)
    options = billing.billed_options(pairs, _BILLED_ON_TOP)
    multilingual = model.startswith("nova-3") and ("language", "multi") in pairs
    return tuple(sorted((*options, "multilingual"))) if multilingual else options


def billed_channels(request: TranscribeRequest | ListenRequest, model: str) -> int:
    """Return the number of billed channels: all where they are transcribed one by one, else one.

    Source: the vendor in github.com/orgs/deepgram/discussions/932.
    """
    if deepgram_flux_listen.is_flux(model) or request.format is None or request.format.channels == 1:
        return 1
    if isinstance(request, TranscribeRequest):
        path = deepgram_recordings.recording_path(request, model)
    else:
        path = deepgram_listen.path_of(request, model)
    return request.format.channels if ("multichannel", "true") in billing.query_of(path) else 1


SPEC = ProviderSpec(
    type="deepgram", base_url="https://api.deepgram.com", dialect="deepgram", full_at_429=True,
    default_voice=deepgram_speak.default_voice,
    fetches=frozenset({"deepgram"}), transcribe=transcribe, listen=listen, speak=speak, speak_live=speak_live,
    speak_socket=_speak_socket,
    honours={
        "transcribe": {**_COMMON, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True},
        "listen": {**_COMMON, **_SAME_AT_BOTH}, "speak": _SPEECH, "speak_live": _SPEECH,
    },
    takes_own=_takes_own,
    health_path="/v1/projects", key_headers=key_headers,
    speak_formats=frozenset({"pcm_s16le", "mulaw", "alaw", "wav", "mp3", "opus", "ogg", "aac", "flac"}),
    speak_rates_hz=frozenset({8_000, 16_000, 24_000, 32_000, 48_000}), speak_g711_rates_hz=frozenset({8_000, 16_000}),
    makes_mp3=deepgram_speak_formats.makes_mp3, phonemes=_phonemes,
    speak_live_formats=frozenset({"pcm_s16le", "mulaw", "alaw"}),
    listen_formats=frozenset({"pcm_s16le", "pcm_f32le", "mulaw", "alaw", "flac", "opus", "ogg", "webm", "mp4", "unknown"}),
    reported=frozenset({"transcribe", "listen", "speak"}), billed_options=billed_options,
    billed_channels=billed_channels,
)
