"""Arguments of a tool call: JSON text in OpenAI's dialect, an object in others."""

from __future__ import annotations

from typing import Any

import msgspec

from gw.wire.json_codec import BAD_JSON


def object_of(arguments: str) -> dict[str, Any]:
    """The object that `arguments` is; {} for none. Text that is no object (models do write such) is kept as `arguments`."""
    try:
        found = msgspec.json.decode(arguments) if arguments.strip() else {}
    except BAD_JSON:
        found = None
    return found if isinstance(found, dict) else {"arguments": arguments}
