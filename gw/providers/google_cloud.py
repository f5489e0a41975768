"""Google Cloud: speech over HTTP; live speech by sentence.

The vendor streams speech by gRPC only, which gw does not speak.
"""

from __future__ import annotations

from functools import partial

from gw.net.http1 import HttpResponse
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, rejected, require_voice
from gw.types.audio import AudioFormat
from gw.types.secret import Secret
from gw.types.speech_settings import LANGUAGE, SPEED
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.wire import google_cloud_speak, vendor_errors

_LIMIT = 64 * 1024 * 1024  # bytes of an answer: a text of 5,000 bytes is spoken in some ten minutes
_PIECE = 32 * 1024
_classify = partial(vendor_errors.classify, dialect=google_cloud_speak.ERRORS)


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"x-goog-api-key", key.reveal().encode())] if key else []


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

    headers, body = json_lines(key_headers, account), google_cloud_speak.body(request)
    return HttpCall(account, google_cloud_speak.PATH.encode(), headers, body, _classify, read)


_SPEECH: Honours = {LANGUAGE: lambda request, account: google_cloud_speak.speaks(request.language, request.voice), SPEED: True}

SPEC = ProviderSpec(
    type="google_cloud", base_url="https://texttospeech.googleapis.com", dialect="google_cloud", key_headers=key_headers,
    default_voice=lambda model: None, health_path=google_cloud_speak.VOICES_PATH,
    speak=speak, speak_live=by_sentence(speak), honours={"speak": _SPEECH, "speak_live": _SPEECH},
    speak_formats=frozenset(google_cloud_speak.FORMATS),
    transports={"speak_live": "as speech, by sentence"}, reported=frozenset(),
)
