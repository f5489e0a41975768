"""Gemini's speech, `POST /models/MODEL:streamGenerateContent?alt=sse`: both roles.

Source: the vendor's page "Text-to-speech generation" (generateContent, of 2 October 2026), google-genai 3.6.1 (`types.py`), and
livekit-plugins-google 1.8.9 (`beta/gemini_tts.py`: which models take a style, and what others answer to one). November 2026.

A request has one text, which is read aloud as it is. Each event of the answer has audio in base64, headerless 16-bit samples of 24 kHz; the
last one has the reason of the end and the tokens that are billed, by modality.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import quote

import msgspec

from gw.errors import ClientProtocolError, ProviderRefused, UpstreamCut
from gw.types.audio import PCM_24K
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.types.usage import NO_DIMENSIONS, Dimensions, Usage
from gw.wire.bounds import plausible, tokens
from gw.wire.json_codec import decode_request, decode_upstream
from gw.wire.query import language_tag
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import error_within

_WITH_STYLE = ("gemini-3.8-flash-tts", "gemini-3.8-flash-lite-tts")
_OWN_VOICES = ("voice_", "voicekey_")
"""Beginnings of the names of voices that a customer has designed or cloned."""
_MIME = f"audio/l16; rate={PCM_24K.sample_rate_hz}; channels=1"
_REFUSALS = frozenset({"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION"})


def takes_style(model: str) -> bool:
    """Return whether a model takes a style beside the text; others refuse one."""
    return model.startswith(_WITH_STYLE)


def path_of(model: str) -> str:
    return f"/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"


# ---- client


def body(request: SpeakRequest, model: str) -> bytes:
    """Return the request. Instructions become the style, where the model takes one."""
    part: dict[str, Any] = {"text": request.text}
    if request.instructions and takes_style(model):
        part["speechMetadata"] = {"style": request.instructions}
    own = request.voice.startswith(_OWN_VOICES)
    voice = {"voice": request.voice} if own else {"prebuiltVoiceConfig": {"voiceName": request.voice}}
    speech: dict[str, Any] = {"voiceConfig": voice}
    if tag := language_tag(request.language):
        speech["languageCode"] = tag
    generation: dict[str, Any] = {"responseModalities": ["AUDIO"], "speechConfig": speech}
    if takes_style(model):  # others have this format only
        generation["responseFormat"] = {"audio": {"mimeType": "AUDIO_L16", "sampleRate": PCM_24K.sample_rate_hz}}
    return msgspec.json.encode({"contents": [{"role": "user", "parts": [part]}], "generationConfig": generation})


class _Data(msgspec.Struct, gc=False, rename="camel"):
    data: str = ""
    mime_type: str = ""


class _Part(msgspec.Struct, gc=False, rename="camel"):
    inline_data: _Data | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Count(msgspec.Struct, gc=False, rename="camel"):
    modality: str = ""
    token_count: int | None = None


class _UsageMetadata(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    candidates_tokens_details: list[_Count] | None = None
    thoughts_token_count: int | None = None
    service_tier: str | None = None


class _Feedback(msgspec.Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class _Event(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: _UsageMetadata | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


_EVENT = msgspec.json.Decoder(_Event)


class GeminiSpeechDecoder(SseStreamDecoder[SpeakEvent]):
    """Decoder of an answer. The usage may come with the end or after it, so that the end is the end of the body."""

    CLOSING_EVENT = "a reason of the end"

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._usage: Usage | None = None
        self._finished = self._has_audio = False

    def _decode(self, event: SseEvent, events: list[SpeakEvent]) -> None:
        decoded = decode_upstream(_EVENT, event.data, self._provider, "an event")
        if decoded.error is not None:
            raise error_within(self._provider, decoded.error)
        if decoded.prompt_feedback is not None and decoded.prompt_feedback.block_reason:
            raise self._refusal(decoded.prompt_feedback.block_reason)
        if decoded.usage_metadata is not None:
            self._usage = _usage(decoded.usage_metadata)
        for candidate in (decoded.candidates or ())[:1]:
            for part in (candidate.content.parts if candidate.content is not None else None) or ():
                if part.inline_data is not None and part.inline_data.data:
                    events.append(AudioChunk(data=self._audio(part.inline_data)))
            self._finish(candidate.finish_reason)

    def _audio(self, inline: _Data) -> bytes:
        kind, *parameters = inline.mime_type.lower().replace(" ", "").split(";")
        rates = [value for name, _, value in (parameter.partition("=") for parameter in parameters) if name == "rate"]
        if kind not in ("audio/l16", "audio/pcm") or rates not in ([], [str(PCM_24K.sample_rate_hz)]):
            raise self._malformed("audio in another format than the one requested")
        try:
            data = b64decode(inline.data, validate=True)
        except ValueError:
            raise self._malformed("audio that is not base64") from None
        self._has_audio = self._has_audio or bool(data)
        return data

    def _finish(self, reason: str | None) -> None:
        if reason in _REFUSALS:
            raise self._refusal(reason)
        if reason == "STOP":
            self._finished = True
        elif reason:  # such as MAX_TOKENS, at the longest answer
            raise UpstreamCut(provider=self._provider, detail=f"ended the speech early ({reason[:40]})")

    def _refusal(self, reason: str) -> ProviderRefused:
        code = reason[:40]
        return ProviderRefused(provider=self._provider, detail=f"refused to speak ({code})", upstream_status=200, upstream_code=code)

    def end(self) -> list[SpeakEvent]:
        """Return the end. Raises UpstreamCut without a reason of it, UpstreamProtocolError for an answer without audio."""
        self._ended = self._finished
        super().end()
        if not self._has_audio:
            raise self._malformed("empty answer")
        return [SpeakEnd(usage=self._usage)]


def _usage(counted: _UsageMetadata) -> Usage | None:
    spoken = sum(tokens(count.token_count) for count in counted.candidates_tokens_details or () if count.modality == "AUDIO")
    output = tokens(counted.candidates_token_count) + tokens(counted.thoughts_token_count)
    tier = (counted.service_tier or "").lower()
    return plausible(
        Usage(
            input_tokens=tokens(counted.prompt_token_count), output_tokens=output, output_audio_tokens=min(spoken, output),
            cached_input_tokens=min(tokens(counted.cached_content_token_count), tokens(counted.prompt_token_count)), source="vendor",
            dimensions=Dimensions(tier=tier[:40]) if tier not in ("", "standard", "on_demand") else NO_DIMENSIONS,
        )
    )


# ---- server


class _Metadata(msgspec.Struct, gc=False):
    style: str | None = None


class _SentPart(msgspec.Struct, gc=False, rename="camel"):
    text: str = ""
    speech_metadata: _Metadata | None = None


class _SentContent(msgspec.Struct, gc=False):
    parts: list[_SentPart] = []


class _Prebuilt(msgspec.Struct, gc=False, rename="camel"):
    voice_name: str = ""


class _Voice(msgspec.Struct, gc=False, rename="camel"):
    voice: str = ""
    prebuilt_voice_config: _Prebuilt | None = None


class _Speech(msgspec.Struct, gc=False, rename="camel"):
    voice_config: _Voice | None = None
    language_code: str | None = None


class _Generation(msgspec.Struct, gc=False, rename="camel"):
    response_modalities: list[str] = []
    speech_config: _Speech | None = None


class _Request(msgspec.Struct, gc=False, rename="camel"):
    contents: list[_SentContent] = []
    generation_config: _Generation | None = None
    system_instruction: Any = None


_REQUEST, _MEMBERS = msgspec.json.Decoder(_Request), msgspec.json.Decoder(dict[str, Any])
_UNDERSCORE = re.compile(r"_([a-z])")


def _camel(value: Any) -> Any:
    """Return JSON with the names of members in camel case; the vendor takes them in both forms, and its SDK sends both."""
    if isinstance(value, dict):
        return {_UNDERSCORE.sub(lambda found: found[1].upper(), name): _camel(member) for name, member in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list) else value


def parse(received: bytes, model: str) -> SpeakRequest:
    """Decode a request. Raises ClientProtocolError, with `param`."""
    request = decode_request(_REQUEST, msgspec.json.encode(_camel(decode_request(_MEMBERS, received))))
    generation = request.generation_config or _Generation()
    parts = [part for content in request.contents for part in content.parts]
    styles = [part.speech_metadata.style for part in parts if part.speech_metadata is not None and part.speech_metadata.style]
    if generation.response_modalities != ["AUDIO"] or request.system_instruction is not None:
        raise ClientProtocolError(what="The requested combination of response modalities is not supported by the model.", param="")
    if styles and not takes_style(model):
        raise ClientProtocolError(what="Speech metadata is not supported for this model", param="contents")
    if not (text := " ".join(part.text for part in parts)).strip():
        raise ClientProtocolError(what="contents is not specified", param="contents")
    speech = generation.speech_config or _Speech()
    voice = speech.voice_config or _Voice()
    prebuilt = voice.prebuilt_voice_config or _Prebuilt()
    return SpeakRequest(
        model=model, text=text, voice=voice.voice or prebuilt.voice_name, format=PCM_24K, language=speech.language_code,
        instructions=styles[0] if styles else None, dialect="gemini",
    )  # fmt: skip


def _encode(members: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode({**members, "modelVersion": "gemini", "responseId": "r"}) + b"\r\n\r\n"


def encode_piece(audio: bytes) -> bytes:
    content = {"parts": [{"inlineData": {"mimeType": _MIME, "data": b64encode(audio).decode()}}], "role": "model"}
    return _encode({"candidates": [{"content": content, "index": 0}]})


def encode_last(usage: Usage, reason: str = "STOP") -> bytes:
    details = [{"modality": "AUDIO", "tokenCount": usage.output_audio_tokens}]
    counted = {
        "promptTokenCount": usage.input_tokens, "candidatesTokenCount": usage.output_tokens, "candidatesTokensDetails": details,
        "totalTokenCount": usage.input_tokens + usage.output_tokens, "serviceTier": "standard",
    }  # fmt: skip
    return _encode({"candidates": [{"content": {}, "finishReason": reason, "index": 0}], "usageMetadata": counted})
