"""The language models: events of one reply, token by token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from gw.providers.sim import script
from gw.providers.sim.call import SimCall, begin, rejected
from gw.providers.spec import Account, ChatStream
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Delta, UsageReport
from gw.types.usage import Usage
from gw.wire.chat_messages import ChatMessage


class _Answer:
    def __init__(self, pieces: Iterator[list[ChatEvent]], call: SimCall) -> None:
        self._pieces = pieces
        self._call = call

    async def receive(self) -> list[ChatEvent]:
        await self._call.step()
        piece = next(self._pieces, None)
        if piece is None:
            raise self._call.past_the_end()
        return piece


@asynccontextmanager
async def chat(request: ChatRequest, account: Account) -> AsyncIterator[ChatStream]:
    """Answers from OpenAI's `messages`, `tools` and `tool_choice`; one event per token, streamed or not."""
    call = await begin(account, "llm")
    try:
        messages = script.read_messages(request)
        reply = _reply(account.model, messages, request, call)
    except ValueError as error:
        raise rejected(account, str(error), fault="caller") from None
    heard = sum(script.count_tokens(message.text) for message in messages)
    yield _Answer(_pieces(reply, heard, request.max_output_tokens, call.number), call)


def _reply(model: str, messages: list[ChatMessage], request: ChatRequest, call: SimCall) -> script.Reply:
    if model == "echo":
        return script.echo(messages)
    return script.scripted(messages, request.fields, call.knobs.script)


def _pieces(reply: script.Reply, heard: int, limit: int | None, number: int) -> Iterator[list[ChatEvent]]:
    finish = "stop"
    said = 0
    if isinstance(reply, script.ToolReply):
        finish = "tool_calls"
        said = script.count_tokens(reply.name) + script.count_tokens(reply.arguments)
        for tool_piece in script.tool_pieces(reply, f"call_sim_{number:08d}"):
            yield [Delta(tool_calls=(tool_piece,))]
    else:
        for token in script.tokens(reply.text):
            size = script.count_tokens(token)
            if limit is not None and said + size > limit:
                finish = "length"
                break
            said += size
            yield [Delta(text=token)]
    usage = Usage(input_tokens=heard, output_tokens=said, source="vendor")
    yield [Delta(finish_reason=finish), UsageReport(usage=usage), ChatEnd()]
