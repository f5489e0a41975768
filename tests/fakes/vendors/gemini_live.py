"""One of Gemini's Live models: the server's side of a `BidiGenerateContent` socket, which repeats what the tone voice or a text says.

Sources, November 2026: google-genai 3.6.1, `live.py`, `_live_converters.py` and `types.py` (messages, members, which of them Vertex AI
alone has, the order of `interrupted`, `generationComplete` and `turnComplete`); pydantic-ai 2.68.0, `realtime/google.py` (closes 1007 for a
setting, `proactivity` outside `v1alpha` among them, and 1008 for an unknown model; `usageMetadata` comes with `turnComplete`, none with a
tool call; `voiceActivity` before `interrupted`); js-genai (`Blob`: the vendor's frames are binary); `types.py` again (`ActivityStart` only
without automatic detection, `ActivityHandling`), and googleapis/python-genai#1720 (it closes 1007 for such a message otherwise);
livekit/agents#5251 (`gemini-3.1` closes 1007 for a `clientContent` that is not the history with which the session begins). The SDK reads it
in `tests/clients/test_fake_gemini_live_sdk.py`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
import trio

from gw.providers.sim import fsk
from tests.fakes.vendors.scripted import Entry, Receive, Send

MODELS = ("gemini-3.8-live", "gemini-3.1-flash-live-preview", "gemini-2.5-flash-native-audio-latest")
USAGE: Mapping[str, Any] = {
    "promptTokenCount": 2_000, "cachedContentTokenCount": 500, "responseTokenCount": 150, "toolUsePromptTokenCount": 60,
    "thoughtsTokenCount": 40, "totalTokenCount": 2_250,
    "promptTokensDetails": [
        {"modality": "TEXT", "tokenCount": 900}, {"modality": "AUDIO", "tokenCount": 840}, {"modality": "VIDEO", "tokenCount": 260},
    ],
    "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 300}, {"modality": "AUDIO", "tokenCount": 200}],
    "responseTokensDetails": [{"modality": "TEXT", "tokenCount": 30}, {"modality": "AUDIO", "tokenCount": 120}],
    "toolUsePromptTokensDetails": [{"modality": "TEXT", "tokenCount": 60}],
}  # fmt: skip
"""The usage of every turn."""
INTERRUPTED_USAGE = {
    name: value for name, value in USAGE.items() if name != "thoughtsTokenCount"
} | {"responseTokenCount": 20, "totalTokenCount": 2_080, "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 20}]}  # fmt: skip
_SETUP = frozenset({
    "model", "generationConfig", "systemInstruction", "tools", "sessionResumption", "contextWindowCompression",
    "inputAudioTranscription", "outputAudioTranscription", "realtimeInputConfig", "proactivity", "historyConfig", "avatarConfig",
    "safetySettings", "labels",
})  # fmt: skip
"""Members of a setup of the Gemini API; Vertex AI alone has `explicitVadSignal`."""
_CHUNK = 4_800  # bytes of a part: a tenth of a second
_INVALID = "Request contains an invalid argument."
_MESSAGES = ("clientContent", "realtimeInput", "toolResponse", "contextUpdate")


@attrs.define(kw_only=True)
class LiveScript:
    """How the vendor behaves. A test may change it between two sessions."""

    refuses: tuple[int, str] | None = None
    """Code and reason of a close in place of `setupComplete`."""
    silent_after: int | None = None
    """Falls silent after so many of its own frames."""
    close_after: tuple[int, int, str] | None = None
    """Closes after so many of its own frames, with this code and reason."""
    goes_away_after: int | None = None
    """Says `goAway` after so many turns, and closes normally."""
    ends: str = ""
    """`turnCompleteReason` of each turn."""
    thinks_s: float = 0.3
    chunk_s: float = 0.02
    """Between two parts."""
    plays_s: float = 0.0
    """Between `generationComplete` and `turnComplete`."""
    reports_usage: bool = True
    usage_alone: bool = False
    """The usage comes in a frame of its own, before `turnComplete`."""
    searches: tuple[str, ...] = ()
    """Queries of a search that grounds each answer."""
    ignores_interruption: bool = False
    reports_activity: bool = True
    """Says when speech begins and ends (`voiceActivity`), and when its transcript is complete; models differ."""


class LiveConversation:
    def __init__(self, entry: Entry, send: Send, version: str, script: LiveScript) -> None:
        self._entry, self._send, self._version, self._script = entry, send, version, script
        self._setup: dict[str, Any] = {}
        self._ear = fsk.ToneDecoder(16_000)
        self._sent = self._turns = self._calls = 0
        self._text = ""
        self._responding: trio.CancelScope | None = None
        self._awaited: dict[str, trio.Event] = {}
        """Function calls that the client has not answered."""
        self._detects = self._may_interrupt = True
        """Whether it notices by itself that the user speaks, and whether it falls silent then."""
        self._in_activity = False
        """Whether the client says that the user speaks."""
        self._in_history = False
        """Whether the client still sends the history with which the session begins."""
        self._closing: tuple[int, str] | None = None
        self._closed = trio.Event()

    async def run(self, receive: Receive) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._close, nursery.cancel_scope)
            if await self._open(receive):
                while (message := await receive())["type"] == "websocket.receive":
                    await self._handle(self._read(message))
                self._entry.outcome = "ended"
            nursery.cancel_scope.cancel()

    async def _close(self, scope: trio.CancelScope) -> None:
        await self._closed.wait()
        assert self._closing is not None
        code, reason = self._closing
        self._entry.outcome = "cut"
        await self._send({"type": "websocket.close", "code": code, "reason": reason})
        scope.cancel()

    async def _end(self, code: int, reason: str) -> None:
        """Close the session, and do nothing more."""
        self._closing = code, reason
        self._closed.set()
        await trio.sleep_forever()

    async def _report(self, **members: Any) -> None:
        script = self._script
        if script.silent_after is not None and self._sent >= script.silent_after:
            await trio.sleep_forever()
        if script.close_after is not None and self._sent >= script.close_after[0]:
            await self._end(*script.close_after[1:])
        self._sent += 1
        await self._send({"type": "websocket.send", "bytes": msgspec.json.encode(members)})

    def _read(self, message: dict[str, Any]) -> dict[str, Any]:
        frame = message.get("text") or message.get("bytes") or b""
        self._entry.frames.append(frame)
        decoded: dict[str, Any] = _camel(msgspec.json.decode(frame))
        return decoded

    # ---- what the client sends

    async def _open(self, receive: Receive) -> bool:
        """Read the settings; return False if the client leaves before."""
        message = await receive()
        if message["type"] != "websocket.receive":
            return False
        setup = self._read(message).get("setup")
        if setup is None:
            await self._end(1007, "The first message must be setup.")
        self._setup = self._entry.fields = setup
        self._in_history = bool(setup.get("historyConfig", {}).get("initialHistoryInClientContent"))
        config = setup.get("realtimeInputConfig", {})
        self._detects = not config.get("automaticActivityDetection", {}).get("disabled")
        self._may_interrupt = config.get("activityHandling") != "NO_INTERRUPTION"
        unknown = sorted(setup.keys() - _SETUP) or ["proactivity" for _ in setup if "proactivity" in setup and self._version != "v1alpha"]
        if unknown:
            await self._end(1007, f"Invalid JSON payload received. Unknown name \"{unknown[0]}\" at 'setup': Cannot find field.")
        if self._script.refuses is not None:
            await self._end(*self._script.refuses)
        if setup["model"].removeprefix("models/") not in MODELS or not setup["model"].startswith("models/"):
            what = "is not found for API version v1beta, or is not supported for bidiGenerateContent."
            await self._end(1008, f"{setup['model']} {what}")
        await self._report(setupComplete={"sessionId": "fake-session"})
        return True

    async def _handle(self, message: dict[str, Any]) -> None:
        if not any(name in message for name in _MESSAGES):
            await self._end(1007, _INVALID)
        if (content := message.get("clientContent")) is not None:
            if "gemini-3.1" in self._setup["model"] and not self._in_history:
                await self._end(1007, _INVALID)
            self._interrupt()
            texts = [part.get("text", "") for turn in content.get("turns") or () for part in turn.get("parts") or ()]
            self._text = " ".join(texts) or self._text
            if content.get("turnComplete") and not self._in_history:
                self._nursery.start_soon(self._respond)
            self._in_history = self._in_history and not content.get("turnComplete")
        elif (realtime := message.get("realtimeInput")) is not None:
            await self._take(realtime)
        elif (answers := message.get("toolResponse")) is not None:
            for answer in answers.get("functionResponses") or ():
                if answer.get("id") not in self._awaited:
                    await self._end(1007, _INVALID)
                result = answer.get("response", {})
                self._text = str(result.get("result", result.get("output", self._text)))
                self._awaited.pop(answer["id"]).set()

    async def _take(self, realtime: dict[str, Any]) -> None:
        if self._detects and realtime.keys() & {"activityStart", "activityEnd"}:
            await self._end(1007, _INVALID)
        if "activityStart" in realtime:
            self._in_activity = True
            if self._may_interrupt:
                self._interrupt()
        blobs = [realtime["audio"]] if "audio" in realtime else realtime.get("mediaChunks") or ()
        for blob in blobs:
            await self._hear(b64decode(blob["data"], altchars=b"-_" if "-" in blob["data"] or "_" in blob["data"] else None))
        if realtime.get("audioStreamEnd") or "activityEnd" in realtime:
            await self._hear(bytes(32_000))  # silence, which ends what is said
        if "text" in realtime:
            self._text = realtime["text"].strip() or self._text
        if "activityEnd" in realtime or ("text" in realtime and not self._in_activity):
            self._in_activity = False
            self._nursery.start_soon(self._respond)

    async def _hear(self, pcm: bytes) -> None:
        for heard in self._ear.feed(pcm):
            match heard:
                case fsk.Started(at_s=at_s) if self._detects:
                    if self._script.reports_activity:
                        await self._report(voiceActivity={"type": "ACTIVITY_START", "audioOffset": f"{at_s:.3f}s"})
                    if self._may_interrupt:
                        self._interrupt()
                case fsk.Done(text=text, end_s=end_s):
                    self._text = text
                    if self._script.reports_activity and self._detects:
                        await self._report(voiceActivity={"type": "ACTIVITY_END", "audioOffset": f"{end_s:.3f}s"})
                    if "inputAudioTranscription" in self._setup:
                        finished = {"finished": True} if self._script.reports_activity else {}
                        await self._report(serverContent={"inputTranscription": {"text": text, **finished}})
                    if self._detects:
                        self._nursery.start_soon(self._answer)

    def _interrupt(self) -> None:
        if self._responding is not None and not self._script.ignores_interruption:
            self._responding.cancel()

    # ---- what the model says

    async def _answer(self) -> None:
        await trio.sleep(self._script.thinks_s)
        await self._respond()

    async def _respond(self) -> None:
        script = self._script
        with trio.CancelScope() as scope:
            self._responding = scope
            await self._call_functions()
            await self._speak()
            await self._report(serverContent={"generationComplete": True})
            await trio.sleep(script.plays_s)
        self._responding = None
        if scope.cancelled_caught:
            if self._awaited:
                await self._report(toolCallCancellation={"ids": list(self._awaited)})
                self._awaited.clear()
            await self._report(serverContent={"interrupted": True})
        await self._complete(INTERRUPTED_USAGE if scope.cancelled_caught else USAGE)

    async def _call_functions(self) -> None:
        declared = [each for tool in self._setup.get("tools") or () for each in tool.get("functionDeclarations") or ()]
        if not declared:
            return
        self._calls += 1
        id_ = f"call-{self._calls}"
        self._awaited[id_] = answered = trio.Event()
        await self._report(toolCall={"functionCalls": [{"id": id_, "name": declared[0]["name"], "args": {"text": self._text}}]})
        await answered.wait()

    async def _speak(self) -> None:
        script, text = self._script, self._text or "yes"
        modalities = self._setup.get("generationConfig", {}).get("responseModalities") or ["AUDIO"]
        await self._content({"text": "thinking of it", "thought": True})
        if modalities == ["TEXT"]:
            for word in text.split():
                await trio.sleep(script.chunk_s)
                await self._content({"text": f"{word} "})
        else:
            pcm = b"".join(fsk.encode(text, 24_000))
            for start in range(0, len(pcm), _CHUNK):
                await trio.sleep(script.chunk_s)
                data = b64encode(pcm[start : start + _CHUNK]).decode()
                await self._content({"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}})
            if "outputAudioTranscription" in self._setup:
                await self._report(serverContent={"outputTranscription": {"text": text}})
        if script.searches:
            for _ in range(2):  # it may be repeated
                await self._report(serverContent={"groundingMetadata": {"webSearchQueries": list(script.searches)}})

    async def _content(self, part: dict[str, Any]) -> None:
        await self._report(serverContent={"modelTurn": {"role": "model", "parts": [part]}})

    async def _complete(self, usage: Mapping[str, Any]) -> None:
        script = self._script
        ended: dict[str, Any] = {"turnComplete": True}
        if script.ends:
            ended["turnCompleteReason"] = script.ends
        if script.usage_alone:
            await self._report(usageMetadata=usage)
        if script.reports_usage and not script.usage_alone:
            await self._report(serverContent=ended, usageMetadata=usage)
        else:
            await self._report(serverContent=ended)
        self._turns += 1
        if "sessionResumption" in self._setup:
            await self._report(sessionResumptionUpdate={"newHandle": f"handle-{self._turns}", "resumable": True})
        if script.goes_away_after is not None and self._turns >= script.goes_away_after:
            await self._report(goAway={"timeLeft": "0.500s"})
            await trio.sleep(0.5)
            await self._end(1000, "")


def _camel(value: Any) -> Any:
    """Return JSON of a protocol buffer with its names in camel case, whichever of the two forms a client has written."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {_camel_name(name): _camel(item) for name, item in value.items()}


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
