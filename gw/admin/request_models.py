"""The bodies of creating and changing: what may stand in them, checked before anything is done.

The same for HTTP, MCP and the command line. A field that is not known is an error, and so is a number that is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gw.errors import RequestError
from gw.types.ids import ID_PATTERN, MODALITIES, Modality
from gw.types.project import BudgetAction
from gw.types.usage import NANO

B = TypeVar("B", bound=msgspec.Struct)

MOST_USD = 1e9
"""A budget beyond this is a mistake, and would not fit a 64-bit count of nano-USD."""
_LONGEST_TEXT = 2_000
_LONGEST_NAME = 256
_MOST_TAGS = 50
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_PLACE = re.compile(r" - at `\$\.?(?P<place>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class CreateProvider(_Body):
    provider_id: str
    provider_type: str | None = None
    """Default: the id."""
    api_key: str | None = None
    base_url: str | None = None


class UpdateProvider(_Body):
    provider_type: str | UnsetType = UNSET
    api_key: str | UnsetType = UNSET
    base_url: str | UnsetType | None = UNSET


class CreateModel(_Body):
    modality: Modality
    provider_id: str
    model_name: str
    display_name: str | None = None
    default_language: str | None = None
    default_voice: str | None = None


class UpdateModel(_Body):
    display_name: str | UnsetType | None = UNSET
    default_language: str | UnsetType | None = UNSET
    default_voice: str | UnsetType | None = UNSET


class CreateProject(_Body):
    project_id: str
    name: str | None = None
    """Default: the id."""
    description: str | None = None
    daily_budget: float | None = None
    """USD a day; 0 or null = none."""
    budget_action: BudgetAction = "warn"
    default_stack: str | None = None
    tags: list[str] | None = None
    accent: str | None = None
    """`#rrggbb`."""
    fallbacks: dict[Modality, list[str]] | None = None


class UpdateProject(_Body):
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    daily_budget: float | UnsetType | None = UNSET
    budget_action: BudgetAction | UnsetType = UNSET
    default_stack: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType | None = UNSET
    accent: str | UnsetType | None = UNSET
    fallbacks: dict[Modality, list[str]] | UnsetType | None = UNSET


class CreateKey(_Body):
    name: str | None = None
    project: str | None = None
    """Default: `default`."""
    expires_at: float | None = None
    """Unix seconds; null = never."""


class SetChain(_Body):
    models: list[str]


def read(body: Mapping[str, object], kind: type[B]) -> B:
    """Raises RequestError saying what is wrong and with which field."""
    if not isinstance(body, Mapping):
        raise RequestError(what="the body must be a JSON object")
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind) from None


def _explained(text: str, kind: type[msgspec.Struct]) -> RequestError:
    if found := _UNKNOWN.search(text):
        known = ", ".join(kind.__struct_fields__)
        return RequestError(what=f"unknown field {found['field']!r}; there are: {known}", param=found["field"])
    if found := _MISSING.search(text):
        return RequestError(what=f"the field {found['field']!r} is required", param=found["field"])
    place = _PLACE.search(text)
    if place is None or not place["place"]:
        return RequestError(what=f"the body is not what was expected: {text}")
    what = text[: place.start()].replace("`", "'")
    if place["place"] == "modality":
        what += f" (one of {', '.join(MODALITIES)})"
    return RequestError(what=f"{place['place']}: {what}", param=place["place"])


def checked_id(value: str, param: str) -> str:
    """An id of a provider or project."""
    if not ID_PATTERN.fullmatch(value):
        what = f"{param} must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit"
        raise RequestError(what=what, param=param)
    return value


def checked_text(value: str | None, param: str, *, longest: int = _LONGEST_NAME) -> str:
    """Text for people; None is none. Control characters are refused."""
    text = value or ""
    if len(text) > longest:
        raise RequestError(what=f"{param} may have {longest} characters at most", param=param)
    if any(ord(c) < 0x20 and c not in "\n\t" for c in text) or "\x7f" in text:
        raise RequestError(what=f"{param} may not hold control characters", param=param)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(what=f"{param} is no text", param=param) from None
    return text


def checked_description(value: str | None) -> str:
    return checked_text(value, "description", longest=_LONGEST_TEXT)


def checked_model_name(value: str) -> str:
    if not value.strip() or value != value.strip():
        raise RequestError(what="model_name must not be empty, nor begin or end with a space", param="model_name")
    if any(c.isspace() and c != " " for c in value):
        raise RequestError(what="model_name must be one line", param="model_name")
    return checked_text(value, "model_name")


def checked_budget(value: float | None) -> int:
    """USD → nano-USD; 0 = no budget."""
    if value is None:
        return 0
    if not math.isfinite(value) or not 0 <= value <= MOST_USD:
        raise RequestError(what=f"daily_budget must be a number from 0 to {MOST_USD:g}", param="daily_budget")
    return max(round(value * NANO), 1) if value else 0


def checked_tags(value: list[str] | None) -> tuple[str, ...]:
    tags = tuple(checked_text(tag, "tags", longest=64) for tag in value or ())
    if len(tags) > _MOST_TAGS or not all(tags):
        raise RequestError(what=f"tags must be {_MOST_TAGS} at most, and none of them empty", param="tags")
    return tags


def checked_accent(value: str | None) -> str:
    if value and not _COLOUR.fullmatch(value):
        raise RequestError(what="accent must be a colour as #rrggbb", param="accent")
    return (value or "").lower()


def checked_api_key(value: str | None) -> str:
    key = value or ""
    if len(key) > 4_096 or not key.isascii() or any(not c.isprintable() or c == " " for c in key):
        raise RequestError(what="api_key must be printable ASCII without spaces", param="api_key")
    return key


def checked_expiry(value: float | None, now: float) -> float | None:
    if value is not None and not (math.isfinite(value) and value > now):
        raise RequestError(what="expires_at must be a time to come, in Unix seconds", param="expires_at")
    return value
