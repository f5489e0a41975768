"""Vendors' endpoints beside speech and chat: lists of models and voices, a plan's remaining quota, short-lived tokens.

The voices are the aliases of the configuration and the default voices of its models: names that any text-to-speech request
may use. A voice that is not in the list is nevertheless found where its vendor speaks, since a text-to-speech request may name it.
The gateway's budgets are in dollars, so quotas that vendors count in characters have no limit here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gw.admin import listings
from gw.dialects import model_lookup
from gw.dialects.auth import grant, query_fields
from gw.dialects.exchange import Handler, HttpExchange, Routes
from gw.dialects.http_handler import JSON
from gw.dialects.request_io import send_response
from gw.errors import ClientProtocolError
from gw.registry.catalog import Catalog
from gw.wire.json_codec import decode_request

_UNLIMITED = 1_000_000_000  # stands for "no limit" where a client expects a number
_MAX_PAGE = 100
_SINGLE_USE_S = 900  # lifetime of ElevenLabs' own single-use tokens


class UnknownVoice(ClientProtocolError):
    status = 404
    code = "voice_not_found"


class ListedVoice(msgspec.Struct, frozen=True, kw_only=True):
    """A voice and the ids of the `models` that speak with it."""

    id: str
    models: tuple[str, ...]
    language: str | None


def voices_of(catalog: Catalog) -> list[ListedVoice]:
    """Return aliases first, each name once. An alias belongs to the models of every provider that it names."""
    voices: dict[str, ListedVoice] = {}
    speakers = list(catalog.by_modality["tts"].values())
    for alias, by_provider in catalog.voices.items():
        providers = {
            id_ for id_, provider in catalog.providers.items() if id_ in by_provider or provider.type in by_provider
        }
        models = [model for model in speakers if model.provider in providers]
        language = next((model.default_language for model in models if model.default_language), None)
        voices[alias] = ListedVoice(id=alias, models=tuple(model.id for model in models), language=language)
    for model in speakers:
        if (name := model.default_voice) and name not in catalog.voices:
            voice = voices.get(name) or ListedVoice(id=name, models=(), language=model.default_language)
            voices[name] = msgspec.structs.replace(voice, models=(*voice.models, model.id))
    return list(voices.values())


async def _send(exchange: HttpExchange, answer: object) -> None:
    await send_response(exchange.send, 200, JSON, msgspec.json.encode(answer), exchange.id_headers)


def _query(exchange: HttpExchange, *names: str) -> dict[str, str]:
    fields = query_fields(exchange.query, [name.encode() for name in names])
    return {name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()}


def _count(text: str | None, default: int, most: int, param: str) -> int:
    """Return a number from 1 to `most`. Raises ClientProtocolError."""
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most):
        raise ClientProtocolError(what=f"{param} must be a number from 1 to {most}", param=param)
    return int(text)


def _path_voice(exchange: HttpExchange, vendor: str) -> ListedVoice:
    """Return the voice in the path: one of the list, or any where this vendor speaks, which knows more voices than the list has.

    Raises UnknownVoice.
    """
    name = exchange.scope["path_params"]["voice"]
    catalog = exchange.gateway.current.catalog
    voice = next((voice for voice in voices_of(catalog) if voice.id == name), None)
    if voice is not None:
        return voice
    speakers = [m.id for m in catalog.by_modality["tts"].values() if catalog.providers[m.provider].type == vendor]
    if not speakers:
        raise UnknownVoice(what=f"no voice is called {name!r} here", param="voice_id")
    return ListedVoice(id=name, models=tuple(speakers), language=None)


def _matching_voices(exchange: HttpExchange, search: str) -> list[ListedVoice]:
    voices = voices_of(exchange.gateway.current.catalog)
    return [voice for voice in voices if search.casefold() in voice.id.casefold()]


def _page(voices: list[ListedVoice], after: str | None, size: int) -> tuple[list[ListedVoice], bool]:
    """Return the voices after the one named `after`, and whether there are more; none after an unknown name."""
    if after:
        names = [voice.id for voice in voices]
        voices = voices[names.index(after) + 1 :] if after in names else []
    return voices[:size], len(voices) > size


# ---- ElevenLabs


def _elevenlabs_voice(voice: ListedVoice) -> dict[str, Any]:
    verified = [{"language": voice.language, "model_id": model} for model in voice.models if voice.language]
    return {
        "voice_id": voice.id, "name": voice.id, "samples": None, "category": "premade", "description": None,
        "labels": {"language": voice.language} if voice.language else {}, "preview_url": None, "available_for_tiers": [],
        "settings": None, "high_quality_base_model_ids": list(voice.models), "verified_languages": verified,
    }  # fmt: skip


_SUBSCRIPTION: Mapping[str, Any] = {
    "tier": "gateway", "status": "active", "currency": "usd", "character_count": 0, "character_limit": _UNLIMITED,
    "max_character_limit_extension": None, "max_credit_limit_extension": 0, "can_extend_character_limit": False,
    "allowed_to_extend_character_limit": False, "next_character_count_reset_unix": None, "voice_slots_used": 0,
    "professional_voice_slots_used": 0, "professional_voice_slots_used_in_workspace": 0, "voice_limit": 0,
    "max_voice_add_edits": 0, "voice_add_edit_counter": 0, "professional_voice_limit": 0, "can_extend_voice_limit": False,
    "can_use_instant_voice_cloning": False, "can_use_professional_voice_cloning": False,
    "current_overage": {"amount": "0", "currency": "usd"}, "billing_period": None, "character_refresh_period": None,
    "open_invoices": [], "has_open_invoices": False,
}  # fmt: skip


def _elevenlabs_page(exchange: HttpExchange) -> dict[str, Any]:
    """Answer `GET /v2/voices`; a page's token is the last voice of the page before."""
    query = _query(exchange, "search", "page_size", "next_page_token")
    voices = _matching_voices(exchange, query.get("search", ""))
    size = _count(query.get("page_size"), 10, _MAX_PAGE, "page_size")
    page, has_more = _page(voices, query.get("next_page_token"), size)
    return {
        "voices": [_elevenlabs_voice(voice) for voice in page], "has_more": has_more,
        "total_count": len(voices), "next_page_token": page[-1].id if has_more else None,
    }


# ---- Cartesia


def _cartesia_voice(voice: ListedVoice) -> dict[str, Any]:
    return {
        "id": voice.id, "name": voice.id, "tagline": "", "language": voice.language or "en", "locales": [],
        "description": f"Spoken by {', '.join(voice.models)}" if voice.models else "", "access": "private",
        "visibility": "all", "is_owner": True, "is_public": False, "created_at": "1970-01-01T00:00:00Z",
    }  # fmt: skip


def _cartesia_page(exchange: HttpExchange) -> dict[str, Any]:
    """Answer with the page after `starting_after`; the SDK asks for pages until one is empty."""
    query = _query(exchange, "q", "limit", "starting_after")
    size = _count(query.get("limit"), 10, _MAX_PAGE, "limit")
    page, has_more = _page(_matching_voices(exchange, query.get("q", "")), query.get("starting_after"), size)
    data = [_cartesia_voice(voice) for voice in page]
    return {"data": data, "has_more": has_more, "next_page": page[-1].id if has_more else None}


async def cartesia_token(exchange: HttpExchange) -> None:
    """Answer with a token; the `grants` of the request are ignored: a key of this gateway has all rights of its project."""
    await _send(exchange, {"token": _grant(exchange, await _lifetime_s(exchange, "expires_in", 60))})


# ---- Deepgram and AssemblyAI


async def deepgram_grant(exchange: HttpExchange) -> None:
    lifetime_s = await _lifetime_s(exchange, "ttl_seconds", 30)
    await _send(exchange, {"access_token": _grant(exchange, lifetime_s), "expires_in": lifetime_s})


def _assemblyai_token(exchange: HttpExchange) -> dict[str, Any]:
    query = _query(exchange, "expires_in_seconds")
    lifetime_s = _count(query.get("expires_in_seconds"), 60, 600, "expires_in_seconds")
    return {"token": _grant(exchange, lifetime_s), "expires_in_seconds": lifetime_s}


# ---- tokens


def _grant(exchange: HttpExchange, lifetime_s: int, *, single_use: bool = False) -> str:
    return grant(exchange.gateway, exchange.scope, exchange.caller.project, lifetime_s, single_use=single_use)[0]


class _GrantRequest(msgspec.Struct):
    """Lifetime of a token, under Cartesia's name and Deepgram's."""

    expires_in: int | None = None
    ttl_seconds: int | None = None


_GRANT = msgspec.json.Decoder(_GrantRequest)


async def _lifetime_s(exchange: HttpExchange, member: str, default: int) -> int:
    """Return the lifetime that the body, which may be left out, asks for. Raises ClientProtocolError."""
    requested: int | None = getattr(decode_request(_GRANT, await exchange.body() or b"{}"), member)
    return default if requested is None else _count(str(requested), default, 3_600, member)


# ---- routes


def _json(answer_of: Callable[[HttpExchange], object]) -> Handler:
    """Return a handler that sends what `answer_of` returns."""
    return lambda exchange: _send(exchange, answer_of(exchange))


ELEVENLABS: Routes = {
    ("GET", "/v1/voices"): _json(lambda exchange: {"voices": list(map(_elevenlabs_voice, _matching_voices(exchange, "")))}),
    ("GET", "/v2/voices"): _json(_elevenlabs_page),
    ("GET", "/v1/voices/{voice}"): _json(lambda exchange: _elevenlabs_voice(_path_voice(exchange, "elevenlabs"))),
    ("GET", "/v1/user/subscription"): _json(lambda exchange: _SUBSCRIPTION),
    ("POST", "/v1/single-use-token/{type}"): _json(
        lambda exchange: {"token": _grant(exchange, _SINGLE_USE_S, single_use=True)}
    ),
}
CARTESIA: Routes = {
    ("GET", "/voices"): _json(_cartesia_page),
    ("GET", "/voices/{voice}"): _json(lambda exchange: _cartesia_voice(_path_voice(exchange, "cartesia"))),
    ("POST", "/access-token"): cartesia_token,
}
_STATUS = _json(lambda exchange: {"ok": True, "version": exchange.gateway.version})
CARTESIA_MOUNT: Routes = {("GET", "/"): _STATUS, ("GET", ""): _STATUS}
"""Routes below `/cartesia` only: the root has a front page."""
DEEPGRAM: Routes = {("POST", "/v1/auth/grant"): deepgram_grant}
ASSEMBLYAI: Routes = {("GET", "/v3/token"): _json(_assemblyai_token)}
TOKENS = frozenset((
    ("POST", "/v1/single-use-token/{type}"), ("POST", "/access-token"), ("POST", "/v1/auth/grant"), ("GET", "/v3/token"),
))  # fmt: skip
"""Routes that issue short-lived tokens, which only the process knows that has issued them."""


def _view(exchange: HttpExchange) -> listings.KeyView | None:
    """Return what the caller's key sees of the models; None without a key, and for one that may use all."""
    caller = exchange.caller
    return None if caller.key_id is None else listings.view_of(exchange.gateway.current.catalog, caller.project, caller.limits)


def _models(exchange: HttpExchange) -> listings.ModelList:
    query = _query(exchange, "limit", "after_id", "before_id")
    chosen = {name: query.get(name) for name in ("limit", "after_id", "before_id")}
    return listings.models(exchange.gateway.current.catalog, exchange.gateway.started_at, view=_view(exchange), **chosen)


def _one_model(exchange: HttpExchange) -> listings.OneModel:
    return model_lookup.find(exchange.gateway, exchange.caller, exchange.scope["path_params"]["model_id"], _view(exchange))


def _speaking_models(exchange: HttpExchange) -> dict[str, Any]:
    models = listings.models_of(exchange.gateway.current.catalog, None, _view(exchange))
    return {"models": [{"id": model.id} for model in models if model.modality == "tts"]}


OPENAI_LIKE: Routes = {
    ("GET", "/v1/audio/voices"): _json(lambda e: {"voices": [{"id": v.id, "name": v.id} for v in _matching_voices(e, "")]}),
    ("GET", "/v1/audio/models"): _json(_speaking_models),
}
"""For the lists in Open WebUI's settings, which it reads from every speech server but OpenAI's: `get_available_voices` and
`get_available_models` of its `routers/audio.py`. Kokoro's own server has the voices, too."""
MODELS: Routes = {
    ("GET", "/v1/models"): _json(_models),
    ("GET", "/v1/models/{model_id}"): _json(_one_model),
}
MODELS_BARE: Routes = {("GET", "/v1/models"): _json(lambda e: listings.models_bare(e.gateway.current.catalog, view=_view(e)))}
"""Routes below a vendor's name only: at the root one address serves all vendors."""
