"""xAI's voice models (`grok-voice-…`): OpenAI's events with the differences that clients of the vendor know.

Sources: pipecat-ai 1.14.0 `services/xai/realtime/events.py` (members of the events, `ping`), livekit-plugins-xai 1.8.9 (`voice` and
`turn_detection` at the top of a session; interim transcripts in `input_audio_transcription.updated`, whole each time; an answer that is
interrupted may end without an event), litellm 1.110.2 `llms/xai/realtime` (`usage: {}`; what is billed), pydantic-ai 2.68.0
`realtime/xai.py` (`billable_audio_seconds` is a running total of seconds begun), BerriAI/litellm-docs#362 (`session.created` comes first).
The members of `response.done` are those of a session captured on 2026-08-04. The vendor's clients read it in
`tests/clients/test_fake_xai_voice_plugins.py`.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec
import trio

from tests.fakes.vendors.openai_conversation import Conversation
from tests.fakes.vendors.scripted import Receive

TOKENS: Mapping[str, Any] = {
    "input_tokens": 10, "input_token_details": {"text_tokens": 10, "audio_tokens": 0, "grok_tokens": 0},
    "output_tokens": 277, "output_token_details": {"text_tokens": 19, "audio_tokens": 258, "grok_tokens": 0},
    "total_tokens": 287,
}  # fmt: skip
"""What every response uses."""
_BYTES_PER_S = 48_000


class XaiConversation(Conversation):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._began = trio.current_time()
        self._heard_s = self._spoken_s = 0.0
        self._detects = True
        self.settings: dict[str, Any] = {"voice": "ara", "turn_detection": {"type": "server_vad"}}
        """Those at the top of the session."""

    def billed_s(self) -> int:
        """Return the total: by the clock, or by audio where no turns are detected."""
        elapsed_s = trio.current_time() - self._began if self._detects else self._heard_s + self._spoken_s
        return math.ceil(round(elapsed_s, 6))

    def _opening(self) -> tuple[str, ...]:
        conversation = {"id": "conv_1", "object": "realtime.conversation"}
        return (*super()._opening(), self._frames.frame("conversation.created", conversation=conversation))

    async def run(self, receive: Receive) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ping)
            await super().run(receive)
            nursery.cancel_scope.cancel()

    async def _ping(self) -> None:
        while True:
            await trio.sleep(self._script.ping_s)
            await self._send({"type": "websocket.send", "text": self._frames.frame("ping", timestamp=1_790_000_000_000)})

    async def _handle(self, event: dict[str, Any]) -> None:
        if event["type"] == "session.update":
            session = event["session"]
            audio = session.get("audio") or {}
            assert "voice" not in (audio.get("output") or {}), "the vendor does not look there"
            assert "turn_detection" not in (audio.get("input") or {}), "the vendor does not look there"
            self.settings |= {name: session[name] for name in ("voice", "turn_detection") if name in session}
            turns = self.settings["turn_detection"]
            self._detects = turns is not None and turns.get("type") is not None
            self._frames.settings["audio"]["input"]["turn_detection"] = turns or {"create_response": False}
        elif event["type"] == "input_audio_buffer.append":
            self._heard_s += len(b64decode(event["audio"])) / _BYTES_PER_S
        elif event["type"] == "input_audio_buffer.commit":
            self._nursery.start_soon(self._answer)
        await super()._handle(event)

    async def _report(self, *frames: str) -> None:
        for frame in frames:
            event = msgspec.json.decode(frame)
            if event["type"] == "response.output_audio.delta":
                self._spoken_s += len(b64decode(event["delta"])) / _BYTES_PER_S
            elif event["type"] in ("session.created", "session.updated"):
                event["session"] |= self.settings
            elif event["type"] == "response.created":
                event["response"]["usage"] = {}
            await super()._report(msgspec.json.encode(event).decode())

    async def _respond(self, options: Any) -> None:
        """Answer in speech, whatever `modalities` the client asks for: the vendor takes the member and ignores it (pydantic-ai)."""
        await super()._respond({name: value for name, value in (options or {}).items() if name != "modalities"} or None)

    def _transcribed(self, item: str, text: str, transcription: dict[str, Any]) -> tuple[str, ...]:
        kind = "conversation.item.input_audio_transcription"
        first, _, _ = text.partition(" ")
        updates = [self._frames.frame(f"{kind}.updated", item_id=item, content_index=0, transcript=part) for part in (first, text)]
        return (*updates, self._frames.frame(f"{kind}.completed", item_id=item, content_index=0, transcript=text))

    def _done(self, response: dict[str, Any]) -> str:
        usage = {**TOKENS, "output_audio_seconds": round(self._spoken_s, 3), "billable_audio_seconds": self.billed_s()}
        response |= {"usage": {}, "status_details": "unimplemented"}
        members: dict[str, Any] = {"usage": usage} if self._script.reports_usage else {}
        return self._frames.frame("response.done", response=response, response_id=response["id"], **members)
