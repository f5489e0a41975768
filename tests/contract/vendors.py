"""The vendors of the provider suite: how each type's fake is built and controlled.

A new provider type is one entry in `VENDORS`; a new wire dialect is one class with the methods of `Vendor` and one
entry in `ERRORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, Protocol

import attrs
import msgspec

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError
from gw.net.http1 import Origin, Pool
from gw.providers.sim import fsk
from gw.providers.spec import Account, spec_of
from gw.types.asgi import ASGIApp
from gw.types.ids import Modality
from gw.types.llm import ChatRequest
from gw.types.presets import PRESETS
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.wire import chat_messages, gladia_listen, openai_chat
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.aws_polly import FakeAwsPolly
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe
from tests.fakes.vendors.azure_speech import FakeAzureSpeech
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.gemini import FakeGemini
from tests.fakes.vendors.gladia import FakeGladia
from tests.fakes.vendors.google_cloud import FakeGoogleCloud
from tests.fakes.vendors.hume import FakeHume
from tests.fakes.vendors.inworld import FakeInworld
from tests.fakes.vendors.minimax import FakeMiniMax
from tests.fakes.vendors.ollama import FakeOllama
from tests.fakes.vendors.openai import Entry, FakeOpenAI
from tests.fakes.vendors.openai_variants import CONVENTIONS, Conventions, FakeVariant
from tests.fakes.vendors.piper import FakePiper
from tests.fakes.vendors.rime import FakeRime
from tests.fakes.vendors.scripted import ScriptedVendor
from tests.fakes.vendors.soniox import FakeSoniox
from tests.fakes.vendors.speaches import FakeSpeaches
from tests.fakes.vendors.speechmatics import FakeSpeechmatics
from tests.fakes.vendors.xai import FakeXai

KEY = "correct horse battery staple"
"""Looks like no key: only who knows it can take it out of a text."""


@attrs.frozen(kw_only=True)
class ErrorCase:
    """An error answer, and what it must become."""

    name: str
    status: int
    code: str = "scripted"
    retry_after: str = ""
    error: type[ProviderError]
    retryable: bool = True
    fault: Literal["", "caller", "candidate"] = ""
    retry_after_s: float | None = None


_CASES = (
    ErrorCase(name="key", status=401, error=ProviderRejected, fault="candidate"),
    ErrorCase(name="model", status=404, error=ProviderRejected, fault="candidate"),
    ErrorCase(name="request", status=400, error=ProviderRejected, fault="caller", retryable=False),
    ErrorCase(name="money", status=402, error=ProviderFailed),
    ErrorCase(name="limit", status=429, retry_after="7", error=RateLimitError, retry_after_s=7.0),
    ErrorCase(name="limit without a time", status=429, error=RateLimitError),
    ErrorCase(name="broken", status=500, error=ProviderFailed),
    ErrorCase(name="overloaded", status=503, error=ProviderFailed),
)
_REFUSED_ELSEWHERE = (
    *(case for case in _CASES if case.name != "request"),
    ErrorCase(name="request", status=400, error=ProviderRejected, fault="request"),
)
"""Of vendors whose 400 is about a configuration that the gateway makes."""
ERRORS: Mapping[str, tuple[ErrorCase, ...]] = {
    "openai": (
        *_CASES,
        ErrorCase(
            name="context length", status=400, code="context_length_exceeded", error=ProviderRejected, fault="request"
        ),
        ErrorCase(name="quota", status=429, code="insufficient_quota", retry_after="7", error=ProviderFailed),
    ),
    "anthropic": (
        *_CASES,
        ErrorCase(name="credit", status=400, code="Your credit balance is too low", error=ProviderFailed),
        ErrorCase(
            name="context length",
            status=400,
            code="prompt is too long: 9 tokens > 8 maximum",
            error=ProviderRejected,
            fault="request",
        ),
        ErrorCase(name="spend limit", status=429, code="contract_spend_limit_reached", error=ProviderFailed),
        ErrorCase(name="overloaded model", status=529, error=ProviderFailed),
    ),
    "ollama": _CASES,
    "deepgram": (
        *_CASES,
        ErrorCase(name="credit", status=402, code="ASR_PAYMENT_REQUIRED", error=ProviderFailed),
        ErrorCase(
            name="plan", status=403, code="INSUFFICIENT_PERMISSIONS", error=ProviderRejected, fault="candidate"
        ),
        ErrorCase(name="concurrency", status=429, code="TOO_MANY_REQUESTS", error=RateLimitError),
    ),
    "cartesia": (
        *_CASES,
        ErrorCase(name="credits", status=402, code="quota_exceeded", error=ProviderFailed),
        ErrorCase(name="concurrency", status=429, code="concurrency_limited", error=RateLimitError),
    ),
    "assemblyai": (*_CASES, ErrorCase(name="funds", status=402, error=ProviderFailed)),
    "elevenlabs": (
        *_CASES,
        ErrorCase(name="quota", status=401, code="quota_exceeded", error=ProviderFailed),
        ErrorCase(name="concurrency", status=429, code="too_many_concurrent_requests", error=RateLimitError),
        ErrorCase(name="voice", status=400, code="voice_not_found", error=ProviderRejected, fault="request"),
        ErrorCase(name="form", status=422, error=ProviderRejected, fault="caller", retryable=False),
    ),
    "soniox": _REFUSED_ELSEWHERE,
    "speechmatics": _REFUSED_ELSEWHERE,
    "gladia": _REFUSED_ELSEWHERE,
    "rime": _CASES,
    "inworld": _CASES,
    "aws_polly": _CASES,
    "aws_transcribe": _REFUSED_ELSEWHERE,
    "azure_speech": _CASES,
    "google_cloud": _CASES,
    "minimax": _REFUSED_ELSEWHERE,
    "hume": _CASES,
    "piper": _CASES,
    "sim": _CASES,
}
"""By wire dialect."""


class Vendor(Protocol):
    """The interface of a fake vendor for the suite. Its chat echoes the last user message."""

    app: ASGIApp | None
    """To be hosted at the type's default address; None for an engine in this process."""
    ledger: list[Entry]
    """One entry per request seen; stays empty for an engine in this process."""
    options: dict[str, object]

    def pace(self, gap_s: float) -> None:
        """Wait so long before each piece of an answer."""

    def fail(self, case: ErrorCase) -> None: ...

    def leak(self, status: int, secret: str) -> None:
        """Fail with a message that quotes `secret`."""

    def refuse(self, how: str) -> None: ...

    def hear(self, text: str) -> None:
        """Set the transcript of the next recording (the engine in this process decodes it)."""

    def call(self, name: str, arguments: str) -> None:
        """Call this tool when it is offered."""


@attrs.define
class OpenAIVendor:
    prefix: str
    fake: FakeOpenAI = attrs.field(init=False)
    options: dict[str, object] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.fake = FakeOpenAI(
            prefix=self.prefix, api_key=KEY, reply=lambda request: chat_messages.messages(request)[-1].text,
            speech_pcm=lambda request: b"".join(fsk.encode(request.text, 24_000)),
        )

    @property
    def app(self) -> ASGIApp:
        return self.fake

    @property
    def ledger(self) -> list[Entry]:
        return self.fake.ledger

    def pace(self, gap_s: float) -> None:
        self.fake.first_token_after_s = self.fake.token_gap_s = self.fake.speech_gap_s = gap_s

    def fail(self, case: ErrorCase) -> None:
        self.fake.status, self.fake.error_code = case.status, case.code
        self.fake.headers = [("retry-after", case.retry_after)] if case.retry_after else []

    def leak(self, status: int, secret: str) -> None:
        self.fake.status = status
        self.fake.error_body = openai_chat.error_body(
            type=secret, code=secret, message=f"bad key {secret}, header 'Bearer {secret}'", param=None, request_id=""
        )

    def refuse(self, how: str) -> None:
        self.fake.refuse = how  # type: ignore[assignment]  # one of its words

    def hear(self, text: str) -> None:
        self.fake.transcript = text

    def call(self, name: str, arguments: str) -> None:
        self.fake.tool_call = (name, arguments)


def _said_last(request: ChatRequest) -> str:
    """Return the last user message; "" for the placeholder of a codec."""
    text = chat_messages.messages(request)[-1].text
    return "" if text == "(start)" else text


@attrs.define
class ScriptedHttpVendor:
    """A vendor of chat alone."""

    make: Callable[..., ScriptedVendor]
    fake: ScriptedVendor = attrs.field(init=False)
    options: dict[str, object] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.fake = self.make(api_key=KEY, reply=_said_last)

    @property
    def app(self) -> ASGIApp:
        return self.fake

    @property
    def ledger(self) -> list[Entry]:
        return self.fake.ledger

    def pace(self, gap_s: float) -> None:
        self.fake.first_token_after_s = self.fake.token_gap_s = gap_s

    def fail(self, case: ErrorCase) -> None:
        self.fake.status = case.status
        self.fake.headers = [("retry-after", case.retry_after)] if case.retry_after else []
        if case.code != "scripted":   # what the vendor says beside the status
            fault = {"type": "t", "message": case.code, "details": {"error_code": case.code}}
            self.fake.error_body = msgspec.json.encode({"type": "error", "error": fault})

    def leak(self, status: int, secret: str) -> None:
        self.fake.status = status
        fault = {"type": secret, "message": f"bad key {secret}, header 'Bearer {secret}'"}
        self.fake.error_body = msgspec.json.encode({"type": "error", "error": fault})

    def refuse(self, how: str) -> None:
        self.fake.refuse = how  # type: ignore[assignment]  # one of its words

    def hear(self, text: str) -> None:
        """Do nothing: this vendor has no transcription."""

    def call(self, name: str, arguments: str) -> None:
        self.fake.tool_call = (name, arguments)


@attrs.define
class VoiceVendor(ScriptedHttpVendor):
    """A vendor of speech and transcription."""

    def __attrs_post_init__(self) -> None:
        self.fake = self.make(api_key=KEY, speech_pcm=bytes(range(240)) * 6, piece_s=0.01)

    def pace(self, gap_s: float) -> None:
        super().pace(gap_s)
        self.fake.speech_gap_s = gap_s  # type: ignore[attr-defined]  # of a LiveVendor

    def fail(self, case: ErrorCase) -> None:
        self.fake.status, self.fake.error_code = case.status, case.code
        self.fake.headers = [("retry-after", case.retry_after)] if case.retry_after else []

    def hear(self, text: str) -> None:
        self.fake.transcript = text  # type: ignore[attr-defined]


@attrs.define
class SentenceVendor(VoiceVendor):
    """A vendor whose live speech is made of complete texts, and says them in the tone voice."""

    def __attrs_post_init__(self) -> None:
        self.fake = self.make(api_key=KEY, piece_s=0.01)


@attrs.define
class GoogleCloudVendor(SentenceVendor):
    """Has a project, which pays."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.options["project"] = "acme"


@attrs.define
class PresetVendor(OpenAIVendor):
    """A vendor that is a file, with its own conventions."""

    type: str = ""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        made = self.fake
        self.fake = FakeVariant(
            prefix=made.prefix, api_key=KEY, reply=made.reply, speech_pcm=made.speech_pcm, openai_errors=True,
            conventions=CONVENTIONS.get(self.type, Conventions()), transcript="",
        )


@attrs.define
class GeminiVendor(PresetVendor):
    """Has speech of its own, beside the address in OpenAI's dialect."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        made = self.fake
        prefix = made.prefix.removesuffix("/openai")
        self.fake = FakeGemini(
            prefix=prefix, api_key=KEY, reply=made.reply, speech_pcm=made.speech_pcm, openai_errors=True, transcript=""
        )


@attrs.define
class XaiVendor(PresetVendor):
    """Has speech and transcription of its own, beside chat in OpenAI's dialect."""

    speech: FakeXai = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.speech = FakeXai(
            api_key=KEY, speech_pcm=bytes(range(240)) * 6, piece_s=0.01, openai_errors=True, transcript="", ledger=self.fake.ledger
        )

    @property
    def app(self) -> ASGIApp:
        async def by_path(scope: Any, receive: Any, send: Any) -> None:
            of_speech = scope.get("path", "").startswith(("/v1/stt", "/v1/tts"))
            await (self.speech if of_speech else self.fake)(scope, receive, send)

        return by_path

    def pace(self, gap_s: float) -> None:
        super().pace(gap_s)
        self.speech.first_token_after_s = self.speech.speech_gap_s = gap_s

    def fail(self, case: ErrorCase) -> None:
        super().fail(case)
        self.speech.status, self.speech.error_code, self.speech.headers = self.fake.status, self.fake.error_code, self.fake.headers

    def leak(self, status: int, secret: str) -> None:
        super().leak(status, secret)
        self.speech.status, self.speech.error_body = self.fake.status, self.fake.error_body

    def hear(self, text: str) -> None:
        self.speech.transcript = text


@attrs.define
class WhisperVendor(OpenAIVendor):
    """Has the socket of OpenAI's beta."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.fake = FakeSpeaches(prefix=self.prefix, api_key=KEY, speech_pcm=self.fake.speech_pcm)


@attrs.define
class PiperVendor(ScriptedHttpVendor):
    """Speaks the tone voice, in pieces of 10 ms."""

    def __attrs_post_init__(self) -> None:
        self.fake = FakePiper(piece_s=0.01, content_type="audio/wav")   # faults are chosen by what is text

    def pace(self, gap_s: float) -> None:
        super().pace(gap_s)
        self.fake.speech_gap_s = gap_s  # type: ignore[attr-defined]  # of Piper's fake

    def fail(self, case: ErrorCase) -> None:
        self.fake.status = case.status
        self.fake.headers = [("retry-after", case.retry_after)] if case.retry_after else []


@attrs.define
class SimVendor:
    app: ASGIApp | None = None
    ledger: list[Entry] = attrs.field(factory=list)
    options: dict[str, object] = attrs.field(factory=dict)

    def pace(self, gap_s: float) -> None:
        self.options |= {"latency_ms": gap_s * 1000, "token_ms": gap_s * 1000}

    def fail(self, case: ErrorCase) -> None:
        self.options |= {"fail_rate": 1, "fail_with": case.status}
        if case.retry_after:
            self.options["retry_after_s"] = float(case.retry_after)

    def leak(self, status: int, secret: str) -> None:
        self.options |= {"fail_rate": 1, "fail_with": status}

    def refuse(self, how: str) -> None:
        self.options["refuse"] = True

    def hear(self, text: str) -> None:
        """Do nothing: the engine decodes the recording."""

    def call(self, name: str, arguments: str) -> None:
        """`scripted` calls the first tool it is offered."""


@attrs.frozen(kw_only=True)
class Entrant:
    """One type in the suite."""

    vendor: Callable[[], Vendor]
    models: Mapping[Modality | Literal["tools"], str] = attrs.field(
        factory=lambda: {"llm": "gpt-x", "tools": "gpt-x", "stt": "whisper-x", "tts": "tts-x"}
    )
    streams_transcripts: bool = True
    """Of recordings."""
    streams_speech: bool = True
    """Its speech over HTTP comes while it is made, and not in one piece."""
    hosts: tuple[str, ...] = ()
    """More host names of the vendor."""
    reports_audio: bool = True
    """The length of a recording, as it bills it."""
    survives: frozenset[str] = frozenset()
    """Faults after which it asks in another way."""
    refuses: bool = True
    """Its wire has a word for a refusal."""
    marks_end: bool = True
    """Its streams have a last message, so that one which stops before it is known to be cut; audio alone never has one."""
    creates_session: bytes = b""
    """Answer to the request that creates a live session; none where its socket is opened at once."""
    cleans_up: int = 0
    """Requests at the end that delete what a recording has left at the vendor; their failure does no harm."""
    socket_or_recordings: bool = False
    """A live transcription is made of recordings where the server has no socket."""


def address_of(provider_type: str) -> str:
    """Return the address of a type's fake."""
    spec = spec_of(provider_type)
    return spec.base_url or PROVIDER_TYPES[provider_type].address if spec.needs_address else "http://127.0.0.1"


VENDORS: Mapping[str, Entrant] = {
    "openai": Entrant(vendor=partial(OpenAIVendor, "/v1")),
    "groq": Entrant(vendor=partial(OpenAIVendor, "/openai/v1")),
    "anthropic": Entrant(vendor=partial(ScriptedHttpVendor, FakeAnthropic)),
    "ollama": Entrant(vendor=partial(ScriptedHttpVendor, FakeOllama), refuses=False),
    "deepgram": Entrant(
        vendor=partial(VoiceVendor, FakeDeepgram), models={"stt": "nova-3", "tts": "aura-2-thalia-en", "llm": ""},
        streams_transcripts=False,
    ),
    "cartesia": Entrant(
        vendor=partial(VoiceVendor, FakeCartesia),
        models={"stt": "ink-2", "tts": "sonic-3", "llm": ""},
        streams_transcripts=False,
        reports_audio=False,
    ),
    "elevenlabs": Entrant(
        vendor=partial(VoiceVendor, FakeElevenLabs),
        models={"stt": "scribe_v2", "tts": "eleven_flash_v2_5", "llm": ""},
        streams_transcripts=False,
    ),
    "assemblyai": Entrant(
        vendor=partial(VoiceVendor, FakeAssemblyAI),
        models={"stt": "universal-3-6-pro", "llm": "", "tts": ""},
        hosts=("streaming.assemblyai.com",),
        streams_transcripts=False,
    ),
    "soniox": Entrant(
        vendor=partial(VoiceVendor, FakeSoniox),
        models={"stt": "stt-rt-v5", "llm": "", "tts": ""},
        hosts=("stt-rt.soniox.com",),
        streams_transcripts=False,
        cleans_up=2,
    ),
    "speechmatics": Entrant(
        vendor=partial(VoiceVendor, FakeSpeechmatics),
        models={"stt": "enhanced", "llm": "", "tts": ""},
        hosts=("eu.rt.speechmatics.com",),
        streams_transcripts=False,
    ),
    "gladia": Entrant(
        vendor=partial(VoiceVendor, FakeGladia),
        models={"stt": "solaria-1", "llm": "", "tts": ""},
        creates_session=gladia_listen.encode_created("s1", "wss://api.gladia.io/v2/live?token=t"),
        streams_transcripts=False,
    ),
    "rime": Entrant(vendor=partial(SentenceVendor, FakeRime), models={"tts": "coda", "stt": "", "llm": ""}),
    "inworld": Entrant(
        vendor=partial(SentenceVendor, FakeInworld),
        models={"tts": "inworld-tts-1.5-max", "stt": "", "llm": ""},
        marks_end=False,
    ),
    "aws_polly": Entrant(vendor=partial(SentenceVendor, FakeAwsPolly), models={"tts": "neural", "stt": "", "llm": ""}),
    "aws_transcribe": Entrant(
        vendor=partial(VoiceVendor, FakeAwsTranscribe),
        models={"stt": "standard", "llm": "", "tts": ""},
    ),
    "google_cloud": Entrant(
        vendor=partial(GoogleCloudVendor, FakeGoogleCloud),
        models={"tts": "chirp3-hd", "stt": "chirp_2", "llm": ""},
        hosts=("speech.googleapis.com",),
        streams_transcripts=False,
        streams_speech=False,
    ),
    "azure_speech": Entrant(
        vendor=partial(SentenceVendor, FakeAzureSpeech),
        models={"stt": "standard", "tts": "neural", "llm": ""},
        hosts=("region.tts.speech.microsoft.com", "region.stt.speech.microsoft.com"),
        streams_transcripts=False,
    ),
    "minimax": Entrant(vendor=partial(SentenceVendor, FakeMiniMax), models={"tts": "speech-2.8-turbo", "stt": "", "llm": ""}),
    "hume": Entrant(vendor=partial(SentenceVendor, FakeHume), models={"tts": "octave-2", "stt": "", "llm": ""}),
    "whisper": Entrant(vendor=partial(WhisperVendor, "/v1"), socket_or_recordings=True),
    "kokoro": Entrant(vendor=partial(OpenAIVendor, "/v1")),
    "piper": Entrant(
        vendor=partial(PiperVendor, FakePiper),
        models={"tts": "piper", "stt": "", "llm": ""},
        survives=frozenset({"404"}),
    ),
    **{
        name: Entrant(vendor=partial(PresetVendor, Origin.parse(address_of(name)).prefix.decode(), type=name))
        for name in PRESETS
        if name not in ("gemini", "speaches", "xai")
    },
    "xai": Entrant(
        vendor=partial(XaiVendor, "/v1", type="xai"),
        models={"llm": "gpt-x", "tools": "gpt-x", "stt": "grok-voice-transcribe-2.0", "tts": "grok-tts"},
        streams_transcripts=False,
    ),
    "gemini": Entrant(
        vendor=partial(GeminiVendor, "/v1beta/openai", type="gemini"),
        models={"llm": "gpt-x", "tools": "gpt-x", "stt": "", "tts": "gemini-3.8-flash-tts"},
    ),
    "speaches": Entrant(vendor=partial(WhisperVendor, "/v1"), socket_or_recordings=True),
    "sim": Entrant(vendor=SimVendor, models={"llm": "echo", "tools": "scripted", "stt": "tone", "tts": "tone"}),
}


@attrs.frozen(kw_only=True)
class Rig:
    """A vendor of one type on a network in memory, and the way to it."""

    type: str
    vendor: Vendor
    net: FakeNet
    pool: Pool

    def account(self, model: Modality | Literal["tools"]) -> Account:
        return Account(
            provider_id=f"my-{self.type}",
            model=VENDORS[self.type].models[model],
            origin=Origin.parse(address_of(self.type)),
            api_key=Secret(KEY),
            pool=self.pool,
            options=self.vendor.options,
        )


def rig(provider_type: str, nursery: object) -> Rig:
    """The fake stands where the type's default address says: a wrong default does not reach it."""
    net = FakeNet(nursery)  # type: ignore[arg-type]
    vendor = VENDORS[provider_type].vendor()
    result = Rig(type=provider_type, vendor=vendor, net=net, pool=Pool(connect=net))
    if vendor.app is not None:
        origin = result.account("llm").origin
        for host in (origin.host, *VENDORS[provider_type].hosts):
            net.hosts[host, origin.port] = hosted(vendor.app)
    return result
