"""The events of one response of OpenAI's realtime conversation: a message in parts and deltas, and function calls.

Source: openai-python 3.52.0, `types/realtime` (November 2026). A response has one message at most, which has one part; calls follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gw.types.usage import Usage
from gw.wire.openai_realtime_conversation import RealtimeSession, ResponseSettings
from gw.wire.openai_realtime_items import assistant_item, call_item
from gw.wire.openai_realtime_settings import Members

Keep = Callable[[Members], str | None]
"""Adds an item to the conversation, and returns the id of the one before it."""


class ResponseOutput:
    """Makes the frames of a response, in the order of the calls, and keeps its items. `keep` is called for items of the conversation."""

    def __init__(self, realtime: RealtimeSession, made_of: ResponseSettings, keep: Keep) -> None:
        self.id = realtime.new_id("resp")
        self.made_of = made_of
        self.item = assistant_item(realtime.new_id("item"), "", audio=made_of.has_audio, status="in_progress")
        """The message, from `begin_message` on a part of the conversation."""
        self.text = ""
        self.has_begun = False
        """Whether the message has."""
        self._realtime = realtime
        self._keep = keep
        self._previous: str | None = None
        self._items: list[Members] = []

    def about(self, kind: str, status: str, usage: Usage | None = None, **details: Any) -> str:
        """Return the event `response.created` or `response.done`."""
        return self._realtime.frame(kind, response=self._realtime.response(self.id, self.made_of, status, self._items, usage, **details))

    # ---- the message

    @property
    def _place(self) -> Members:
        return {"response_id": self.id, "item_id": self.item["id"], "output_index": 0, "content_index": 0}

    def _part(self, text: str) -> Members:
        return {"type": "audio", "transcript": text} if self.made_of.has_audio else {"type": "text", "text": text}

    def begin_message(self) -> list[str]:
        """Announce the message; it belongs to the conversation from now on, without words until it has ended."""
        if self.has_begun:
            return []
        self.has_begun = True
        frame, item = self._realtime.frame, self.item | {"content": []}
        if self.made_of.in_conversation:
            self._previous = self._keep(self.item)
        frames = [frame("response.output_item.added", response_id=self.id, output_index=0, item=item)]
        if self.made_of.in_conversation:
            frames.append(frame("conversation.item.added", item=item, previous_item_id=self._previous))
        return [*frames, frame("response.content_part.added", **self._place, part=self._part(""))]

    def text_delta(self, text: str) -> str:
        self.text += text
        kind = "response.output_audio_transcript.delta" if self.made_of.has_audio else "response.output_text.delta"
        return self._realtime.frame(kind, **self._place, delta=text)

    def audio_delta(self, data: str) -> str:
        """Return the event of audio in base64."""
        return self._realtime.frame("response.output_audio.delta", **self._place, delta=data)

    def end_message(self, status: str, kept: str) -> list[str]:
        """End the message. What was generated is in its parts; the item keeps `kept`, which the listener has heard, or will."""
        frame, item = self._realtime.frame, self.item
        item["status"] = status
        item["content"][0]["transcript" if self.made_of.has_audio else "text"] = kept
        self._items.append(item)
        if self.made_of.has_audio:
            frames = [
                frame("response.output_audio.done", **self._place),
                frame("response.output_audio_transcript.done", **self._place, transcript=self.text),
            ]
        else:
            frames = [frame("response.output_text.done", **self._place, text=self.text)]
        frames.append(frame("response.content_part.done", **self._place, part=self._part(self.text)))
        frames.append(frame("response.output_item.done", response_id=self.id, output_index=0, item=item))
        if self.made_of.in_conversation:
            frames.append(frame("conversation.item.done", item=item, previous_item_id=self._previous))
        return frames

    # ---- function calls

    def call(self, call_id: str, name: str, arguments: str) -> list[str]:
        """Return the events of a call whose arguments are complete."""
        frame, in_conversation = self._realtime.frame, self.made_of.in_conversation
        at: Members = {"response_id": self.id, "output_index": len(self._items)}
        item = call_item(self._realtime.new_id("item"), call_id, name, arguments)
        begun = item | {"status": "in_progress", "arguments": ""}
        self._items.append(item)
        call: Members = {**at, "item_id": item["id"], "call_id": call_id}
        before = self._keep(item) if in_conversation else None
        frames = [frame("response.output_item.added", **at, item=begun)]
        if in_conversation:
            frames.append(frame("conversation.item.added", item=begun, previous_item_id=before))
        frames += [
            frame("response.function_call_arguments.delta", **call, delta=arguments),
            frame("response.function_call_arguments.done", **call, name=name, arguments=arguments),
            frame("response.output_item.done", **at, item=item),
        ]
        if in_conversation:
            frames.append(frame("conversation.item.done", item=item, previous_item_id=before))
        return frames
