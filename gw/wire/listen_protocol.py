"""The server side of a dialect of live transcription."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from gw.types.compiled import mypyc_attr
from gw.types.stt import ListenEvent
from gw.wire.json_frames import Frame
from gw.wire.live_messages import ClientMessage


@mypyc_attr(allow_interpreted_subclasses=True)
class ListenProtocol(ABC):
    """One session."""

    binary_is_audio: ClassVar[bool] = False
    """Each binary frame that is not empty is audio as it is: its reader may count it in `audio_bytes`, in place of calling `receive`."""
    audio_bytes: int = 0

    def opening(self) -> Sequence[Frame]:
        """Return the frames sent right after the handshake."""
        return ()

    @abstractmethod
    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""

    @abstractmethod
    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        """Encode events as frames. Frames of an upstream of the same dialect (`raw`) are passed on unchanged."""
