"""Errors inside sessions of Deepgram's sockets, live transcription and speech alike.

Source: deepgram-sdk 7.17.0, `speak/v2/types/speak_v2error_code.py`; the vendor's page on errors of its sockets (November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gw.errors import ProviderError
from gw.wire.json_frames import session_failure
from gw.wire.vendor_errors import as_rejection

REFUSED_CODE = re.compile(r"\b(?:DATA|MESSAGE|BIG)-[0-9]{4}\b")
"""Codes about what was sent: undecodable audio, messages that are not JSON or too large; the others (`NET-…`) are not."""


def session_error(provider: str, message: str, code: str, secrets: Iterable[str]) -> ProviderError:
    """Return the error for an error frame."""
    error = session_failure(provider, message, code, secrets)
    return as_rejection(error, code) if REFUSED_CODE.fullmatch(code) else error
