"""Query strings of speech endpoints: the caller's settings, and the fields that several vendors have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from sys import intern
from typing import TypeVar
from urllib.parse import parse_qsl

from gw.errors import ClientProtocolError

T = TypeVar("T")

SAMPLE_RATES_HZ = range(4_000, 192_001)
_CREDENTIALS = frozenset({"token", "access_token", "api_key", "single_use_token", "key"})


def optional_pairs(**fields: str | int | None) -> list[tuple[str, str]]:
    """Return query fields in order, without those that are None, False or empty; True becomes "true"."""
    present = ((name, value) for name, value in fields.items() if value is not None and value is not False and value != "")
    return [(name, "true" if value is True else str(value)) for name, value in present]


def query_pairs(query: bytes) -> list[tuple[str, str]]:
    """Return the settings of a query string in order: without credentials and without the gateway's own `gw_` fields."""
    pairs = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    return [
        (intern(name), intern(value)) for name, value in pairs if name not in _CREDENTIALS and not name.startswith("gw_")
    ]  # interned: an app's sessions all have the same ones, and keep them for hours


def bare_language(language: str | None) -> str | None:
    """Return the ISO 639 code without region (`en-US` → `en`); None for `multi` and the like: the vendor detects it."""
    bare = (language or "").partition("-")[0].lower()
    return bare if len(bare) in (2, 3) and bare.isalpha() else None


_LONG_CODES = {
    "ara": "ar", "ces": "cs", "cmn": "zh", "dan": "da", "deu": "de", "ell": "el", "eng": "en", "fin": "fi", "fra": "fr",
    "heb": "he", "hin": "hi", "hun": "hu", "ind": "id", "ita": "it", "jpn": "ja", "kor": "ko", "nld": "nl", "nor": "no",
    "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "spa": "es", "swe": "sv", "tha": "th", "tur": "tr", "ukr": "uk",
    "vie": "vi", "zho": "zh",
}  # fmt: skip
"""ISO 639-3 → ISO 639-1."""


def language_tag(language: str | None) -> str | None:
    """Return a language as most vendors write it: `en_uk` is `en-GB`, `eng` is `en`. None for an empty one."""
    bare, _, region = (language or "").lower().replace("_", "-").partition("-")
    bare = _LONG_CODES.get(bare, bare)
    return (f"{bare}-{'GB' if region == 'uk' else region.upper()}" if region else bare) or None


OFF = frozenset({"", "false", "null", "none", "[]", "{}"})
"""Values of a setting that ask for nothing."""


def own_settings(
    pairs: Iterable[tuple[str, str]], served: Collection[str], meaningful: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the settings of a dialect that have no common word: those with `meaningful` effect, and the others.

    `served` are those that a request has in common terms, or that the gateway itself obeys.
    """
    names = dict.fromkeys(name for name, value in pairs if name not in served and value.lower() not in OFF)
    return tuple(n for n in names if n in meaningful), tuple(n for n in names if n not in meaningful)


def is_true(value: str | None) -> bool:
    """Return whether a flag is set; a flag without a value is."""
    return value is not None and value.lower() in ("true", "1", "")


def int_field(fields: Mapping[str, str], name: str, default: int) -> int:
    """Return a field that must be a whole number. Raises ClientProtocolError."""
    value = fields.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ClientProtocolError(what=f"{name} must be a whole number", param=name)
    return int(value)


def sample_rate(value: str | int | None, default: int) -> int:
    """Return the rate of raw audio in Hz. Raises ClientProtocolError."""
    text = str(default if value is None else value)
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) in SAMPLE_RATES_HZ):
        raise ClientProtocolError(what="sample_rate must be between 4000 and 192000", param="sample_rate")
    return int(text)


def encoding_field(value: str, encodings: Mapping[str, T]) -> T:
    """Return the encoding that the vendor names `value`. Raises ClientProtocolError."""
    encoding = encodings.get(value)
    if encoding is None:
        raise ClientProtocolError(what=f"encoding must be one of {', '.join(encodings)}", param="encoding")
    return encoding
