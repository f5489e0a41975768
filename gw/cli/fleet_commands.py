"""`gw fleet`: which gateways share budgets and limits, and what each has used or leased of them. Speaks to the Valkey server itself."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from gw.cli.config_file import load
from gw.cli.main import CONFIG, CommandFailed
from gw.cli.output import Cell, aside, print_answer
from gw.cli.resource import json_option
from gw.telemetry.clock import utc_day
from gw.types.bank_address import BankAddress

if TYPE_CHECKING:
    from gw.config.settings import FleetSettings
    from gw.fleet.valkey_bank import ValkeyBank

T = TypeVar("T")
_config = click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
_MEMBERS = ("instance", "state", "last_seen_s", "account", "used", "open", "limit")


@click.group()
def fleet() -> None:
    """Show the gateways of a fleet, or forget one that will not come back.

    A fleet has `fleet.valkey` in its gw.yaml. These commands need a gw.yaml of it, and no running gateway.
    """


@fleet.command()
@_config
@json_option("The answer as JSON.")
def status(config: Path | None, as_json: bool) -> None:
    """Show each gateway, when it last spoke to the server, and what it has used and leased of today's budgets, of rates and of slots.

    Budgets are in USD, rates and slots in calls. A gateway that is gone keeps its lease of a budget: start it again, and it
    says what it has really used, or see `gw fleet forget`.
    """
    from gw.admin.fleet_status import fleet_status

    answer = fleet_status(_with_bank(config, lambda bank: bank.status()), utc_day(time.time()))
    rows: list[tuple[Cell, ...]] = []
    for member in answer.members:
        seen_s = member.last_seen_s
        begin: tuple[Cell, ...] = (member.instance, "gone" if seen_s is None else "here", None if seen_s is None else round(seen_s, 1))
        shares = [
            (*begin, account.account, share.used, share.open, account.limit)
            for account in answer.accounts for share in account.shares if share.instance == member.instance
        ]  # fmt: skip
        rows += shares or [(*begin, None, None, None, None)]
    print_answer(msgspec.to_builtins(answer), _MEMBERS, rows, as_json=as_json)


@fleet.command()
@click.argument("instance")
@_config
def forget(instance: str, config: Path | None) -> None:
    """Free what a gateway and its workers had leased that will not come back. What they are known to have used stays counted.

    Only for one whose database is lost: a gateway that starts again reports what it has used, and frees the rest by itself.
    """

    async def leave(bank: ValkeyBank) -> None:
        status = await bank.status()
        known = {one.instance for one in status.members} | {share.instance for one in status.accounts for share in one.shares}
        if instance not in known:
            raise CommandFailed(f"the fleet has no gateway {instance!r}; it has {', '.join(sorted(known)) or 'none'}")
        its_own = [name for name in sorted(known) if name == instance or name.startswith(f"{instance}/")]  # the others are its workers
        if any(member.instance in its_own and member.seen_s is not None for member in status.members):
            raise CommandFailed(f"{instance!r} is still running: stop it first")
        for name in its_own:
            await bank.leave(name, "")

    _with_bank(config, leave)
    aside(f"freed what {instance} had leased")


def _with_bank(config: Path | None, action: Callable[[ValkeyBank], Awaitable[T]]) -> T:
    """Connect to the fleet's server and return what `action` returns. Raise CommandFailed, ConfigError or BankUnreachable."""
    import trio

    from gw.config.fleet_rules import check_fleet

    settings = load(config)
    if not settings.fleet.valkey:
        raise CommandFailed("gw.yaml has no fleet.valkey, so this gateway runs alone", CONFIG)
    check_fleet(settings)
    return trio.run(partial(_connected, settings.fleet, action))


async def _connected(settings: FleetSettings, action: Callable[[ValkeyBank], Awaitable[T]]) -> T:
    from gw.fleet.valkey_bank import open_bank

    async with open_bank(BankAddress.parse(settings.valkey.reveal()), settings.name) as bank:
        return await action(bank)
