"""Text of the files that users name on the command line."""

from __future__ import annotations

import codecs
from pathlib import Path

from gw.cli.main import CommandFailed


def read_text(path: Path) -> str:
    """Read a file; see `decode_text`. Raises CommandFailed, OSError."""
    return decode_text(path.read_bytes(), str(path))


def decode_text(data: bytes, name: str) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, as spreadsheets save both. Raises CommandFailed, with the line."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CommandFailed(f"{name} line {line}: the text is not UTF-8; save the file in UTF-8") from None
