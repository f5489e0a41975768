from __future__ import annotations

import msgspec

from gw.admin.fleet_status import fleet_page, fleet_status
from gw.errors import BankUnreachable
from gw.policy.spend_periods import first_day
from gw.types.bank import AccountStatus, BankStatus, MemberStatus, ShareStatus

DAY = 20_000
STATUS = BankStatus(
    members=[MemberStatus("gw-2", "2", None), MemberStatus("gw-1", "1", 0.4)],
    accounts=[
        AccountStatus("slots:provider:openai", "slots", 6, 0, 2, (ShareStatus("gw-1", 0, 2),)),
        AccountStatus(f"budget:project:day:{DAY}:shop", "budget", 5 * 10**9, 2 * 10**9, 10**8, (ShareStatus("gw-1", 2 * 10**9, 10**8),)),
        AccountStatus(f"budget:project:day:{DAY - 1}:shop", "budget", 5 * 10**9, 0, 0, ()),
        AccountStatus(f"budget:key:month:{first_day('month', DAY)}:till", "budget", 9 * 10**9, 10**9, 0, ()),
        AccountStatus(f"budget:project:total:{first_day('total', DAY)}:shop", "budget", 8 * 10**9, 10**9, 0, ()),
    ],
)


class Bank:
    def __init__(self, away=False):
        self.away = away

    async def status(self):
        if self.away:
            raise BankUnreachable(address="valkey.internal:6379", why="no answer")
        return STATUS


def test_amounts_are_in_usd_and_days_that_are_over_are_left_out():
    status = fleet_status(STATUS, DAY)
    assert [(member.instance, member.last_seen_s) for member in status.members] == [("gw-1", 0.4), ("gw-2", None)]
    assert [(one.account, one.limit, one.used, one.open) for one in status.accounts] == [
        ("monthly budget of key till", 9.0, 1.0, 0.0), ("budget shop", 5.0, 2.0, 0.1), ("total budget shop", 8.0, 1.0, 0.0),
        ("slots provider openai", 6, 0, 2),
    ]  # fmt: skip
    assert msgspec.to_builtins(status.accounts[1].shares) == [{"instance": "gw-1", "used": 2.0, "open": 0.1}]


async def test_the_page_says_why_the_server_cannot_be_reached():
    facts = {"name": "production", "instance": "gw-1", "alone_s": 3.0}
    page = await fleet_page(Bank(), DAY, why_alone="", **facts)
    assert (page.problem, len(page.members), page.instance) == ("", 2, "gw-1")
    page = await fleet_page(Bank(away=True), DAY, why_alone="", **facts)
    assert (page.members, page.problem) == ([], "the fleet's Valkey server at valkey.internal:6379 cannot be used: no answer")
    assert (await fleet_page(Bank(), DAY, why_alone="replaced", **facts)).problem == "replaced"
