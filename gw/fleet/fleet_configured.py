"""The server of a fleet that a configuration names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from gw.config.fleet_rules import check_fleet, fleet_error
from gw.config.settings import Settings
from gw.errors import BankUnreachable
from gw.fleet.valkey_bank import ValkeyBank, open_bank
from gw.fleet.valkey_turns import ValkeyTurns, open_turns
from gw.types.bank_address import BankAddress


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
