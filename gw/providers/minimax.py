"""MiniMax: speech over HTTP as an event stream; live speech by sentence."""

from __future__ import annotations

from gw.net.http1 import HttpResponse
from gw.providers import job_call
from gw.providers.http_call import HttpCall, json_lines
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, bearer, require_voice
from gw.providers.speech_call import SpeechEvents
from gw.types.speech_settings import LANGUAGE, SPEED
from gw.types.tts import SpeakRequest
from gw.wire import minimax_speak


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/t2a_v2`, streamed while it is made."""
    require_voice(request.voice, account)
    minimax_speak.check_text(request, account.provider_id)

    def read(response: HttpResponse) -> SpeakStream:
        decoder = minimax_speak.MiniMaxDecoder(account.provider_id, (account.api_key.reveal(),))
        return SpeechEvents(response, account.provider_id, decoder, request.format)

    body = minimax_speak.body(request, account.model)
    return HttpCall(account, minimax_speak.PATH.encode(), json_lines(bearer, account), body, minimax_speak.classify, read)


async def check(account: Account) -> None:
    """Raise ProviderError unless `POST /v1/get_voice` lists the vendor's voices; a wrong key is refused with status 200."""
    headers = [(b"content-type", b"application/json"), *bearer(account.api_key)]
    path, body = minimax_speak.VOICES.encode(), b'{"voice_type":"system"}'
    answer = await job_call.fetch(account, b"POST", path, headers, minimax_speak.classify, body)
    minimax_speak.check_answer(answer, account.provider_id, (account.api_key.reveal(),))


_SPEECH: Honours = {
    LANGUAGE: lambda request, account: minimax_speak.language_of(request.language, account.model) is not None, SPEED: True,
}  # fmt: skip

SPEC = ProviderSpec(
    type="minimax", base_url="https://api.minimax.io", dialect="minimax", default_voice=lambda model: None,
    speak=speak, speak_live=by_sentence(speak), check=check, honours={"speak": _SPEECH, "speak_live": _SPEECH},
    speak_formats=frozenset(minimax_speak.ENCODINGS), speak_rates_hz=minimax_speak.RATES_HZ,
    transports={"speak": "HTTP, events", "speak_live": "as speech, by sentence"}, reported=frozenset({"speak"}),
)
