"""Google Cloud: speech and recordings over HTTP, live transcription by gRPC, and live speech by sentence."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from gw.net.http1 import HttpResponse
from gw.providers.google_account import at_service, key_headers, location_of, project_of
from gw.providers.http_call import HttpCall, check_get
from gw.providers.recording_call import WholeTranscript, closing_chunks
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, SpeakStream, rejected, require_voice
from gw.types.audio import AudioFormat
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    PROFANITY_FILTER,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    SPEED,
    WORD_TIMESTAMPS,
)
from gw.types.stt import AudioSource, ListenRequest, TranscribeRequest
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.wire import (
    google_cloud_listen,
    google_cloud_messages,
    google_cloud_recordings,
    google_cloud_speak,
    vendor_errors,
)
from gw.wire.google_cloud_listen import GoogleCloudListenClient

_LIMIT = 64 * 1024 * 1024  # bytes of an answer: a text of 5,000 bytes is spoken in some ten minutes
_PIECE = 32 * 1024
_JSON = (b"content-type", b"application/json")
_classify = partial(vendor_errors.classify, dialect=google_cloud_speak.ERRORS)


class _CompleteSpeech:
    """A `SpeakStream` of an answer that comes in one piece."""

    def __init__(self, response: HttpResponse, provider: str, fmt: AudioFormat) -> None:
        self._response = response
        self._provider = provider
        self.format = fmt

    async def receive(self) -> list[SpeakEvent]:
        audio = google_cloud_speak.decode(await self._response.read(_LIMIT), self._provider)
        pieces: list[SpeakEvent] = [AudioChunk(data=audio[at : at + _PIECE]) for at in range(0, len(audio), _PIECE)]
        return [*pieces, SpeakEnd()]


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/text:synthesize`. Raises ProviderRejected for a voice with another price."""
    require_voice(request.voice, account)
    if (model := google_cloud_speak.model_of(request.voice)) and model != account.model:
        raise rejected(account, f"the voice {request.voice!r} belongs to the model {model}", status=404)

    def read(response: HttpResponse) -> SpeakStream:
        return _CompleteSpeech(response, account.provider_id, request.format)

    headers, body = [_JSON, *key_headers(account)], google_cloud_speak.body(request)
    return HttpCall(at_service(account, "texttospeech"), google_cloud_speak.PATH.encode(), headers, body, _classify, read)


class _Base64Body:
    """A recording in base64 between the parts of a JSON document: read in pieces, its length known beforehand."""

    def __init__(self, head: bytes, audio: AudioSource, tail: bytes) -> None:
        self._head, self._audio, self._tail = head, audio, tail
        self.size = len(head) + (audio.size + 2) // 3 * 4 + len(tail)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._head
        kept = b""   # up to two bytes, which wait for the third
        pieces = self._audio.chunks()
        async with closing_chunks(pieces):   # sending may stop early
            async for piece in pieces:
                data = kept + piece
                whole = len(data) // 3 * 3
                kept = data[whole:]
                yield b64encode(data[:whole])  # noqa: ASYNC119  the pool closes this generator
        yield b64encode(kept) + self._tail


def transcribe(request: TranscribeRequest, account: Account) -> HttpCall[WholeTranscript]:
    """`POST /v2/RECOGNIZER:recognize`. Raises ProviderRejected for a recording that is too long for it."""
    longest_s, most = google_cloud_recordings.LONGEST_S, google_cloud_recordings.MOST_BYTES
    if request.audio_seconds > longest_s or request.audio.size > most:
        detail = f"a recording may have {longest_s:.0f} seconds and {most // 1_000_000} MB"
        raise rejected(account, detail, status=413)
    recognizer = google_cloud_recordings.recognizer_of(project_of(account), location_of(account))
    head, tail = google_cloud_recordings.body_around_audio(request, account.model)
    path, headers = google_cloud_recordings.path_of(recognizer).encode(), [_JSON, *key_headers(account)]
    decode = partial(google_cloud_recordings.decode, provider=account.provider_id)
    read = partial(WholeTranscript, decode=decode)
    return HttpCall(at_service(account, "speech"), path, headers, _Base64Body(head, request.audio, tail), _classify, read)


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`google.cloud.speech.v2.Speech/StreamingRecognize`."""
    from gw.net.grpc_call import GrpcCall, dial_grpc_call  # HTTP/2 is loaded for this alone
    from gw.providers.google_session import GoogleListenSession

    recognizer = google_cloud_recordings.recognizer_of(project_of(account), location_of(account))
    wire = GoogleCloudListenClient(account.provider_id, request, account.model, recognizer)
    at, path = at_service(account, "speech"), google_cloud_listen.PATH.encode()

    async def dial() -> GrpcCall:
        headers = [*key_headers(account), *account.headers]   # a token of the first call may have ended
        return await dial_grpc_call(account.provider_id, at.origin, path, headers=headers, connect=account.pool.connect)

    pace, secrets = google_cloud_listen.pace_of(request), (account.api_key.reveal(),)
    session = GoogleListenSession(account.provider_id, wire, dial, pace, secrets)
    try:
        await session.open()
        yield session
    finally:
        await session.leave()


async def check(account: Account) -> None:
    """Raise ProviderError unless the list of voices comes, which needs the key."""
    at = at_service(account, "texttospeech")
    await check_get(at, google_cloud_speak.VOICES_PATH.encode(), b"application/json", _classify, key_headers(account))


_SPEECH: Honours = {LANGUAGE: lambda request, account: google_cloud_speak.speaks(request.language, request.voice), SPEED: True}
_RECORDINGS: Honours = {
    LANGUAGE: lambda request, account: google_cloud_recordings.locale_of(request, account.model) is not None,
    KEYTERMS: True, PROFANITY_FILTER: True, RESPONSE_FORMAT: True, SEGMENT_TIMESTAMPS: True,
    DIARIZE: lambda request, account: google_cloud_recordings.tells_speakers(account.model),
    WORD_TIMESTAMPS: lambda request, account: google_cloud_recordings.has_word_times(account.model),
}  # fmt: skip
_LISTEN: Honours = {
    LANGUAGE: lambda request, account: google_cloud_recordings.locale_of(request, account.model) is not None,
    KEYTERMS: True, PROFANITY_FILTER: True,
}  # fmt: skip

SPEC = ProviderSpec(
    type="google_cloud", base_url="https://texttospeech.googleapis.com", dialect="google_cloud", check=check,
    default_voice=lambda model: None, transcribe=transcribe, listen=listen,
    speak=speak, speak_live=by_sentence(speak),
    honours={"speak": _SPEECH, "speak_live": _SPEECH, "transcribe": _RECORDINGS, "listen": _LISTEN},
    listen_formats=frozenset(google_cloud_messages.ENCODINGS), listen_rates_hz=google_cloud_listen.RATES_HZ,
    speak_formats=frozenset(google_cloud_speak.FORMATS),
    billed_channels=lambda request, model: google_cloud_recordings.channels_of(request),
    transports={"listen": "gRPC", "speak_live": "as speech, by sentence"}, reported=frozenset({"transcribe"}),
)
