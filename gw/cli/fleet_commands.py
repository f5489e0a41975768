"""`gw fleet`: which gateways share budgets and limits, and what each has used or leased of them. Speaks to the Valkey server itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gw.cli.config_file import load
from gw.cli.main import CONFIG, CommandFailed
from gw.cli.output import Cell, aside, print_answer
from gw.cli.resource import json_option
from gw.types.bank_address import BankAddress
from gw.types.usage import NANO

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
    """Show each gateway, when it last spoke to the server, and what it has used and leased of today's budgets and of rates.

    Budgets are in USD, rates in calls. A gateway that is gone keeps its lease of a budget: start it again, and it
    says what it has really used, or see `gw fleet forget`.
    """
    members, accounts = _with_bank(config, lambda bank: bank.status())
    current = [_account(*account) for account in accounts if _is_current(account[0])]
    answer = {"members": [{"instance": name, "last_seen_ms": int(age) if age else None} for name, _, age in members], "accounts": current}
    rows: list[tuple[Cell, ...]] = []
    for name, _, age in sorted(members):
        begin: tuple[Cell, ...] = (name, "here", round(int(age) / 1000, 1)) if age else (name, "gone", None)
        shares = [
            (*begin, account["account"], share["used"], share["open"], account["limit"])
            for account in current for share in account["shares"] if share["instance"] == name
        ]  # fmt: skip
        rows += shares or [(*begin, None, None, None, None)]
    print_answer(answer, _MEMBERS, rows, as_json=as_json)


@fleet.command()
@click.argument("instance")
@_config
def forget(instance: str, config: Path | None) -> None:
    """Free what a gateway had leased that will not come back. What it is known to have used stays counted.

    Only for one whose database is lost: a gateway that starts again reports what it has used, and frees the rest by itself.
    """

    async def leave(bank: ValkeyBank) -> None:
        members, accounts = await bank.status()
        known = {name for name, _, _ in members} | {name for account in accounts for name, _, _ in account[5]}
        if instance not in known:
            raise CommandFailed(f"the fleet has no gateway {instance!r}; it has {', '.join(sorted(known)) or 'none'}")
        if any(name == instance and age for name, _, age in members):
            raise CommandFailed(f"{instance!r} is still running: stop it first")
        await bank.leave(instance, "")

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


def _is_current(account: str) -> bool:
    """Return whether an account is not a budget of an earlier day."""
    kind, _, rest = account.partition(":")
    return kind != "budget" or int(rest.partition(":")[0]) >= _today()


def _today() -> int:
    return (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(days=1)


def _account(account: str, kind: str, limit: str, used: str, open_: str, shares: list[tuple[str, str, str]]) -> Mapping[str, Any]:
    """Return one account for people: budgets in USD, without the number of the day."""

    def amount(text: str) -> float | int:
        return int(text) / NANO if kind == "budget" else int(text)

    parts = account.split(":", 2)
    name = f"budget {parts[2]}" if kind == "budget" else account.replace(":", " ", 1)
    of = [{"instance": member, "used": amount(a), "open": amount(b)} for member, a, b in shares]
    return {"account": name, "kind": kind, "limit": amount(limit), "used": amount(used), "open": amount(open_), "shares": of}
