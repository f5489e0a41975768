"""Azure Speech: speech over HTTP, live speech by sentence, recordings by fast transcription, and live transcription over a WebSocket."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import attrs

from gw.net.http1 import HttpResponse, Origin
from gw.providers.http_call import HttpCall, check_get
from gw.providers.recording_call import WholeTranscript, form_call
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, SpeakStream, rejected, require_voice
from gw.providers.speech_call import SpeechAudio
from gw.providers.ws_session import open_listen_socket
from gw.types.secret import Secret
from gw.types.speech_settings import (
    DETECT,
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    PROFANITY_FILTER,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    SPEED,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.tts import SpeakRequest
from gw.wire import azure_speech_listen, azure_speech_recordings, azure_speech_speak, vendor_errors
from gw.wire.azure_speech_listen import AzureSpeechListenClient

_REGIONAL = ".api.cognitive.microsoft.com"
_OF_RESOURCE = ".cognitiveservices.azure.com"
_USER_AGENT = (b"user-agent", b"gw")  # the vendor requires one
_classify = partial(vendor_errors.classify, dialect=azure_speech_recordings.ERRORS)


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"ocp-apim-subscription-key", key.reveal().encode())] if key else []


def at_service(account: Account, service: str) -> Account:
    """Return the account at the address of `tts` or `stt`.

    A region has a host for each, a resource with a name of its own a path; a container of the user's own has neither.
    """
    origin: Origin = account.origin
    if origin.host.endswith(_REGIONAL):
        region = origin.host.removesuffix(_REGIONAL)
        return attrs.evolve(account, origin=attrs.evolve(origin, host=f"{region}.{service}.speech.microsoft.com"))
    if origin.host.endswith(_OF_RESOURCE):
        return attrs.evolve(account, origin=attrs.evolve(origin, prefix=origin.prefix + f"/{service}".encode()))
    return account


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /cognitiveservices/v1`, streamed while it is made. Raises ProviderRejected for a voice with another price."""
    require_voice(request.voice, account)
    if account.model != (model := azure_speech_speak.model_of(request.voice)):
        raise rejected(account, f"the voice {request.voice!r} belongs to the model {model}", status=404)

    def read(response: HttpResponse) -> SpeakStream:
        fmt = azure_speech_speak.made_format(request.format)
        return SpeechAudio(response, account.provider_id, fmt, characters=characters)

    characters = azure_speech_speak.billed_characters(request)
    headers = [
        (b"content-type", b"application/ssml+xml"), _USER_AGENT, *key_headers(account.api_key),
        (azure_speech_speak.FORMAT_HEADER.encode(), azure_speech_speak.output_format(request.format).encode()),
    ]  # fmt: skip
    body, path = azure_speech_speak.body(request), azure_speech_speak.PATH.encode()
    return HttpCall(at_service(account, "tts"), path, headers, body, _classify, read)


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[WholeTranscript]:
    """`POST /speechtotext/transcriptions:transcribe`: a form with the recording and the settings."""
    _require_model(account)
    fields = [("definition", azure_speech_recordings.definition(request))]
    decode = partial(azure_speech_recordings.decode, provider=account.provider_id)
    path, headers = azure_speech_recordings.PATH.encode(), key_headers(account.api_key)
    return form_call(account, path, headers, fields, request.audio, _classify, decode, file_field="audio")


def _require_model(account: Account) -> None:
    if account.model != azure_speech_recordings.MODEL:
        raise rejected(account, f"speech is transcribed by the model {azure_speech_recordings.MODEL} only", status=404)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /speech/recognition/conversation/cognitiveservices/v1`."""
    _require_model(account)
    id_ = secrets.token_hex(16)
    wire = AzureSpeechListenClient(account.provider_id, request, id_, _now, (account.api_key.reveal(),))
    path, pace = azure_speech_listen.path_of(request), azure_speech_listen.pace_of(request)
    headers = [*key_headers(account.api_key), (b"x-connectionid", id_.encode())]
    live = at_service(account, "stt")
    async with open_listen_socket(live, path, headers, wire, pace, opening=wire.opening()) as session:
        session.flush_padding_s = azure_speech_listen.flush_s(request)
        yield session


async def check(account: Account) -> None:
    """Raise ProviderError unless the list of voices comes, which needs the key."""
    path = azure_speech_speak.VOICES_PATH.encode()
    await check_get(at_service(account, "tts"), path, b"application/json", _classify, key_headers(account.api_key))


_SPEECH: Honours = {
    LANGUAGE: lambda request, account: azure_speech_speak.speaks(request.language, request.voice),
    SPEED: lambda request, account: azure_speech_speak.takes_speed(account.model),
}  # fmt: skip
_RECORDINGS: Honours = {
    LANGUAGE: lambda request, account: request.language == DETECT or azure_speech_recordings.locale_of(request) is not None,
    KEYTERMS: True, DIARIZE: True, PROFANITY_FILTER: True, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True,
}  # fmt: skip
_LISTEN: Honours = {
    LANGUAGE: lambda request, account: azure_speech_recordings.locale_of(request) is not None, KEYTERMS: True, PROFANITY_FILTER: True,
}  # fmt: skip

SPEC = ProviderSpec(
    type="azure_speech", base_url="", dialect="azure_speech", key_headers=key_headers, check=check,
    default_voice=lambda model: None, transcribe=transcribe, listen=listen,
    speak=speak, speak_live=by_sentence(speak, azure_speech_speak.billed_characters),
    honours={"speak": _SPEECH, "speak_live": _SPEECH, "transcribe": _RECORDINGS, "listen": _LISTEN},
    listen_formats=azure_speech_listen.ENCODINGS, listen_rates_hz=azure_speech_listen.RATES_HZ,
    speak_formats=azure_speech_speak.ENCODINGS, speak_rates_hz=azure_speech_speak.RATES_HZ, makes_mp3=azure_speech_speak.takes_mp3,
    transports={"speak_live": "as speech, by sentence"}, reported=frozenset({"transcribe"}),
)
