"""Calls of voice frameworks as the gateway sees them: which requests, in which order, on which connections, with which words.

From the frameworks' own code:

=================  ===============================  =================================  =============================================
Setup              Speech recognition               Language model                     Voice
=================  ===============================  =================================  =============================================
LiveKit, Python    socket of Deepgram's for the     HTTP client of the LLM object;     socket of Cartesia's for the session, a
(1.8.9)            session (deepgram/stt.py)        asked at each final transcript,    context for each answer (cartesia/tts.py,
                                                    and again when more words come     utils/connection_pool.py)
                                                    (`preemptive_generation`)
LiveKit, Node      socket of Deepgram's             `fetch` of the job's process,      a POST for each sentence (openai/tts.js,
(1.9.0)                                             which the voice has, too           agents/tts/stream_adapter.js)
Pipecat (1.14)     socket of Deepgram's             client of the service              socket of ElevenLabs' for the session, a
                                                    (openai/base_llm.py)               context for each answer (elevenlabs/tts.py)
Vocode (0.1.113)   socket of Deepgram's             client of the agent                a POST for each sentence, from the one client
                                                    (chat_gpt_agent.py)                of all calls (utils/async_requester.py)
LiveKit over HTTP  a POST for each stretch of       as above                           a POST for each sentence, client of the TTS
                   speech, client of the STT                                           object (openai/tts.py, tts/stream_adapter.py)
                   object (stt/stream_adapter.py)
Pipecat over HTTP  the same                         as above                           the same (openai/tts.py)
                   (`SegmentedSTTService`)
=================  ===============================  =================================  =============================================

All send the conversation so far with each question. The voice gets each sentence as soon as it is written, and one after the other.
None sends a session or turn id without being asked to. With ids, each request has both; a socket has the session's.
"""

from __future__ import annotations

import math
import random
import re
from array import array
from contextlib import AsyncExitStack
from typing import Any, Literal, get_args

import attrs
import msgspec
import trio

from gw.net.http1 import Pool
from gw.net.ws import WebSocket, open_ws
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.llm import ChatRequest
from gw.types.stt import Final, ListenEvent, SpeechStarted, TranscribeRequest, UtteranceEnd
from gw.types.tts import SpeakRequest
from gw.wire import multipart, wav
from tests.contract.talkers import as_json
from tests.fakes.hosting import GATEWAY, Plane, hosted
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

Framework = Literal["livekit-python", "livekit-node", "pipecat", "vocode", "livekit-http", "pipecat-http"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
TURNS = 6
REPEATED = 1 / 3
"""Share of the phrases that many say."""
GREETING = "Hello and welcome to the clinic! How can I help you today?"
COMMON = ["yes", "no", "yes please", "thank you very much", "can you repeat that please", "hello", "what are your opening hours"]
WRITTEN_GREETING = "Good day! What can I do for you?"
ANSWERS = ["Sure, one moment please.", "Could you say that again?", "Okay.", "We are open from nine to five. Anything else?"]
WORDS = ["apple", "table", "seven", "river", "doctor", "monday", "green", "window", "paper", "music", "garden", "bottle", "yellow"]
PROMPT = {"role": "system", "content": "You are the receptionist of a clinic."}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
_ELEVEN_VOICE, _CARTESIA_VOICE = "21m00Tcm4TlvDq8ikWAM", "71a7ad14-091c-4e8e-a314-022ece01c121"
_BOUNDARY = b"part-of-a-call"
_LOUD = array("h", [9_000, -9_000] * 200_000).tobytes()
_FRAME = _LOUD[:640]  # 20 ms
_SENTENCE = re.compile(r"[^.!?]+[.!?]?\s*")


@attrs.define
class Slot:
    """One of the places at which calls run side by side, with models of its own: they tell whose request a record is of.

    Turns are found without a look at models.
    """

    number: int
    said: list[str] = attrs.field(factory=list)
    """Stretches of speech that the recognisers are to hear next."""
    answer: str = ""
    turns: list[tuple[float, int, int]] = attrs.field(factory=list)
    """(time of its beginning, call, turn), ascending."""

    def model(self, name: str) -> str:
        return f"{name}-{self.number}"


def slot_of(model: str) -> int:
    return int(model.rpartition("-")[2])


class Listener:
    """Hears in each loud frame what the slot says next."""

    def __init__(self, slot: Slot, fmt: AudioFormat) -> None:
        self._slot, self._format = slot, fmt
        self._seconds = 0.0

    def feed(self, data: bytes) -> list[ListenEvent]:
        begin_s = self._seconds
        self._seconds += self._format.seconds(len(data))
        if not any(data[:2]):
            return []
        final = Final(text=self._slot.said.pop(0), start_s=begin_s, end_s=self._seconds)
        return [SpeechStarted(at_s=begin_s), final, UtteranceEnd(at_s=self._seconds)]


@attrs.define(kw_only=True)
class Recogniser(FakeDeepgram):
    calls: list[Slot]

    def listener(self, fmt: AudioFormat, query: bytes = b"") -> Any:
        [model] = re.findall(r"(?:^|&)model=([^&]*)", query.decode())
        return Listener(self.calls[slot_of(model)], fmt)


def loud(text: str, fmt: AudioFormat) -> bytes:
    """Return sound as long as it takes to say the text."""
    return _LOUD[: 4 * int(len(text) * 0.03 * (fmt.sample_rate_hz or 24_000))]


@attrs.define(kw_only=True)
class SocketVoice(FakeCartesia):
    def timed_voice(self, text: str, fmt: AudioFormat) -> Any:
        return [(loud(text, fmt), [])]


@attrs.define(kw_only=True)
class ContextVoice(FakeElevenLabs):
    def timed_voice(self, text: str, fmt: AudioFormat) -> Any:
        return [(loud(text, fmt), [])]

    def recorded(self, text: str, fmt: AudioFormat) -> Any:
        return iter([loud(text, fmt)])


@attrs.define(kw_only=True)
class Writer(FakeOpenAI):
    calls: list[Slot]

    def pieces_for(self, request: ChatRequest) -> list[str]:
        return _SENTENCE.findall(self.calls[slot_of(request.model)].answer)


MODELS = {
    "stt": ("dg/nova-3", "oa/gpt-4o-transcribe"),
    "llm": ("oa/gpt-5",),
    "tts": ("ca/sonic-3", "el/eleven_flash_v2_5", "oa/gpt-4o-mini-tts"),
}


def config(slots: int) -> str:
    hosts = {"dg": "deepgram", "ca": "cartesia", "el": "elevenlabs", "oa": "openai"}
    providers = {
        id_: {"type": kind, "api_key": "k", "base_url": f"http://{id_}.test" + ("/v1" if id_ == "oa" else "")}
        for id_, kind in hosts.items()
    }
    models = {kind: [f"{name}-{slot}" for name in names for slot in range(slots)] for kind, names in MODELS.items()}
    chains = dict.fromkeys(MODELS, ())
    return as_json(providers=providers, models=models, fallbacks=chains)


def host_vendors(plane: Plane, slots: list[Slot]) -> None:
    def heard(request: TranscribeRequest) -> str:
        return slots[slot_of(request.model)].said.pop(0)

    def spoken(request: SpeakRequest) -> bytes:
        return loud(request.text, request.format)

    writer = Writer(
        calls=slots, tool_call=("look_up", "{}"), transcript=heard, speech_pcm=spoken, first_token_after_s=0.3, token_gap_s=0.2,
        speech_chunk_bytes=1_000_000,
    )  # fmt: skip
    vendors = {"dg": Recogniser(calls=slots), "ca": SocketVoice(), "el": ContextVoice(), "oa": writer}
    for name, vendor in vendors.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(vendor)


class Interrupted(Exception):
    """The caller speaks while the agent does."""


@attrs.define
class Call:
    plane: Plane
    slot: Slot
    number: int
    framework: Framework
    dice: random.Random
    with_ids: bool
    of_process: Pool
    """The HTTP client of all calls of a process."""
    thinking: Pool = attrs.field(init=False)
    hearing: Pool | None = None
    speaking: Pool | None = None
    ear: WebSocket | None = None
    voice: WebSocket | None = None
    history: list[dict[str, Any]] = attrs.field(factory=lambda: [PROMPT])
    turn: int = -1
    answers: int = 0

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            await self._connect(stack)
            await trio.sleep(self.dice.random())
            await self._greet()
            for _ in range(TURNS):
                await trio.sleep(self.dice.uniform(2, 6))
                self.turn += 1
                self._begin()
                await self._take_turn()

    # ---------------------------------------------------------------- a turn

    async def _greet(self) -> None:
        """Say a text that stands in the app, or one that the language model writes, or nothing."""
        how = self.dice.choice(["", "said", "written"])
        self._begin()
        if how == "said":
            send, receive = trio.open_memory_channel[str](10)
            for text in _SENTENCE.findall(GREETING):
                send.send_nowait(text)
            send.close()
            await self._speak(receive)
        elif how == "written":
            self.slot.answer = WRITTEN_GREETING
            await self._answer(self.history)
            self.history.append({"role": "assistant", "content": WRITTEN_GREETING})

    def _begin(self) -> None:
        self.slot.turns.append((trio.current_time(), self.number, self.turn))

    async def _take_turn(self) -> None:
        dice, heard = self.dice, ""
        parts = [self._phrase(COMMON) for _ in range(1 if dice.random() < 0.8 else 2)]
        self.slot.answer = self._phrase(ANSWERS)
        for number, part in enumerate(parts):
            heard = f"{heard} {await self._hear(part)}".strip()
            if number + 1 < len(parts):
                early = self.framework.startswith("livekit")
                with trio.move_on_after(0.5):
                    if early:
                        await self._answer([*self.history, {"role": "user", "content": heard}], aloud=False)
                    await trio.sleep_forever()
        if not self.framework.startswith("livekit"):
            await trio.sleep(dice.uniform(0.3, 0.8))
        if dice.random() < 0.03:
            return  # ignored, like a word said while the agent speaks
        self.history.append({"role": "user", "content": heard})
        if dice.random() < 0.1:
            await self._answer(self.history, tools=[TOOL])
            call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
            self.history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            self.history.append({"role": "tool", "tool_call_id": "call_1", "content": "nothing"})
        with trio.move_on_after(0.9 if dice.random() < 0.1 else math.inf):  # interrupted
            await self._answer(self.history)
        self.history.append({"role": "assistant", "content": self.slot.answer})

    def _phrase(self, common: list[str]) -> str:
        if self.dice.random() < REPEATED:
            return self.dice.choice(common)
        return " ".join(self.dice.choices(WORDS, k=self.dice.randint(4, 9)))

    async def _answer(self, messages: list[dict[str, Any]], *, aloud: bool = True, **more: Any) -> None:
        """Have an answer written, and each sentence of it spoken as soon as it is there."""
        send, receive = trio.open_memory_channel[str](10)
        body = as_json(model=self.slot.model("oa/gpt-5"), messages=messages, stream=True, stream_options={"include_usage": True}, **more)
        async with trio.open_nursery() as nursery:
            if aloud:
                nursery.start_soon(self._speak, receive)
            async with send, self._post(self.thinking, "/v1/chat/completions", body.encode()) as response:
                assert response.status == 200, await response.receive_some()
                rest = b""
                while data := await response.receive_some():
                    *events, rest = (rest + data).split(b"\n\n")
                    for event in events:
                        if text := _content(event):
                            await send.send(text)

    # ---------------------------------------------------------------- stages

    async def _connect(self, stack: AsyncExitStack) -> None:
        def client() -> Pool:
            pool = Pool(connect=self.plane.client.connect)
            stack.push_async_callback(pool.aclose)
            return pool

        self.thinking = client()
        query = f"gw_session=call-{self.number}" if self.with_ids else ""
        if self.framework.endswith("http"):
            self.hearing, self.speaking = client(), client()
            return
        model = self.slot.model("dg/nova-3")
        path = f"/v1/listen?model={model}&encoding=linear16&sample_rate=16000&interim_results=true&{query}"
        self.ear = await stack.enter_async_context(self._socket(path))
        match self.framework:
            case "livekit-python":
                self.voice = await stack.enter_async_context(self._socket(f"/tts/websocket?cartesia_version=2025-04-16&{query}"))
            case "pipecat":
                model = self.slot.model("el/eleven_flash_v2_5")
                path = f"/v1/text-to-speech/{_ELEVEN_VOICE}/multi-stream-input?model_id={model}&output_format=pcm_8000&{query}"
                self.voice = await stack.enter_async_context(self._socket(path))
            case "livekit-node":
                self.speaking = self.thinking
            case _:
                self.speaking = self.of_process

    def _socket(self, path: str) -> Any:
        return open_ws("client", GATEWAY, path.rstrip("&").encode(), connect=self.plane.client.connect)

    def _post(self, client: Pool, path: str, body: bytes, content_type: str = "application/json") -> Any:
        headers = [(b"content-type", content_type.encode())]
        if self.with_ids:
            headers += [(b"x-gw-session", b"call-%d" % self.number), (b"x-gw-turn", b"%d-%d" % (self.number, self.turn))]
        return client.open("client", b"POST", GATEWAY, path.encode(), headers, body)

    async def _hear(self, text: str) -> str:
        """Return what is understood of a stretch of speech."""
        self.slot.said.append(text)
        if self.ear is None:
            assert self.hearing is not None
            fields = [("model", self.slot.model("oa/gpt-4o-transcribe")), ("response_format", "json")]
            head, tail = multipart.encode_form(fields, file_name="file.wav", file_content_type="audio/wav", boundary=_BOUNDARY)
            body, form = head + RECORDING + tail, "multipart/form-data; boundary=" + _BOUNDARY.decode()
            async with self._post(self.hearing, "/v1/audio/transcriptions", body, form) as response:
                return msgspec.json.decode(await _all(response))["text"]
        await self.ear.send(_FRAME)
        while True:
            frame = msgspec.json.decode(await self.ear.receive())
            if frame["type"] == "Results" and frame["is_final"]:
                return frame["channel"]["alternatives"][0]["transcript"]

    async def _speak(self, texts: trio.MemoryReceiveChannel[str]) -> None:
        if self.voice is None:
            async for text in texts:
                await self._speak_over_http(text.strip())
        else:
            await self._speak_into_socket(texts)

    async def _speak_over_http(self, text: str) -> None:
        assert self.speaking is not None
        if self.framework == "vocode":
            path = f"/v1/text-to-speech/{_ELEVEN_VOICE}/stream?output_format=pcm_8000"
            body = {"text": text, "model_id": self.slot.model("el/eleven_flash_v2_5")}
        else:
            path = "/v1/audio/speech"
            body = {"input": text, "model": self.slot.model("oa/gpt-4o-mini-tts"), "voice": "alloy", "response_format": "pcm"}
        async with self._post(self.speaking, path, msgspec.json.encode(body)) as response:
            await _all(response)

    async def _speak_into_socket(self, texts: trio.MemoryReceiveChannel[str]) -> None:
        voice, begun = self.voice, False
        assert voice is not None
        self.answers += 1
        context = f"answer-{self.answers}"
        try:
            async for text in texts:
                for frame in self._frames(context, text.strip(), begun):
                    await voice.send(frame)
                begun = True
            if begun:
                for frame in self._frames(context, "", begun):
                    await voice.send(frame)
                await self._wait_spoken(voice, context)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                cancel = {"cancel": True} if self.framework == "livekit-python" else {"close_context": True}
                if begun:
                    await voice.send(as_json(context_id=context, **cancel))
            raise

    def _frames(self, context: str, text: str, begun: bool) -> list[str]:
        """Return what is sent for a sentence, or after the last one ("")."""
        if self.framework == "livekit-python":
            output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 8_000}
            voice = {"mode": "id", "id": _CARTESIA_VOICE}
            packet = {"model_id": self.slot.model("ca/sonic-3"), "voice": voice, "output_format": output, "language": "en"}
            return [as_json(**packet, context_id=context, transcript=text + " ", **{"continue": bool(text)})]
        if not text:
            return [as_json(context_id=context, flush=True), as_json(context_id=context, close_context=True)]
        first = [] if begun else [as_json(text=" ", context_id=context, voice_settings={"speed": 1.0})]
        return [*first, as_json(text=text + " ", context_id=context)]

    async def _wait_spoken(self, voice: WebSocket, context: str) -> None:
        while True:
            frame = msgspec.json.decode(await voice.receive())
            if (frame.get("context_id") or frame.get("contextId")) == context and (frame.get("done") or frame.get("isFinal")):
                return


RECORDING = wav.header(PCM_16K, len(_FRAME)) + _FRAME


def _content(event: bytes) -> str:
    data = event.removeprefix(b"data: ")
    if not data.startswith(b"{"):
        return ""
    choices = msgspec.json.decode(data)["choices"]
    return choices[0]["delta"].get("content") or "" if choices else ""


async def _all(response: Any) -> bytes:
    pieces = []
    while data := await response.receive_some():
        pieces.append(data)
    body = b"".join(pieces)
    assert response.status == 200, body
    return body
