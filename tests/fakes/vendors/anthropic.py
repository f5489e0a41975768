"""A vendor that speaks the Messages API: a plain ASGI app made from the server role of our own codec.

Serves POST /v1/messages, POST /v1/messages/count_tokens and GET /v1/models. Its key comes as `x-api-key`, or as Bearer from newer SDKs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import msgspec
import trio

from gw.types.llm import ChatEnd, ChatEvent, StreamError, UsageReport
from gw.wire import anthropic_messages_answer, anthropic_messages_request, sse
from gw.wire.anthropic_messages_answer import error_body
from tests.fakes.vendors.scripted import Answer, Entry, ScriptedVendor, json_of


@attrs.define(kw_only=True)
class FakeAnthropic(ScriptedVendor):
    models: tuple[str, ...] = ("claude-haiku-4-5", "claude-sonnet-5-5")
    versions: tuple[str, ...] = ("2023-06-01", "2026-10-21")
    """Another `anthropic-version` is answered 400."""

    def routes(self) -> Mapping[tuple[str, str], Callable[[Entry, bytes, Answer], Awaitable[None]]]:
        return {
            ("POST", "/v1/messages"): self._messages,
            ("POST", "/v1/messages/count_tokens"): self._count_tokens,
            ("GET", "/v1/models"): self._models,
        }

    def key_in(self, headers: dict[str, str]) -> str:
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def error_response(self, status: int, code: str, message: str) -> bytes:
        return error_body(status=status, message=message, request_id=f"req_{len(self.ledger)}")

    def stream_error_event(self, code: str) -> bytes:
        return anthropic_messages_answer.MessagesEncoder(id="", model="").encode(
            [StreamError(code=code, message="scripted failure")]
        )

    async def _models(self, entry: Entry, body: bytes, answer: Answer) -> None:
        result = {"type": "model", "display_name": "Claude", "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
        data = [{"id": name, **result} for name in self.models]
        listed = {"data": data, "has_more": False, "first_id": self.models[0], "last_id": self.models[-1]}
        await answer.send_complete(msgspec.json.encode(listed), "application/json")

    async def _count_tokens(self, entry: Entry, body: bytes, answer: Answer) -> None:
        """anthropic-python 2.12.0, `types/message_tokens_count.py`. Takes what a request for a message takes, without its limits."""
        if entry.headers.get("anthropic-version") not in self.versions:
            await answer.error(400, "", "anthropic-version: a valid version is required")
            return
        entry.fields = json_of(body)
        words = sum(len(str(message["content"]).split()) for message in entry.fields["messages"])
        await answer.send_complete(msgspec.json.encode({"input_tokens": words}), "application/json")

    async def _messages(self, entry: Entry, body: bytes, answer: Answer) -> None:
        if entry.headers.get("anthropic-version") not in self.versions:
            await answer.error(400, "", "anthropic-version: a valid version is required")
            return
        request = anthropic_messages_request.parse_request(body)
        entry.fields = json_of(body)
        pieces = self.pieces_for(request)
        events = self.chat_events(request, pieces)
        entry.usage = self.used(request, len(events) - 1)
        encoder = anthropic_messages_answer.MessagesEncoder(
            id=f"msg_{len(self.ledger)}", model=request.model, thinking=request.wants_thinking
        )
        if not request.stream:
            await trio.sleep(self.first_token_after_s + self.token_gap_s * len(pieces))
            complete = encoder.answer([*events, UsageReport(usage=entry.usage)])
            await answer.send_complete(b'{"id":' if self.malformed else complete, "application/json")
            return
        await answer.start("text/event-stream; charset=utf-8")
        await trio.sleep(self.first_token_after_s)
        if self.malformed:
            await answer.end(b'event: content_block_delta\ndata: {"type":\n\n')
            return
        await answer.send(sse.encode(b'{"type": "ping"}', "ping"))
        await answer.paced(events, self.token_gap_s, lambda event: encoder.encode([event]))
        last: list[ChatEvent] = [UsageReport(usage=entry.usage), ChatEnd()]
        end = encoder.encode(last)
        await answer.end(end[: end.index(b"event: message_stop")] if self.omit_done else end)
