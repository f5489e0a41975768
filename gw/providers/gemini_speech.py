"""Speech of Gemini's models, at its API's own address. Not itself a provider: the rest of the vendor is a file, in OpenAI's dialect."""

from __future__ import annotations

import attrs

from gw.net.http1 import HttpResponse
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.spec import Account, Honours, SpeakStream
from gw.providers.speech_call import SpeechEvents
from gw.types.audio import PCM_24K
from gw.types.secret import Secret
from gw.types.speech_settings import INSTRUCTIONS, LANGUAGE
from gw.types.tts import SpeakRequest
from gw.wire import gemini_speak, vendor_errors

RATES_HZ = frozenset({PCM_24K.sample_rate_hz})
_COMPATIBLE = b"/openai"  # end of the address that speaks OpenAI's dialect
HONOURS: Honours = {LANGUAGE: True, INSTRUCTIONS: lambda request, account: gemini_speak.takes_style(account.model)}


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"x-goog-api-key", key.reveal().encode())] if key else []


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /models/MODEL:streamGenerateContent` beside the address in OpenAI's dialect, streamed while it is made."""

    def read(response: HttpResponse) -> SpeakStream:
        decoder = gemini_speak.GeminiSpeechDecoder(account.provider_id)
        return SpeechEvents(response, account.provider_id, decoder, PCM_24K)

    origin = attrs.evolve(account.origin, prefix=account.origin.prefix.removesuffix(_COMPATIBLE))
    path, body = gemini_speak.path_of(account.model).encode(), gemini_speak.body(request, account.model)
    lines = json_lines(key_headers, account, b"text/event-stream")
    return HttpCall(attrs.evolve(account, origin=origin), path, lines, body, vendor_errors.classify, read)
