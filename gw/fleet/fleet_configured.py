"""Opens the server of a fleet that a configuration names, and what gateways keep there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Protocol

import structlog

from gw.config.fleet_rules import check_fleet, fleet_error
from gw.config.settings import Settings
from gw.errors import BankUnreachable
from gw.fleet.shared_phrases import SeenClears, SharedPhrases
from gw.fleet.valkey_bank import ValkeyBank, open_bank
from gw.fleet.valkey_phrases import PhraseClear, open_phrases
from gw.fleet.valkey_turns import ValkeyTurns, open_turns
from gw.policy.phrase_cache import PhraseCache
from gw.types.bank_address import BankAddress

_log = structlog.get_logger("gw.fleet")


class ClearableDisk(SeenClears, Protocol):
    """Phrases on the disk of this gateway."""

    async def clear(self, *, project: str | None = None, model_id: str | None = None, voice: str | None = None) -> int: ...


@asynccontextmanager
async def open_configured_bank(settings: Settings) -> AsyncIterator[ValkeyBank]:
    """Connect to the bank of the fleet. Raise ConfigError naming the setting: without it, no limit would hold from the start."""
    check_fleet(settings)
    async with AsyncExitStack() as opened:
        try:
            bank = await opened.enter_async_context(open_bank(BankAddress.parse(settings.fleet.valkey.reveal()), settings.fleet.name))
        except BankUnreachable as error:
            raise fleet_error(settings, error.message) from None
        yield bank


@asynccontextmanager
async def open_configured_turns(settings: Settings) -> AsyncIterator[ValkeyTurns]:
    """Connect to the channel for turns. Raise ConfigError naming the setting."""
    async with AsyncExitStack() as opened:
        try:
            board = await opened.enter_async_context(open_turns(BankAddress.parse(settings.fleet.valkey.reveal()), settings.fleet.name))
        except BankUnreachable as error:
            raise fleet_error(settings, error.message) from None
        yield board


def configured_phrases(settings: Settings, cache: PhraseCache, disk: ClearableDisk | None) -> SharedPhrases | None:
    """Return what keeps the phrases of a cache in the fleet by the settings; None where nothing is kept there."""
    fleet = settings.fleet
    if not fleet.valkey or not fleet.phrase_cache_mb:
        return None
    if not settings.secret:
        if any(project.phrase_cache is not None for project in settings.projects.values()):
            _log.warning("phrases_not_shared", why="GW_SECRET is not set, with which they are encrypted")
        return None

    async def forget(which: PhraseClear) -> None:
        if disk is not None:
            await disk.clear(project=which.project, model_id=which.model_id, voice=which.voice)
        cache.clear(project=which.project, model_id=which.model_id, voice=which.voice)

    return SharedPhrases(
        partial(open_phrases, BankAddress.parse(fleet.valkey.reveal()), fleet.name), settings.secret, settings.previous_secret,
        max_bytes=int(fleet.phrase_cache_mb * 1_000_000), wait_s=fleet.wait_ms / 1000, forget=forget, disk=disk,
    )  # fmt: skip
