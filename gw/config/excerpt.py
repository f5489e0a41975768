"""The line of the file shown under a problem, with secrets hidden.

A value is hidden when its path says so (keys, tokens, everything of `auth` and `providers` that is not known to be
harmless), when it looks like a key, or when it is an address with a password in it. A reference such as
`${OPENAI_API_KEY}` is shown: it is a name, not a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gw.types.provider_types import PROVIDER_TYPES

_SECRET_NAMES = frozenset({"api_key", "admin_token", "key", "token", "secret", "password", "credential", "credentials"})
_HARMLESS = frozenset({"type", "base_url", "enabled", "project", "name", "allow_open"}).union(
    *(kind.options for kind in PROVIDER_TYPES.values())
)
_KEY_FORM = re.compile(r"\b(?:sk|gsk|gwk|pk|xai|key|tok|eyJ)[-_][A-Za-z0-9_\-]{6,}|\b(?=[a-z]*[0-9])[0-9a-f]{28,}\b")
_REFERENCE = re.compile(r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})+")
_PASSWORD = re.compile(r"//[^/\s]*@")
_WIDTH = 160


def secret_value(path: Sequence[str | int], text: str) -> bool:
    """Return whether the scalar `text` at `path` must be hidden."""
    if not text or _REFERENCE.fullmatch(text):
        return False
    if _SECRET_NAMES.intersection(part for part in path if isinstance(part, str)) or _PASSWORD.search(text):
        return True
    if path[:1] == ("projects",):
        return path[2:3] == ("providers",)
    return bool(path) and path[0] in {"providers", "auth"} and path[-1] not in _HARMLESS


def shown_line(line: str, hidden: Sequence[tuple[int, int]], column: int) -> str:
    """Return `line` without the hidden spans; "" when the column is beyond the width that is shown."""
    for start, end in sorted(set(hidden), reverse=True):
        line = line[:start] + "…" + line[end:] if start < len(line) else line
    line = _KEY_FORM.sub("…", line.replace("\t", " ").rstrip())
    return "" if column > _WIDTH else line[:_WIDTH]
