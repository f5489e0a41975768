"""Answers of a language model, put together from their events or taken apart: common to all dialects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.types.llm import ChatEvent, Completion, Delta, ToolCallPiece, UsageReport
from gw.types.usage import Usage
from gw.wire.json_codec import decode_or

ENDED_BY = ("content_filter", "length")
"""Finish reasons that explain an answer without text: a model's hidden reasoning can use up the limit, and is billed."""
_ANY = msgspec.json.Decoder()


class CollectedChoice:
    """One choice of an answer, put together from its deltas."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._pieces: dict[int, list[ToolCallPiece]] = {}
        self._finish_reason: str | None = None

    def add(self, delta: Delta) -> None:
        self._deltas.append(delta)
        self._finish_reason = delta.finish_reason or self._finish_reason
        for piece in delta.tool_calls:
            self._pieces.setdefault(piece.index, []).append(piece)

    @property
    def text(self) -> str:
        return "".join([delta.text for delta in self._deltas])

    @property
    def refusal(self) -> str:
        return "".join([delta.refusal for delta in self._deltas])

    @property
    def reasoning(self) -> str:
        return "".join([delta.reasoning for delta in self._deltas])

    @property
    def tool_calls(self) -> list[ToolCallPiece]:
        """Return the complete calls, by index."""
        return [join_pieces(pieces) for _, pieces in sorted(self._pieces.items())]

    @property
    def finish_reason(self) -> str:
        """Why the answer ended, inferred if the upstream did not say."""
        return self._finish_reason or ("tool_calls" if self._pieces else "stop")


class CollectedAnswer:
    """A complete answer: the upstream's own body (`raw`), or else choices by index, and usage."""

    def __init__(self, events: Iterable[ChatEvent]) -> None:
        self.raw: bytes | None = None
        self.usage: Usage | None = None
        self.choices: dict[int, CollectedChoice] = {}
        for event in events:
            if isinstance(event, Completion):
                if event.raw is not None:
                    self.raw = event.raw
                    return
                self.usage = event.usage or self.usage
                self._add(as_delta(event))
            elif isinstance(event, Delta):
                self._add(event)
            elif isinstance(event, UsageReport):
                self.usage = event.usage

    @property
    def first(self) -> CollectedChoice:
        """Return the first choice, the only one in most dialects; an empty one if there is none."""
        return self.choices.get(0) or CollectedChoice()

    def _add(self, delta: Delta) -> None:
        index = delta.choice
        if index in self.choices or delta.has_content or delta.refusal or delta.finish_reason:
            self.choices.setdefault(index, CollectedChoice()).add(delta)


def join_pieces(pieces: Sequence[ToolCallPiece]) -> ToolCallPiece:
    """Join the pieces of one call, of which there is at least one."""
    return ToolCallPiece(
        index=pieces[0].index, id=next((piece.id for piece in pieces if piece.id), ""),
        name="".join(piece.name for piece in pieces), arguments="".join(piece.arguments for piece in pieces),
    )


def as_delta(completion: Completion) -> Delta:
    """Return an unstreamed answer as the only delta of a streamed one, without its `raw` bytes."""
    return Delta(
        text=completion.text, refusal=completion.refusal, reasoning=completion.reasoning, tool_calls=completion.tool_calls,
        finish_reason=completion.finish_reason or "stop",
    )


def with_raw(events: list[Delta | UsageReport], raw: bytes) -> list[Delta | UsageReport]:
    """Return `events`, the first of which carries `raw`, and the others nothing to send; one event at least."""
    if not events:
        return [Delta(raw=raw)]
    others = [msgspec.structs.replace(event, raw=b"") for event in events[1:]]
    return [msgspec.structs.replace(events[0], raw=raw), *others]


def arguments_object(arguments: str) -> dict[str, Any]:
    """Return a call's arguments, JSON text, as an object; other text (models do write such) as its member `arguments`."""
    if not arguments.strip():
        return {}
    decoded = decode_or(_ANY, arguments, None)
    return decoded if isinstance(decoded, dict) else {"arguments": arguments}

