"""The language models: events of one reply, token by token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gw.providers.sim import script
from gw.providers.sim.call import SimCall, start_call
from gw.providers.sim.embed import embed
from gw.providers.sim.moderate import moderate
from gw.providers.spec import Account, ChatStream, rejected
from gw.types.llm import ChatEnd, ChatEvent, ChatRequest, Delta, UsageReport
from gw.types.usage import Usage
from gw.wire.openai_embeddings import EMBEDDINGS, MODERATIONS


class _Answer:
    """A `ChatStream`."""

    def __init__(self, pieces: Iterator[list[ChatEvent]], call: SimCall) -> None:
        self._pieces = pieces
        self._call = call

    async def receive(self) -> list[ChatEvent]:
        await self._call.step()
        if (piece := next(self._pieces, None)) is None:
            raise self._call.past_the_end()
        return piece


def chat(request: ChatRequest, account: Account) -> AbstractAsyncContextManager[ChatStream]:
    """Answer a conversation, or a request for embeddings or a moderation."""
    if request.dialect == MODERATIONS:
        return moderate(request, account)
    return embed(request, account) if request.dialect == EMBEDDINGS else _converse(request, account)


@asynccontextmanager
async def _converse(request: ChatRequest, account: Account) -> AsyncIterator[ChatStream]:
    """Answer from OpenAI's `messages`, `tools` and `tool_choice`; one event per token, streamed or not."""
    call = await start_call(account, "llm")
    try:
        messages = script.read_messages(request)
        if account.model == "echo":
            reply: script.Reply = script.echo(messages)
        else:
            reply = script.scripted(messages, request.fields, call.options.script)
    except ValueError as error:
        raise rejected(account, str(error), fault="caller") from None
    if call.options.refuse:
        reply = script.Refusal("I cannot help with that.")
    input_tokens = sum(script.count_tokens(message.text) for message in messages)
    yield _Answer(_pieces(reply, input_tokens, request.max_output_tokens, call.number), call)


def _pieces(reply: script.Reply, input_tokens: int, limit: int | None, number: int) -> Iterator[list[ChatEvent]]:
    finish = "stop"
    output_tokens = 0
    if isinstance(reply, script.ToolReply):
        finish = "tool_calls"
        output_tokens = script.count_tokens(reply.name) + script.count_tokens(reply.arguments)
        for tool_piece in script.tool_pieces(reply, f"call_sim_{number:08d}"):
            yield [Delta(tool_calls=(tool_piece,))]
    elif isinstance(reply, script.Refusal):
        output_tokens = script.count_tokens(reply.text)
        yield [Delta(refusal=reply.text)]
    else:
        for token in script.tokens(reply.text):
            size = script.count_tokens(token)
            if limit is not None and output_tokens + size > limit:
                finish = "length"
                break
            output_tokens += size
            yield [Delta(text=token)]
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, source="vendor")
    yield [Delta(finish_reason=finish), UsageReport(usage=usage), ChatEnd()]
