"""Embeddings of the demo engine: each word adds one to a place of the vector, so texts that share words are near each other."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from zlib import crc32

import msgspec

from gw.providers.sim import script
from gw.providers.sim.call import SimCall, start_call
from gw.providers.spec import Account, ChatStream, rejected
from gw.types.llm import ChatEvent, ChatRequest, Completion
from gw.types.usage import Usage
from gw.wire.openai_embeddings import encode_embeddings, inputs_of

DIMENSIONS = 256
MOST_DIMENSIONS = 4_096
_WORD = re.compile(r"\w+")


class DocumentAnswer:
    """A `ChatStream` of one event."""

    def __init__(self, completion: Completion, call: SimCall) -> None:
        self._completion: Completion | None = completion
        self._call = call

    async def receive(self) -> list[ChatEvent]:
        await self._call.step()
        if (completion := self._completion) is None:
            raise self._call.past_the_end()
        self._completion = None
        return [completion]


@asynccontextmanager
async def embed(request: ChatRequest, account: Account) -> AsyncIterator[ChatStream]:
    """Answer with one vector of length 1 per input. `dimensions` and `encoding_format` are honoured."""
    call = await start_call(account, "llm")
    dimensions = _member(request, "dimensions", DIMENSIONS)
    form = _member(request, "encoding_format", "float")
    if type(dimensions) is not int or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise rejected(account, f"dimensions must be a whole number from 1 to {MOST_DIMENSIONS}", fault="caller")
    if form not in ("float", "base64"):
        raise rejected(account, "encoding_format must be float or base64", fault="caller")
    texts = [_text(item) for item in inputs_of(request.fields)]
    tokens = sum(script.count_tokens(text) for text in texts)
    vectors = [_vector(text, dimensions) for text in texts]
    body = encode_embeddings(vectors, account.model, tokens, as_base64=form == "base64")
    yield DocumentAnswer(Completion(text="", usage=Usage(input_tokens=tokens, source="vendor"), raw=body), call)


def _member(request: ChatRequest, name: str, default: object) -> object:
    raw = request.fields.get(name)
    value: object = default if raw is None else msgspec.json.decode(raw)
    return default if value is None else value


def _text(item: object) -> str:
    """Return an input as words; a token is a word of its own."""
    return " ".join(map(str, item)) if isinstance(item, list) else str(item)


def _vector(text: str, dimensions: int) -> list[float]:
    places = [0.0] * dimensions
    for word in _WORD.findall(text.lower()) or [text]:
        places[crc32(word.encode("utf-8", "surrogatepass")) % dimensions] += 1.0
    length = math.sqrt(sum(place * place for place in places))
    return [place / length for place in places]
