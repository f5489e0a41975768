"""Amazon Polly: speech over HTTP; live speech by sentence.

The vendor's bidirectional stream (`StartSpeechSynthesisStream`) needs HTTP/2, which gw does not speak to vendors.
"""

from __future__ import annotations

from collections.abc import Mapping

from gw.net.http1 import HttpResponse
from gw.providers import aws_request
from gw.providers.http_call import HttpCall, check_get
from gw.providers.sentence_tts import by_sentence
from gw.providers.spec import Account, Honours, ProviderSpec, SpeakStream, rejected, require_voice
from gw.providers.speech_call import SpeechAudio, said_of
from gw.types.speech_settings import LANGUAGE, SPEED
from gw.types.tts import SpeakRequest
from gw.wire import aws_polly_speak

_JSON: Mapping[str, str] = {"content-type": "application/json"}


def speak(request: SpeakRequest, account: Account) -> HttpCall[SpeakStream]:
    """`POST /v1/speech`, streamed while it is made."""
    require_voice(request.voice, account)
    if account.model not in aws_polly_speak.ENGINES:
        raise rejected(account, f"the models are the engines {', '.join(aws_polly_speak.ENGINES)}", status=404)

    def read(response: HttpResponse) -> SpeakStream:
        said = said_of(response, b"x-amzn-requestcharacters", "characters", b"x-amzn-requestid")
        return SpeechAudio(response, account.provider_id, aws_polly_speak.made_format(request.format), said)

    body = aws_polly_speak.body(request, account.model)
    headers = aws_request.signed_headers(account, "polly", "POST", aws_polly_speak.PATH, _JSON, body)
    return HttpCall(account, aws_polly_speak.PATH.encode(), headers, body, aws_polly_speak.classify, read)


async def check(account: Account) -> None:
    """Raise ProviderError unless the list of voices comes, which needs the key."""
    headers = aws_request.signed_headers(account, "polly", "GET", aws_polly_speak.VOICES_PATH, {}, b"")
    await check_get(account, aws_polly_speak.VOICES_PATH.encode(), b"application/json", aws_polly_speak.classify, headers)


_SPEECH: Honours = {
    LANGUAGE: lambda request, account: aws_polly_speak.speaks(request.language),
    SPEED: lambda request, account: aws_polly_speak.takes_speed(account.model),
}  # fmt: skip

SPEC = ProviderSpec(
    type="aws_polly", base_url="", dialect="aws_polly", default_voice=lambda model: None, check=check,
    speak=speak, speak_live=by_sentence(speak), honours={"speak": _SPEECH, "speak_live": _SPEECH},
    speak_formats=frozenset(aws_polly_speak.FORMATS), speak_rates_hz=aws_polly_speak.RATES_HZ, makes_mp3=aws_polly_speak.makes_mp3,
    transports={"speak_live": "as speech, by sentence"}, reported=frozenset({"speak"}),
)
