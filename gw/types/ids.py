"""Names: modalities, sources, model ids of the form `<provider_id>/<model_name>`, and the ids and limits of a request's caller."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

Modality = Literal["stt", "llm", "tts"]
MODALITIES: tuple[Modality, ...] = ("stt", "llm", "tts")
Source = Literal["yaml", "db"]
Location = Literal["cloud", "local"]

_Count = Annotated[int, msgspec.Meta(ge=1)]

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a provider, project or stack id

ANY_NAME = "*"
"""Name of a model entry that stands for any name of its provider: the id is `<provider>/*`."""


LONGEST_NAME = 128
"""Characters of a model's name that is not listed, and of a route's; the names of vendors are shorter."""


def split_model_id(model_id: str) -> tuple[str, str]:
    """Split at the first slash: `"groq/a/b"` gives `("groq", "a/b")`, an id without a slash `("", model_id)`."""
    provider, slash, name = model_id.partition("/")
    return (provider, name) if slash else ("", model_id)


def is_model_pattern(text: str) -> bool:
    """Return whether `text` is a model id, or `<provider>/*` for all models of a provider."""
    provider, name = split_model_id(text)
    return bool(provider and name) and len(text) <= 200 and not any(c.isspace() for c in text)


class Link(msgspec.Struct, eq=False):
    """A client's connection, and the conversation that its requests were last found to belong to (`gw.policy.turns`)."""

    session_id: str | None = None
    joins: int = 0
    """Requests in a row that belonged to it."""
    is_closed: bool = False
    on_close: Callable[[Link], object] | None = None

    def close(self) -> None:
        """Note that the connection has ended."""
        self.is_closed = True
        if self.on_close is not None:
            self.on_close(self)


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a key. A budget that is spent always refuses, whatever the project's action is."""

    daily_budget_nusd: Annotated[int, "USD per UTC day; 0 = no budget"] = 0
    weekly_budget_nusd: Annotated[int, "USD per week from Monday, UTC"] = 0
    monthly_budget_nusd: Annotated[int, "USD per calendar month, UTC"] = 0
    total_budget_nusd: Annotated[int, "USD in all; never resets"] = 0
    models: Annotated[tuple[str, ...], "model ids, or <provider>/*; default: all"] = ()
    modalities: Annotated[tuple[Modality, ...], "stt, llm, tts; default: all"] = ()
    regions: Annotated[tuple[str, ...], "regions whose providers may answer, as in a project; default: all"] = ()
    requests_per_minute: Annotated[_Count | None, "default: unlimited"] = None
    max_concurrent: Annotated[_Count | None, "requests and live sessions at once; default: unlimited"] = None

    def includes(self, provider: str, model_id: str) -> bool:
        """Return whether a key with these limits may use a model."""
        return not self.models or model_id in self.models or f"{provider}/*" in self.models


class TraceContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The caller's span, from its headers `traceparent` and `tracestate` (W3C Trace Context)."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    sampled: bool = False
    state: str = ""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The project of a request and the ids it carries, from its credential and headers."""

    project: str = "default"
    key_id: str | None = None
    limits: KeyLimits | None = None
    """Limits of the key; None without any."""
    session_id: str | None = None
    turn_id: str | None = None
    trace: TraceContext | None = None
    request_id: str = ""
    conversation: str = ""
    """Id that the sessions of one socket have in common; "" for the first of them, and for a request of its own."""
    link: Link | None = None
    """Connection that the request came on; None for requests from inside."""
    endpoint: str = ""
    dialect: str = ""
    """Protocol spoken."""
    vendor: str = ""
    """Provider type whose API the caller was written for; a bare vendor model name means this vendor's first."""
    path_vendor: str = ""
    """Another provider type whose API has the same path: names that only this one has mean it."""
    regions: tuple[str, ...] = ()
    """Regions in which providers may process the request, beside those of its project; empty: any (`X-GW-Regions`)."""
    fallback: bool = True
    """False for `X-GW-Fallback: off`: stop after the requested model."""
    candidates: tuple[str, ...] = ()
    """Models that the caller itself names as fallbacks, in place of the configured chain."""
    candidate_voices: tuple[str, ...] = ()
    """The voice that the caller names for each of these, "" for none."""
