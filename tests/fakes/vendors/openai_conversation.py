"""A model of OpenAI's that hears and speaks itself (`gpt-realtime`): the server's side of a socket, which repeats what the tone voice says.

Events, their order and the figures of usage are those of openai-python 3.52.0, `types/realtime`; their form is that of our own
server, whose events the SDK's types decode (`tests/clients/test_fake_openai_conversation_sdk.py`).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import msgspec
import trio

from gw.providers.sim import fsk
from gw.wire.openai_realtime_conversation import RealtimeSession
from tests.fakes.vendors.scripted import Entry, Receive, Send

USAGE: Mapping[str, Any] = {
    "input_tokens": 2_000, "output_tokens": 150, "total_tokens": 2_150,
    "input_token_details": {
        "text_tokens": 900, "audio_tokens": 900, "image_tokens": 200, "cached_tokens": 1_000,
        "cached_tokens_details": {"text_tokens": 100, "audio_tokens": 800, "image_tokens": 100},
    },
    "output_token_details": {"text_tokens": 50, "audio_tokens": 100},
}  # fmt: skip
"""What every response uses."""
CANCELLED_USAGE = USAGE | {"output_tokens": 30, "total_tokens": 2_030, "output_token_details": {"text_tokens": 10, "audio_tokens": 20}}
_CHUNK = 4_800  # bytes of a delta: a tenth of a second
_UNKNOWN_MODEL = "The model of a session cannot be changed."


@attrs.define(kw_only=True)
class ConversationScript:
    """How the vendor behaves. A test may change it between two sessions."""

    refuses: str = ""
    """Code of an error in place of the greeting."""
    silent_after: int | None = None
    """Falls silent after so many of its own events."""
    cut_after: int | None = None
    """Breaks off after so many of its own events."""
    ends: Literal["completed", "failed", "filtered"] = "completed"
    thinks_s: float = 0.3
    """Before it answers what was said."""
    chunk_s: float = 0.02
    """Between two deltas."""
    ignores_cancel: bool = False
    abandons: bool = False
    """Gives up an answer that is interrupted without an event."""
    ping_s: float = 10.0
    """Between two signs of life, of a vendor that sends some."""
    reports_usage: bool = True


class Conversation:
    def __init__(self, entry: Entry, send: Send, model: str, script: ConversationScript) -> None:
        self._entry, self._send, self._script = entry, send, script
        self._model = model
        self._frames = RealtimeSession("fake", model)
        self._frames.settings["audio"]["input"]["transcription"] = None
        self._ear = fsk.ToneDecoder(24_000)
        self._sent = 0
        self._text = ""
        self._items: dict[str, dict[str, Any]] = {}
        self._item = ""  # id of what is being said
        self._responding: tuple[str, trio.CancelScope] | None = None
        self._cut = trio.Event()

    async def run(self, receive: Receive) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._break_off, nursery.cancel_scope)
            if self._script.refuses:
                await self._error(self._script.refuses, "scripted failure")
            else:
                await self._report(*self._opening())
            while (message := await receive())["type"] == "websocket.receive":
                frame = message.get("text") or ""
                self._entry.frames.append(frame)
                await self._handle(msgspec.json.decode(frame))
            self._entry.outcome = "ended"
            nursery.cancel_scope.cancel()

    def _opening(self) -> tuple[str, ...]:
        return (self._frames.about("session.created"),)

    async def _break_off(self, scope: trio.CancelScope) -> None:
        await self._cut.wait()
        self._entry.outcome = "cut"
        await self._send({"type": "websocket.close", "code": 1011})
        scope.cancel()

    async def _report(self, *frames: str) -> None:
        script = self._script
        for frame in frames:
            if script.silent_after is not None and self._sent >= script.silent_after:
                await trio.sleep_forever()
            if script.cut_after is not None and self._sent >= script.cut_after:
                self._cut.set()
                await trio.sleep_forever()
            self._sent += 1
            await self._send({"type": "websocket.send", "text": frame})

    async def _error(self, code: str, message: str, event_id: str | None = None) -> None:
        kind = "server_error" if code == "server_error" else "invalid_request_error"
        await self._report(self._frames.error(type=kind, code=code, message=message, event_id=event_id))

    async def _handle(self, event: dict[str, Any]) -> None:
        frames = self._frames
        match event["type"]:
            case "session.update":
                if event["session"].get("model") not in (None, self._model):
                    await self._error("invalid_value", _UNKNOWN_MODEL, event.get("event_id"))
                    return
                frames.settings = _merged(frames.settings, event["session"])
                await self._report(frames.about("session.updated"))
            case "input_audio_buffer.append":
                for heard in self._ear.feed(b64decode(event["audio"])):
                    await self._hear(heard)
            case "conversation.item.create":
                named = event["item"].get("id") or frames.new_id("item")
                item = event["item"] | {"id": named, "object": "realtime.item", "status": "completed"}
                self._text = next((part["text"] for part in item.get("content", ()) if part["type"] == "input_text"), self._text)
                self._items[named] = item
                await self._report(*frames.item_added(item, None))
            case "conversation.item.truncate" | "conversation.item.retrieve" | "conversation.item.delete" as kind:
                await self._change(kind.rpartition(".")[2], event)
            case "response.create":
                if self._responding is not None:
                    code = "conversation_already_has_active_response"
                    await self._error(code, "Conversation already has an active response", event.get("event_id"))
                    return
                self._nursery.start_soon(self._respond, event.get("response"))
            case "response.cancel":
                if self._responding is not None and not self._script.ignores_cancel:
                    self._responding[1].cancel()

    async def _change(self, kind: str, event: dict[str, Any]) -> None:
        id_ = event["item_id"]
        if id_ not in self._items:
            await self._error(f"item_{kind}_invalid_item_id", f"Error: the item with id '{id_}' does not exist.", event.get("event_id"))
            return
        members: dict[str, Any] = {"item_id": id_}
        if kind == "truncate":
            members |= {"content_index": event["content_index"], "audio_end_ms": event["audio_end_ms"]}
        elif kind == "retrieve":
            members = {"item": self._items[id_]}
        else:
            del self._items[id_]
        past = {"truncate": "truncated", "retrieve": "retrieved", "delete": "deleted"}[kind]
        await self._report(self._frames.frame(f"conversation.item.{past}", **members))

    async def _hear(self, heard: fsk.ToneEvent) -> None:
        frames = self._frames
        match heard:
            case fsk.Started(at_s=at_s):
                self._item = frames.new_id("item")
                if self._responding is not None:
                    self._responding[1].cancel()
                started = {"item_id": self._item, "audio_start_ms": round(at_s * 1000)}
                await self._report(frames.frame("input_audio_buffer.speech_started", **started))
            case fsk.Done(text=text, end_s=end_s):
                self._text, item = text, self._item
                await self._report(frames.frame("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=round(end_s * 1000)))
                await self._report(frames.frame("input_audio_buffer.committed", item_id=item, previous_item_id=None))
                self._items[item] = {
                    "id": item, "object": "realtime.item", "type": "message", "role": "user", "status": "completed",
                    "content": [{"type": "input_audio", "transcript": None}],
                }  # fmt: skip
                await self._report(*frames.item_added(self._items[item], None))
                if (transcription := frames.settings["audio"]["input"]["transcription"]) is not None:
                    await self._report(*self._transcribed(item, text, transcription))
                if (frames.settings["audio"]["input"]["turn_detection"] or {}).get("create_response", True):
                    self._nursery.start_soon(self._answer)

    def _transcribed(self, item: str, text: str, transcription: dict[str, Any]) -> tuple[str, ...]:
        usage = {
            "type": "tokens", "input_tokens": 40, "output_tokens": 8, "total_tokens": 48,
            "input_token_details": {"text_tokens": 0, "audio_tokens": 40},
        }  # fmt: skip
        if transcription["model"] == "whisper-1":
            usage = {"type": "duration", "seconds": 2.5}
        kind = "conversation.item.input_audio_transcription.completed"
        return (self._frames.frame(kind, item_id=item, content_index=0, transcript=text, usage=usage),)

    async def _answer(self) -> None:
        await trio.sleep(self._script.thinks_s)
        await self._respond(None)

    async def _respond(self, options: Any) -> None:
        frames, script = self._frames, self._script
        made_of = frames.response_settings(options)
        id_, item_id = frames.new_id("resp"), frames.new_id("item")
        item: dict[str, Any] = {
            "id": item_id, "object": "realtime.item", "type": "message", "role": "assistant", "status": "in_progress", "content": [],
        }  # fmt: skip
        self._items[item_id] = item
        at = {"response_id": id_, "item_id": item_id, "output_index": 0, "content_index": 0}
        with trio.CancelScope() as scope:
            self._responding = id_, scope
            await self._report(frames.frame("response.created", response=frames.response(id_, made_of, "in_progress", [], None)))
            await self._report(frames.frame("response.output_item.added", response_id=id_, output_index=0, item=item))
            await self._report(frames.frame("conversation.item.added", item=item, previous_item_id=None))
            part = {"type": "audio", "transcript": ""}
            await self._report(frames.frame("response.content_part.added", **at, part=part))
            pcm = b"".join(fsk.encode(self._text or "yes", 24_000))
            for start in range(0, len(pcm), _CHUNK):
                await trio.sleep(script.chunk_s)
                delta = b64encode(pcm[start : start + _CHUNK]).decode()
                await self._report(frames.frame("response.output_audio.delta", **at, delta=delta))
            await self._report(frames.frame("response.output_audio_transcript.delta", **at, delta=self._text))
            await self._report(frames.frame("response.output_audio.done", **at))
            await self._report(frames.frame("response.output_audio_transcript.done", **at, transcript=self._text))
            part = {"type": "audio", "transcript": self._text}
            await self._report(frames.frame("response.content_part.done", **at, part=part))
        if scope.cancelled_caught and script.abandons:
            self._responding = None
            return
        with trio.CancelScope(shield=True):
            status = "cancelled" if scope.cancelled_caught else "incomplete" if script.ends == "filtered" else script.ends
            item |= {"status": "completed" if status == "completed" else "incomplete"}
            item["content"] = [{"type": "output_audio", "transcript": self._text}]
            await self._report(frames.frame("response.output_item.done", response_id=id_, output_index=0, item=item))
            await self._report(frames.frame("conversation.item.done", item=item, previous_item_id=None))
            self._responding = None
            await self._report(self._done(frames.response(id_, made_of, status, [item], None, **_details(status))))

    def _done(self, response: dict[str, Any]) -> str:
        usage = CANCELLED_USAGE if response["status"] == "cancelled" else USAGE
        response["usage"] = usage if self._script.reports_usage else None
        return self._frames.frame("response.done", response=response)


def _details(status: str) -> dict[str, Any]:
    match status:
        case "cancelled":
            return {"reason": "client_cancelled"}
        case "incomplete":
            return {"reason": "content_filter"}
        case "failed":
            return {"error": {"type": "server_error", "code": "overloaded"}}
    return {}


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        before = merged.get(name)
        merged[name] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


