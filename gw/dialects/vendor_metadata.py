"""What clients of the voice vendors ask beside speech itself: which models and voices there are, what is left of a plan, and a
short-lived token for a browser.

The voices are the aliases of the configuration and the default voices of its models: names that any text-to-speech request
may give. A plan is the gateway's own business (budgets are in dollars), so what vendors count in characters has no end here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
import msgspec

from gw.admin import listings
from gw.dialects.auth import grant, query_fields
from gw.dialects.http_handler import JSON, Handler, HttpExchange, body_of
from gw.dialects.request_io import send_whole
from gw.errors import ClientProtocolError
from gw.registry.catalog import Catalog
from gw.wire.json_codec import BAD_JSON

_T = TypeVar("_T")
_MANY = 1_000_000_000
"""Stands for "no end" where a client wants a number."""
_PAGE = 100
_SINGLE_USE_S = 900
"""As long as ElevenLabs' tokens are good."""


class UnknownVoice(ClientProtocolError):
    status = 404
    code = "voice_not_found"


@attrs.frozen(kw_only=True)
class Voice:
    """`models`: ids of those that speak with it."""

    id: str
    models: tuple[str, ...]
    language: str | None


def voices_of(catalog: Catalog) -> list[Voice]:
    """Aliases first, each name once. An alias belongs to the models of every provider that it names."""
    found: dict[str, Voice] = {}
    speakers = list(catalog.by_modality["tts"].values())
    for alias, of in catalog.voices.items():
        providers = {id_ for id_, provider in catalog.providers.items() if id_ in of or provider.type in of}
        spoken = [model for model in speakers if model.provider in providers]
        language = next((model.default_language for model in spoken if model.default_language), None)
        found[alias] = Voice(id=alias, models=tuple(model.id for model in spoken), language=language)
    for model in speakers:
        if (name := model.default_voice) and name not in catalog.voices:
            known = found.get(name) or Voice(id=name, models=(), language=model.default_language)
            found[name] = attrs.evolve(known, models=(*known.models, model.id))
    return list(found.values())


async def _tell(exchange: HttpExchange, answer: object) -> None:
    await send_whole(exchange.send, 200, JSON, msgspec.json.encode(answer), exchange.id_headers)


def _asked(exchange: HttpExchange, *names: str) -> dict[str, str]:
    query: bytes = exchange.scope.get("query_string", b"")
    found = query_fields(query, [name.encode() for name in names])
    return {name.decode(): value.decode("utf-8", "replace") for name, value in found.items()}


def _count(text: str | None, usual: int, most: int, param: str) -> int:
    """Raises ClientProtocolError."""
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most):
        raise ClientProtocolError(what=f"{param} must be a number from 1 to {most}", param=param)
    return int(text)


def _named(exchange: HttpExchange) -> Voice:
    """The voice of the path. Raises UnknownVoice."""
    wanted = exchange.scope["path_params"]["voice"]
    for voice in voices_of(exchange.gateway.live.catalog):
        if voice.id == wanted:
            return voice
    raise UnknownVoice(what=f"no voice is called {wanted!r} here", param="voice_id")


# ---- models, the same body for all but one


async def models(exchange: HttpExchange) -> None:
    await _tell(exchange, listings.models(exchange.gateway.live.catalog, exchange.gateway.started_at))


async def models_bare(exchange: HttpExchange) -> None:
    await _tell(exchange, listings.models_bare(exchange.gateway.live.catalog))


# ---- ElevenLabs


def _elevenlabs_voice(voice: Voice) -> dict[str, Any]:
    verified = [{"language": voice.language, "model_id": model} for model in voice.models if voice.language]
    return {
        "voice_id": voice.id,
        "name": voice.id,
        "samples": None,
        "category": "premade",
        "labels": {"language": voice.language} if voice.language else {},
        "description": None,
        "preview_url": None,
        "available_for_tiers": [],
        "settings": None,
        "high_quality_base_model_ids": list(voice.models),
        "verified_languages": verified,
    }


async def elevenlabs_voices(exchange: HttpExchange) -> None:
    found = voices_of(exchange.gateway.live.catalog)
    await _tell(exchange, {"voices": [_elevenlabs_voice(voice) for voice in found]})


async def elevenlabs_page(exchange: HttpExchange) -> None:
    """`GET /v2/voices`; a page's token is the last voice of the page before."""
    asked = _asked(exchange, "search", "page_size", "next_page_token")
    found = voices_of(exchange.gateway.live.catalog)
    if wanted := asked.get("search", "").casefold():
        found = [voice for voice in found if wanted in voice.id.casefold()]
    size = _count(asked.get("page_size"), 10, _PAGE, "page_size")
    page, more = _page(found, asked.get("next_page_token"), size)
    await _tell(
        exchange,
        {
            "voices": [_elevenlabs_voice(voice) for voice in page],
            "has_more": more,
            "total_count": len(found),
            "next_page_token": page[-1].id if more else None,
        },
    )


def _page(found: list[Voice], after: str | None, size: int) -> tuple[list[Voice], bool]:
    """Those after the voice of that name, and whether there are more; none after a name that is not there."""
    if after:
        names = [voice.id for voice in found]
        found = found[names.index(after) + 1 :] if after in names else []
    return found[:size], len(found) > size


async def elevenlabs_voice(exchange: HttpExchange) -> None:
    await _tell(exchange, _elevenlabs_voice(_named(exchange)))


async def subscription(exchange: HttpExchange) -> None:
    await _tell(
        exchange,
        {
            "tier": "gateway",
            "status": "active",
            "character_count": 0,
            "character_limit": _MANY,
            "max_character_limit_extension": None,
            "max_credit_limit_extension": 0,
            "can_extend_character_limit": False,
            "allowed_to_extend_character_limit": False,
            "next_character_count_reset_unix": None,
            "voice_slots_used": 0,
            "professional_voice_slots_used": 0,
            "professional_voice_slots_used_in_workspace": 0,
            "voice_limit": 0,
            "max_voice_add_edits": 0,
            "voice_add_edit_counter": 0,
            "professional_voice_limit": 0,
            "can_extend_voice_limit": False,
            "can_use_instant_voice_cloning": False,
            "can_use_professional_voice_cloning": False,
            "currency": "usd",
            "current_overage": {"amount": "0", "currency": "usd"},
            "billing_period": None,
            "character_refresh_period": None,
            "open_invoices": [],
            "has_open_invoices": False,
        },
    )


async def single_use_token(exchange: HttpExchange) -> None:
    """For any of the vendor's uses."""
    await _tell(exchange, {"token": _grant(exchange, _SINGLE_USE_S, once=True)})


# ---- Cartesia


async def cartesia_status(exchange: HttpExchange) -> None:
    await _tell(exchange, {"ok": True, "version": exchange.gateway.version})


def _cartesia_voice(voice: Voice) -> dict[str, Any]:
    return {
        "id": voice.id,
        "name": voice.id,
        "tagline": "",
        "description": f"Spoken by {', '.join(voice.models)}" if voice.models else "",
        "language": voice.language or "en",
        "locales": [],
        "access": "private",
        "visibility": "all",
        "is_owner": True,
        "is_public": False,
        "created_at": "1970-01-01T00:00:00Z",
    }


async def cartesia_voices(exchange: HttpExchange) -> None:
    """A page begins after `starting_after`; the SDK asks on until a page is empty."""
    asked = _asked(exchange, "q", "limit", "starting_after")
    found = voices_of(exchange.gateway.live.catalog)
    if wanted := asked.get("q", "").casefold():
        found = [voice for voice in found if wanted in voice.id.casefold()]
    page, more = _page(found, asked.get("starting_after"), _count(asked.get("limit"), 10, _PAGE, "limit"))
    told = [_cartesia_voice(voice) for voice in page]
    await _tell(exchange, {"data": told, "has_more": more, "next_page": page[-1].id if more else None})


async def cartesia_voice(exchange: HttpExchange) -> None:
    await _tell(exchange, _cartesia_voice(_named(exchange)))


class _AccessToken(msgspec.Struct):
    expires_in: int | None = None


async def cartesia_token(exchange: HttpExchange) -> None:
    """Whatever `grants` it names: a key of this gateway is for all that its project may do."""
    asked = await _told(exchange, _AccessToken)
    lifetime_s = _within(asked.expires_in, 60, 3_600, "expires_in")
    await _tell(exchange, {"token": _grant(exchange, lifetime_s)})


# ---- Deepgram and AssemblyAI


class _Ttl(msgspec.Struct):
    ttl_seconds: int | None = None


async def deepgram_grant(exchange: HttpExchange) -> None:
    asked = await _told(exchange, _Ttl)
    lifetime_s = _within(asked.ttl_seconds, 30, 3_600, "ttl_seconds")
    await _tell(exchange, {"access_token": _grant(exchange, lifetime_s), "expires_in": lifetime_s})


async def assemblyai_token(exchange: HttpExchange) -> None:
    asked = _asked(exchange, "expires_in_seconds")
    lifetime_s = _count(asked.get("expires_in_seconds"), 60, 600, "expires_in_seconds")
    await _tell(exchange, {"token": _grant(exchange, lifetime_s), "expires_in_seconds": lifetime_s})


# ---- tokens


def _grant(exchange: HttpExchange, lifetime_s: int, *, once: bool = False) -> str:
    return grant(exchange.gateway, exchange.scope, exchange.caller.project, lifetime_s, once=once)


def _within(asked: int | None, usual: int, most: int, param: str) -> int:
    return usual if asked is None else _count(str(asked), usual, most, param)


async def _told(exchange: HttpExchange, shape: type[_T]) -> _T:
    """The body, which may be left out. Raises ClientProtocolError."""
    try:
        return msgspec.json.decode(await body_of(exchange) or b"{}", type=shape)
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"the body is not the JSON expected: {error}") from None


ELEVENLABS: Mapping[tuple[str, str], Handler] = {
    ("GET", "/v1/voices"): elevenlabs_voices,
    ("GET", "/v2/voices"): elevenlabs_page,
    ("GET", "/v1/voices/{voice}"): elevenlabs_voice,
    ("GET", "/v1/user/subscription"): subscription,
    ("POST", "/v1/single-use-token/{type}"): single_use_token,
}
CARTESIA: Mapping[tuple[str, str], Handler] = {
    ("GET", "/voices"): cartesia_voices,
    ("GET", "/voices/{voice}"): cartesia_voice,
    ("POST", "/access-token"): cartesia_token,
}
CARTESIA_ALONE: Mapping[tuple[str, str], Handler] = {("GET", "/"): cartesia_status, ("GET", ""): cartesia_status}
"""Of the vendor's mount: the root has a front page."""
DEEPGRAM: Mapping[tuple[str, str], Handler] = {("POST", "/v1/auth/grant"): deepgram_grant}
ASSEMBLYAI: Mapping[tuple[str, str], Handler] = {("GET", "/v3/token"): assemblyai_token}
MODELS: Mapping[tuple[str, str], Handler] = {("GET", "/v1/models"): models}
MODELS_BARE: Mapping[tuple[str, str], Handler] = {("GET", "/v1/models"): models_bare}
"""Of the mounts: at the root one address serves all vendors."""
