"""Request bodies: decoding into structs, and the checks that several entities or reports share.

HTTP, MCP and the command line send the same bodies. An unknown field is an error, and so is NaN or infinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gw.errors import RequestError
from gw.registry.catalog import Catalog
from gw.telemetry.clock import utc_day
from gw.types.ids import ID_PATTERN, MODALITIES

B = TypeVar("B", bound=msgspec.Struct)
Checks = Mapping[str, Callable[[Any, str], object]]
"""Field → function of its value and its name that returns the value to store. Raises RequestError."""

PERIODS: Mapping[str, int | None] = {"today": 1, "week": 7, "month": 30, "all": None}  # UTC days, including today
_MOST_NAMES = 50
_TEXT_CHARACTERS = 256
_PLACE = re.compile(r" - at `\$\.?(?P<place>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of the request bodies."""


def update_body(name: str, create: type[Body]) -> type[Body]:
    """Return the body of a change: the optional fields of `create`, each of which may be absent."""
    fields = [(f.name, f.type | UnsetType, UNSET) for f in msgspec.structs.fields(create) if not f.required]
    body: type[Any] = msgspec.defstruct(name, fields, bases=(Body,), kw_only=True, module=create.__module__)
    return body


def read(body: Mapping[str, object], kind: type[B]) -> B:
    """Decode a body. Raises RequestError naming the field at fault."""
    if not isinstance(body, Mapping):
        raise RequestError(what="the body must be a JSON object")
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind) from None


def _explained(message: str, kind: type[msgspec.Struct]) -> RequestError:
    if match := _UNKNOWN.search(message):
        known = ", ".join(kind.__struct_fields__)
        return RequestError(what=f"unknown field {match['field']!r}; known fields: {known}", param=match["field"])
    if match := _MISSING.search(message):
        return RequestError(what=f"the field {match['field']!r} is required", param=match["field"])
    place = _PLACE.search(message)
    if place is None or not place["place"]:
        return RequestError(what=f"unexpected body: {message}")
    what = message[: place.start()].replace("`", "'")
    if place["place"] == "modality":
        what += f" (one of {', '.join(MODALITIES)})"
    return RequestError(what=f"{place['place']}: {what}", param=place["place"])


def checked(body: msgspec.Struct, checks: Checks) -> dict[str, Any]:
    """Return the fields of `body` that were sent, each checked, in the order of `checks`."""
    values = {name: getattr(body, name) for name in checks}
    return {name: check(values[name], name) for name, check in checks.items() if values[name] is not UNSET}


def unchecked(value: object, param: str) -> object:
    """Return a value whose type is all there is to check."""
    return value


def checked_id(value: str, param: str) -> str:
    """Return the id of a provider or project."""
    if not ID_PATTERN.fullmatch(value):
        what = f"{param} must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit"
        raise RequestError(what=what, param=param)
    return value


def checked_text(value: str | None, param: str, *, longest: int = _TEXT_CHARACTERS) -> str:
    """Return text for people, "" for null. Control characters are refused."""
    text = value or ""
    if len(text) > longest:
        raise RequestError(what=f"{param} may have at most {longest} characters", param=param)
    if any(ord(c) < 0x20 and c not in "\n\t" for c in text) or "\x7f" in text:
        raise RequestError(what=f"{param} may not contain control characters", param=param)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RequestError(what=f"{param} is not valid Unicode text", param=param) from None
    return text


# ---- arguments of reports, as the caller wrote them


def checked_names(value: list[str] | None, param: str) -> tuple[str, ...]:
    """Return a short list of short texts, such as tags or regions; () for null. Raises RequestError."""
    names = tuple(checked_text(name, param, longest=64) for name in value or ())
    if len(names) > _MOST_NAMES or not all(names):
        raise RequestError(what=f"{param} must be at most {_MOST_NAMES} texts, none of them empty", param=param)
    return names


def first_day(period: str, now: float) -> int | None:
    """Return the first UTC day of the period; None is the beginning of all records."""
    days = PERIODS[one_of("period", period, tuple(PERIODS))]
    return None if days is None else utc_day(now) - days + 1


def one_of(param: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is allowed, else raise RequestError."""
    if value not in allowed:
        raise RequestError(what=f"{param} must be one of {', '.join(allowed)}", param=param)
    return value


def whole_number(value: str | int, param: str, least: int, most: int) -> int:
    """Parse decimal digits only; `least` to `most`."""
    text = str(value)
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1
    if not least <= number <= most:
        raise RequestError(what=f"{param} must be a whole number from {least} to {most}", param=param)
    return number


def page_size(value: str | int, most: int) -> int:
    """Parse the parameter `limit`: 1 to `most`."""
    return whole_number(value, "limit", 1, most)


def project_filter(catalog: Catalog, project: str | None) -> str | None:
    """Return the project's id, or None for no filter. Raises UnknownProjectError."""
    return catalog.project(project).id if project else None
