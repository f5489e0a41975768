"""Moderations of the demo engine: a text is flagged for the categories whose names, or words of them, it has."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gw.providers.sim import script
from gw.providers.sim.call import start_call
from gw.providers.sim.embed import DocumentAnswer
from gw.providers.spec import Account, ChatStream
from gw.types.llm import ChatRequest, Completion
from gw.types.usage import Usage
from gw.wire.openai_embeddings import MODERATION_CATEGORIES, encode_moderation, inputs_of

_WORDS = {name: frozenset({*re.split(r"[/-]", name), name} - {"self"}) for name in MODERATION_CATEGORIES}
_WORD = re.compile(r"[\w-]+")


@asynccontextmanager
async def moderate(request: ChatRequest, account: Account) -> AsyncIterator[ChatStream]:
    """Answer with one result per text. Parts with images are one input, of which only the text is read."""
    call = await start_call(account, "llm")
    inputs = inputs_of(request.fields)
    if any(isinstance(item, dict) for item in inputs):
        inputs = [" ".join(str(item.get("text") or "") for item in inputs if isinstance(item, dict))]
    texts = [" ".join(map(str, item)) if isinstance(item, list) else str(item) for item in inputs]
    body = encode_moderation([_scores(text) for text in texts], account.model, f"modr-sim-{call.number:08d}")
    usage = Usage(input_tokens=sum(script.count_tokens(text) for text in texts), source="vendor")
    yield DocumentAnswer(Completion(text="", usage=usage, raw=body), call)


def _scores(text: str) -> dict[str, float]:
    spoken = set(_WORD.findall(text.lower()))
    return {name: float(bool(words & spoken)) for name, words in _WORDS.items()}
