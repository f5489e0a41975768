"""Rime: speech over HTTP; live speech by sentence.

The vendor's sockets are not used: each of its models has another one, and only one of them word times.
"""

from __future__ import annotations

from gw.net.http1 import HttpResponse
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, bearer, require_voice
from gw.providers.speech_call import SpeechAudio
from gw.types.speech_settings import LANGUAGE, SPEED
from gw.types.tts import SpeakRequest
from gw.wire import rime_speak


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/rime-tts`, streamed while it is made."""
    require_voice(request.voice, account)

    def read(response: HttpResponse) -> SpeakStream:
        return SpeechAudio(response, account.provider_id, request.format)

    headers = json_lines(bearer, account, rime_speak.ACCEPTS[request.format.encoding].encode())
    body = rime_speak.body(request, account.model)
    return HttpCall(account, rime_speak.PATH.encode(), headers, body, rime_speak.classify, read)


_SPEECH: Honours = {
    LANGUAGE: lambda request, account: rime_speak.speaks(request.language, account.model),
    SPEED: lambda request, account: rime_speak.takes_speed(account.model),
}

SPEC = ProviderSpec(
    type="rime", base_url="https://users.rime.ai", dialect="rime", default_voice=lambda model: None,
    speak=speak, speak_live=by_sentence(speak), honours={"speak": _SPEECH, "speak_live": _SPEECH},
    health_path="/data/voices/all-v2.json",
    speak_formats=frozenset(rime_speak.ACCEPTS), speak_rates_hz=rime_speak.RATES_HZ,
    transports={"speak_live": "as speech, by sentence"}, reported=frozenset(),
)
