"""Reads the accounts of a fleet's server by the gateway's own client, which gives up early: on a busy machine again and again."""

from __future__ import annotations

from contextlib import suppress

import trio

from gw.errors import BankUnreachable
from gw.types.bank import BankStatus
from gw.types.bank_address import BankAddress

WITHIN_S = 60


async def bank_status(url: str, fleet: str) -> BankStatus:
    from gw.fleet.valkey_bank import open_bank

    with trio.fail_after(WITHIN_S):
        while True:
            with suppress(BankUnreachable):
                async with open_bank(BankAddress.parse(url), fleet) as bank:
                    return await bank.status()
