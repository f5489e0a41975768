"""An Ollama server: a plain ASGI app made from the server role of our own codec.

Serves POST /api/chat, GET /api/tags and GET /api/version. It asks for no key, unless one is set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec
import trio

from gw.types.llm import ChatEnd, ChatEvent, UsageReport
from gw.wire import ollama_chat
from tests.fakes.vendors.scripted import Answer, Entry, ScriptedVendor, json_of

CREATED_AT = "2026-11-20T10:00:00.123456789Z"


@attrs.define(kw_only=True)
class FakeOllama(ScriptedVendor):
    models: tuple[str, ...] = ("llama3.2:3b",)

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/api/chat"): self._chat,
            ("GET", "/api/tags"): self._tags,
            ("GET", "/api/version"): self._version,
        }

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return ollama_chat.error_body(message)

    def stream_error_event(self, code: str) -> bytes:
        return ollama_chat.error_body(f"{code}: scripted failure") + b"\n"

    async def _version(self, entry: Entry, body: bytes, answer: Answer) -> None:
        await answer.send_complete(b'{"version":"0.13.1"}', "application/json")

    async def _tags(self, entry: Entry, body: bytes, answer: Answer) -> None:
        facts = {"modified_at": CREATED_AT, "size": 1, "digest": "d", "details": {"family": "llama"}}
        models = [{"name": name, "model": name, **facts} for name in self.models]
        await answer.send_complete(msgspec.json.encode({"models": models}), "application/json")

    async def _chat(self, entry: Entry, body: bytes, answer: Answer) -> None:
        request = ollama_chat.parse_request(body)
        entry.fields = json_of(body)
        pieces = self.pieces_for(request)
        events = self.chat_events(request, pieces)
        entry.usage = self.used(request, len(events) - 1)
        encoder = ollama_chat.OllamaEncoder(model=request.model, created_at=CREATED_AT)
        if not request.stream:
            await trio.sleep(self.first_token_after_s + self.token_gap_s * len(pieces))
            complete = encoder.answer([*events, UsageReport(usage=entry.usage)])
            await answer.send_complete(b'{"message":' if self.malformed else complete, "application/json; charset=utf-8")
            return
        await answer.start("application/x-ndjson")
        await trio.sleep(self.first_token_after_s)
        if self.malformed:
            await answer.end(b'{"message":\n')
            return
        await answer.paced(events, self.token_gap_s, lambda event: encoder.encode([event]))
        last: list[ChatEvent] = [UsageReport(usage=entry.usage), *([] if self.omit_done else [ChatEnd()])]
        await answer.end(encoder.encode(last))
