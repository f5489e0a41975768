"""Messages of Azure Speech's sockets: headers and a body in a text or binary frame.

Source: microsoft-cognitiveservices-speech-sdk 1.52.0, `common.speech/WebsocketMessageFormatter.js` (November 2026). A text frame is
the headers, an empty line and the body; a binary frame is the length of the headers in two bytes, the headers and the body. The header
`Path` names the message, `X-RequestId` the turn that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gw.wire.json_frames import Frame


class SpeechMessage(msgspec.Struct, frozen=True, gc=False):
    """`path` is in small letters."""

    path: str
    body: bytes
    request_id: str = ""


def _headed(headers: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name}:{value}\r\n" for name, value in headers)


def text_frame(path: str, body: Any, *headers: tuple[str, str]) -> str:
    """Return a text frame with a JSON body."""
    content = ("Content-Type", "application/json; charset=utf-8")
    return f"{_headed((('Path', path), content, *headers))}\r\n{msgspec.json.encode(body).decode()}"


def binary_prefix(path: str, *headers: tuple[str, str]) -> bytes:
    """Return a binary frame without its body."""
    head = _headed((("Path", path), *headers)).encode()
    return len(head).to_bytes(2, "big") + head


def parse_message(frame: Frame) -> SpeechMessage | None:
    """Return the message of a frame; None for one that is malformed."""
    if isinstance(frame, bytes):
        end = 2 + int.from_bytes(frame[:2], "big")
        if not 2 < end <= len(frame):
            return None
        head, body = frame[2:end].decode("latin-1"), frame[end:]
    else:
        head, separator, text = frame.partition("\r\n\r\n")
        if not separator:
            return None
        body = text.encode("utf-8", "replace")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n"))}
    path = headers.get("path", "").lower()
    return SpeechMessage(path=path, body=body, request_id=headers.get("x-requestid", "")) if path else None
