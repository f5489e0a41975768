"""A conversation with a model that hears and speaks itself: the request, the open session, and what its frames mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from gw.errors import ProviderError
from gw.types.usage import Usage

ConversationDialect = Literal["openai", "gemini"]
Frame = str | bytes
CallerStep = Literal["asks", "ends_turn", "other"]
"""The effect of a caller's frame: it asks for a response, which is due then; it ends what the caller says; neither."""


class ConverseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with a model that hears and speaks itself. `headers`: those of the caller that choose the protocol's version."""

    model: str
    dialect: ConversationDialect = "openai"
    """The protocol of the caller: only a vendor that speaks it can hold the conversation."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    version: str = ""
    """Version of the API in the caller's address, where the dialect has it there."""
    setup: Frame = ""
    """The caller's first frame, where the dialect begins with the settings of the session."""


class ConversationEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The meaning of a vendor's frame for the session and its records.

    `began`, `content` and `ended` are about the response `response_id`; `speech_ended` is the end of the caller's turn; `transcribed` is a
    transcription beside the conversation; `settings` are those in force; `failed` is an error of the session; `alive` is a sign of life.
    """

    kind: Literal["began", "content", "ended", "speech_ended", "transcribed", "settings", "failed", "alive", "other"]
    response_id: str = ""
    usage: Usage | None = None
    is_cancelled: bool = False
    error: ProviderError | None = None
    transcription_model: str | None = None
    """Model that transcribes beside the conversation, where the settings name one."""


class ConversationReader(Protocol):
    """Reads the frames of both sides of one session, in the order in which they pass."""

    @property
    def patience_s(self) -> float:
        """Return for how much longer than usual the vendor may be silent in a response; infinite while it waits for the caller."""

    def received(self, frame: Frame) -> Sequence[ConversationEvent]:
        """Read a frame of the vendor. Raises UpstreamProtocolError."""

    def sent(self, frame: Frame) -> CallerStep:
        """Read a frame of the caller. Raises ClientProtocolError."""

    def for_vendor(self, frame: Frame, model: str) -> Frame:
        """Return a frame of the caller with the vendor's name of the model, where it names one."""

    def counted(self, response_id: str) -> Usage | None:
        """Return what the vendor has counted of a response that has not ended; None before it has counted anything."""

    def cancel(self, response_id: str) -> str | None:
        """Return the frame that ends a response; None where the vendor takes no such frame: a response goes on to its end."""


class ConverseSession(Protocol):
    """A conversation whose frames pass through, in the vendor's own protocol. One task sends while another receives."""

    reader: ConversationReader

    async def send(self, frame: Frame) -> None: ...

    async def receive(self) -> Frame | None:
        """Return the next frame; None when the vendor has closed the session normally."""


@runtime_checkable
class ResumableSession(ConverseSession, Protocol):
    """A conversation that can go on in another session of the same vendor, with other settings."""

    async def reopen(self, first: Sequence[Frame]) -> None:
        """Leave the vendor's session: the task that receives opens the next one with these frames, and what is sent meanwhile waits."""


class ConverseCounter(Protocol):
    """Counts the frames of one session for a vendor that bills its duration. Times are seconds since the session began."""

    text_messages: int
    """Messages of text that the vendor bills one by one."""

    @property
    def reported_s(self) -> float:
        """Return the vendor's last total; 0.0 before it has said one."""

    def sent(self, frame: Frame) -> None:
        """Count a frame of the caller."""

    def received(self, frame: Frame, elapsed_s: float) -> None:
        """Count a frame of the vendor."""

    def total_s(self, elapsed_s: float) -> float:
        """Return the seconds billed until now."""
