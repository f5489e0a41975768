"""Keys and tokens, which must not be shown."""

from __future__ import annotations

import hmac


class Secret:
    """A secret string. `repr`, `str` and formatting show the masked form; only `reveal()` returns the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @property
    def masked(self) -> str:
        """First 3 and last 4 characters around an ellipsis; a short secret shows none of its characters."""
        value = self._value
        if not value:
            return ""
        return f"{value[:3]}…{value[-4:]}" if len(value) >= 12 else "…"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __repr__(self) -> str:
        return f"Secret({self.masked!r})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")
