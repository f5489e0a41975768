"""Hume: speech over HTTP as lines of JSON; live speech by sentence."""

from __future__ import annotations

from gw.net.http1 import HttpResponse
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, require_voice
from gw.providers.speech_call import SpeechEvents
from gw.types.audio import AudioFormat
from gw.types.secret import Secret
from gw.types.speech_settings import INSTRUCTIONS, SPEED
from gw.types.tts import SpeakRequest
from gw.wire import hume_speak


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"x-hume-api-key", key.reveal().encode())] if key else []


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v0/tts/stream/json`, streamed while it is made."""
    require_voice(request.voice, account)
    encoding = request.format.encoding
    fmt = request.format if encoding == "mp3" else AudioFormat(encoding=encoding, sample_rate_hz=hume_speak.RATE_HZ)

    def read(response: HttpResponse) -> SpeakStream:
        decoder = hume_speak.HumeDecoder(account.provider_id, (account.api_key.reveal(),))
        return SpeechEvents(response, account.provider_id, decoder, fmt)

    body = hume_speak.body(request, account.model)
    return HttpCall(account, hume_speak.PATH.encode(), json_lines(key_headers, account), body, hume_speak.classify, read)


_SPEECH: Honours = {SPEED: True, INSTRUCTIONS: lambda request, account: account.model == hume_speak.ACTING_MODEL}

SPEC = ProviderSpec(
    type="hume", base_url="https://api.hume.ai", dialect="hume", default_voice=lambda model: None,
    speak=speak, speak_live=by_sentence(speak), honours={"speak": _SPEECH, "speak_live": {SPEED: True}},
    health_path="/v0/tts/voices?provider=HUME_AI&page_size=1", key_headers=key_headers,
    speak_formats=frozenset(hume_speak.ENCODINGS), speak_rates_hz=frozenset({hume_speak.RATE_HZ}),
    transports={"speak_live": "as speech, by sentence"}, reported=frozenset(),
)
