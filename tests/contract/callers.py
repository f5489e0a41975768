"""Every endpoint of the data plane that asks a provider, as the raw request of a caller, and every socket with its first frames.

`ENDPOINTS` of `endpoints.py` also knows how answers are read; this list is for tests of what all have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import msgspec

from gw.types.ids import Modality
from gw.wire import multipart
from tests.contract import readers, talkers
from tests.contract.endpoints import BOUNDARY, ENDPOINTS, TEXT, chat_body, recording
from tests.contract.talkers import Frame, as_json, speech

JSON = "application/json"


@attrs.frozen(kw_only=True)
class Caller:
    """`request` returns target, body and content type for a model. `streams`: content goes out before the answer's end."""

    name: str
    modality: Modality
    request: Callable[[str], tuple[str, bytes, str]]
    streams: bool = False


def _json(path: str, **members: Any) -> Callable[[str], tuple[str, bytes, str]]:
    """MODEL stands for the model, in the path and in members."""

    def request(model: str) -> tuple[str, bytes, str]:
        own = {name: model if value == "MODEL" else value for name, value in members.items()}
        return path.replace("MODEL", model), msgspec.json.encode(own), JSON

    return request


def _form(path: str, **fields: str) -> Callable[[str], tuple[str, bytes, str]]:
    def request(model: str) -> tuple[str, bytes, str]:
        own = [(name, model if value == "MODEL" else value) for name, value in fields.items()]
        head, tail = multipart.encode_form(own, file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY)
        return path, head + recording() + tail, "multipart/form-data; boundary=" + BOUNDARY.decode()

    return request


_RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
_CARTESIA = {"model_id": "MODEL", "transcript": TEXT, "voice": {"mode": "id", "id": "alloy"}, "output_format": _RAW}
_ELEVEN = "/v1/text-to-speech/alloy"


def _speech(name: str, path: str, **members: Any) -> Caller:
    return Caller(name=name, modality="tts", request=_json(path, **members), streams="whole" not in name)


def _heard(name: str, request: Callable[[str], tuple[str, bytes, str]]) -> Caller:
    return Caller(name=name, modality="stt", request=request)


def _chat(name: str, path: str, *, stream: bool = False) -> Caller:
    return Caller(
        name=name, modality="llm", request=lambda model: (path, *chat_body(model, stream=stream)), streams=stream
    )


CALLERS = (
    *(
        Caller(
            name=endpoint.name, modality=endpoint.modality, streams=endpoint.streams,
            request=partial(lambda endpoint, model: (endpoint.path, *endpoint.body(model)), endpoint),
        )
        for endpoint in ENDPOINTS
    ),
    Caller(name="embeddings", modality="llm", request=_json("/v1/embeddings", model="MODEL", input=TEXT)),
    Caller(name="moderations", modality="llm", request=_json("/v1/moderations", model="MODEL", input=TEXT)),
    Caller(name="ollama generate", modality="llm", request=_json("/ollama/api/generate", model="MODEL", prompt=TEXT, stream=False)),
    Caller(
        name="ollama generate stream", modality="llm", streams=True,
        request=_json("/ollama/api/generate", model="MODEL", prompt=TEXT, stream=True),
    ),
    Caller(name="ollama embed", modality="llm", request=_json("/ollama/api/embed", model="MODEL", input=TEXT)),
    _chat("ollama compatible", "/ollama/v1/chat/completions"),
    _chat("ollama compatible stream", "/ollama/v1/chat/completions", stream=True),
    _chat("groq", "/openai/v1/chat/completions"),
    _chat("groq stream", "/openai/v1/chat/completions", stream=True),
    _speech("deepgram speak", "/v1/speak?encoding=linear16&sample_rate=24000&container=none&model=MODEL", text=TEXT),
    _speech("deepgram speak v2", "/v2/speak?encoding=linear16&sample_rate=24000&container=none&model=MODEL", text=TEXT),
    _speech("cartesia bytes", "/tts/bytes", **_CARTESIA),
    _speech("cartesia sse", "/tts/sse", **_CARTESIA),
    _speech("elevenlabs tts", _ELEVEN + "?output_format=pcm_24000", text=TEXT, model_id="MODEL"),
    _speech("elevenlabs tts stream", _ELEVEN + "/stream?output_format=pcm_24000", text=TEXT, model_id="MODEL"),
    _speech("elevenlabs timed, whole", _ELEVEN + "/with-timestamps?output_format=pcm_24000", text=TEXT, model_id="MODEL"),
    _speech("elevenlabs timed", _ELEVEN + "/stream/with-timestamps?output_format=pcm_24000", text=TEXT, model_id="MODEL"),
    _heard("deepgram listen", lambda model: (f"/v1/listen?model={model}", recording(), "audio/wav")),
    _heard("cartesia stt", _form("/stt", model="MODEL")),
    _heard("elevenlabs stt", _form("/v1/speech-to-text", model_id="MODEL")),
)  # fmt: skip
"""AssemblyAI's recordings are left out: its requests are answered at once, and the job goes on without its caller."""


@attrs.frozen(kw_only=True)
class SocketCaller:
    """A socket: `begin` is sent first, `say` has the provider work, `end` completes it."""

    name: str
    modality: Modality
    path: Callable[[str], str]
    begin: Callable[[str], Sequence[Frame]]
    say: Callable[[str], Sequence[Frame]]
    end: Callable[[str], Sequence[Frame]]


def _talker(talker: talkers.Talker) -> SocketCaller:
    return SocketCaller(
        name=talker.name, modality="stt", path=talker.path, begin=talker.begin, end=lambda model: talker.finish,
        say=lambda model: talker.frames(speech(["a", "b", "c"], talker.format.sample_rate_hz)),
    )  # fmt: skip


def _reader(reader: readers.Reader) -> SocketCaller:
    def named(frames: Sequence[Frame], model: str) -> list[Frame]:
        return [frame.replace("MODEL", model) if isinstance(frame, str) else frame for frame in frames]

    return SocketCaller(
        name=reader.name + " speech", modality="tts", path=reader.path, begin=lambda model: named(reader.begin(model), model),
        say=lambda model: named(reader.say(TEXT + ". "), model), end=lambda model: named(reader.end, model),
    )  # fmt: skip


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


CONVERSATION = SocketCaller(
    name="openai conversation", modality="llm", path=lambda model: f"/v1/realtime?model={model}",
    begin=lambda model: [as_json(type="session.update", session={"type": "realtime", "output_modalities": ["text"]})],
    say=lambda model: [as_json(type="conversation.item.create", item=_message(TEXT)), as_json(type="response.create")],
    end=lambda model: [],
)  # fmt: skip
SOCKETS: tuple[SocketCaller, ...] = (
    *map(_talker, talkers.TALKERS), *map(_reader, readers.READERS), CONVERSATION,
)  # fmt: skip
