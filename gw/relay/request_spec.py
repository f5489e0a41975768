"""Facts of a request for routing, admission and accounting."""

from __future__ import annotations

import msgspec

from gw.types.ids import Modality
from gw.types.llm import Ability, ChatRequest
from gw.types.speech_settings import RequestSettings
from gw.types.usage import Usage

_NO_ABILITIES: frozenset[Ability] = frozenset()


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a request for routing, admission and accounting, the same for every modality."""

    modality: Modality
    requested: str
    """The model's name as the caller wrote it."""
    stream: bool
    estimate: Usage
    """Reserved against the budget while the request runs."""
    needs: frozenset[Ability] = _NO_ABILITIES
    call: str = ""
    """Name of the call in `ProviderSpec`, for a request with settings."""
    settings: RequestSettings | None = None
    """The request itself, if it has settings that a provider may be unable to honour."""
    chat: ChatRequest | None = None
    """The request itself, if it is a chat."""
