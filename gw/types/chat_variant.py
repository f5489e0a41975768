"""Differences of a vendor's chat from OpenAI's, as data."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ChatVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences of a vendor that speaks OpenAI's dialect (`gw.wire.chat_variants` applies them).

    A member in `refuses` is left out of the request, and noted; if the answer would mean something else without it, the
    candidate is skipped. `<member>.<value>` refuses one value only: `response_format.json_schema`.
    """

    refuses: frozenset[str] = frozenset()
    renames: Mapping[str, str] = {}
    """Member of OpenAI's → the vendor's own word for it."""
    developer_role: bool = True
    """False: messages of the role `developer` are sent as `system`."""
    message_names: bool = True
    """False: the vendor refuses the `name` of a message."""
    stream_options: bool = True
    """False: the vendor refuses `stream_options`, and reports the usage of a stream without being asked for it."""
