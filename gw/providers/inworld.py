"""Inworld: speech over HTTP, with word times; live speech by sentence."""

from __future__ import annotations

from gw.net.http1 import HttpResponse
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, require_voice
from gw.providers.speech_call import SpeechEvents
from gw.types.secret import Secret
from gw.types.speech_settings import LANGUAGE, SPEED, WORD_TIMESTAMPS
from gw.types.tts import SpeakRequest
from gw.wire import inworld_speak


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    """Return the key as the vendor's portal shows it, which is in base64 already."""
    return [(b"authorization", b"Basic " + key.reveal().encode())] if key else []


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /tts/v1/voice:stream`, streamed while it is made."""
    require_voice(request.voice, account)
    inworld_speak.check_length(request, account.provider_id)

    def read(response: HttpResponse) -> SpeakStream:
        decoder = inworld_speak.InworldDecoder(account.provider_id, (account.api_key.reveal(),))
        return SpeechEvents(response, account.provider_id, decoder, request.format)

    body = inworld_speak.body(request, account.model)
    return HttpCall(account, inworld_speak.PATH.encode(), json_lines(key_headers, account), body, inworld_speak.classify, read)


_LIVE: Honours = {LANGUAGE: lambda request, account: inworld_speak.speaks(request.language), SPEED: True}
_SPEECH: Honours = {**_LIVE, WORD_TIMESTAMPS: True}

SPEC = ProviderSpec(
    type="inworld", base_url="https://api.inworld.ai", dialect="inworld", default_voice=lambda model: None,
    speak=speak, speak_live=by_sentence(speak), honours={"speak": _SPEECH, "speak_live": _LIVE},
    health_path="/voices/v1/voices", key_headers=key_headers,
    speak_formats=frozenset(inworld_speak.ENCODINGS), speak_rates_hz=inworld_speak.RATES_HZ,
    transports={"speak_live": "as speech, by sentence"}, reported=frozenset(),
)
