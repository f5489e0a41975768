from datetime import UTC, datetime

import attrs
import msgspec
import pytest
import trio

from gw.alerts.monitor import severities_that_wait
from gw.config.alert_settings import AlertSettings
from gw.policy.quiet_times import QuietTime
from gw.store.alert_rows import AlertChange
from gw.store.entity_rows import Change
from gw.types.alerts import Mute
from tests.fakes.alert_receiver import AlertReceiver

SHOP = "projects: {shop: {daily_budget: 1.0, budget_action: block}}"


def spend(gateway, project, nusd):
    gateway.ledger.settle(gateway.ledger.reserve(project, 0), nusd)


async def test_a_spent_budget_gives_one_message_and_the_next_day_another(watch, mock_clock):
    async with watch("oncall", text=SHOP) as watched:
        receiver = watched.receivers["oncall"]
        await watched.time.go_on(60)
        assert receiver.accepted == []
        spend(watched.gateway, "shop", 1_200_000_000)
        await watched.time.go_on(3_000)
        assert receiver.incidents == [
            ("raised", "budget_exceeded", "project shop day"), ("raised", "budget_warning", "project shop day")
        ]
        (message,) = receiver.accepted
        assert message["type"] == "alerts.incidents"
        assert message["data"]["incidents"][0]["text"] == (
            "project shop has spent $1.2 of its budget of $1 (day): requests are refused."
        )
        await watched.time.go_on(13 * 3_600, step_s=60)
        assert [kind for kind, _, _ in receiver.incidents][2:] == ["reminder"] * 11 + ["recovered"] * 2


async def test_an_incident_outlives_the_gateway(watch, mock_clock):
    receivers = {"oncall": AlertReceiver(lambda: 0.0)}
    for spent in (1_200_000_000, 1_200_000_000, 0):
        async with watch("oncall", text=SHOP, alerts="  disabled: [budget_warning]", receivers=receivers) as watched:
            receivers["oncall"].clock = watched.time.now
            spend(watched.gateway, "shop", spent)
            await watched.time.go_on(300)
    assert receivers["oncall"].incidents == [
        ("raised", "budget_exceeded", "project shop day"), ("recovered", "budget_exceeded", "project shop day")
    ]


async def test_a_dead_webhook_delays_nothing_and_loses_nothing_in_24_hours(watch, mock_clock):
    modes = {"failing": "fail", "hanging": "hang", "closing": "close", "waiting": "wait"}
    async with watch("well", "refusing", *modes, text=SHOP, alerts="  check_s: 60\n  recovered_after_s: 60") as watched:
        for name, mode in modes.items():
            watched.receivers[name].mode = mode
        watched.net.hosts["refusing.example", 443] = ConnectionRefusedError("connection refused")
        gateway, well = watched.gateway, watched.receivers["well"]
        for hour in range(12):
            gateway.failed_reload = "gw.yaml:1:1: it is wrong"
            await watched.time.go_on(3_600, step_s=30, until=lambda n=2 * hour + 1: len(well.accepted) == n)
            assert len(well.accepted) == 2 * hour + 1
            began = well.accepted[-1]["data"]["incidents"][0]["opened_at"]
            assert watched.time.now() - began <= 60
            gateway.failed_reload = ""
            await watched.time.go_on(7_200 - (watched.time.now() - watched.time.began) % 7_200, step_s=30)
            assert len(well.accepted) == 2 * hour + 2
        assert watched.time.now() - watched.time.began == 86_400
        assert [kind for kind, _, _ in well.incidents] == ["raised", "recovered"] * 12
        assert all(receiver.accepted == [] for name, receiver in watched.receivers.items() if name != "well")
        for receiver in watched.receivers.values():
            receiver.mode = "accept"
        watched.net.hosts["refusing.example", 443] = watched.receivers["refusing"].serve
        await watched.time.go_on(400)
        for name, receiver in watched.receivers.items():
            assert receiver.accepted == well.accepted, name
            assert name == "well" or receiver.tries <= 24 + 86_400 / 300 + 20
        state = await gateway.store.alerts(watched.time.now(), since=0, limit=100)
        assert state.pending == []


async def test_a_muted_rule_is_not_sent(watch, mock_clock):
    async with watch("oncall", text=SHOP, alerts="  disabled: [budget_warning]") as watched:
        mute = Mute(rule="budget_exceeded", until=watched.time.now() + 3_600)
        await watched.gateway.store.change(Change(alerts=AlertChange(mutes=(mute,))))
        spend(watched.gateway, "shop", 1_200_000_000)
        await watched.time.go_on(3_500)
        assert watched.receivers["oncall"].accepted == []
        await watched.time.go_on(200)
        assert watched.receivers["oncall"].incidents == [("raised", "budget_exceeded", "project shop day")]


async def test_quiet_times_are_local(watch, mock_clock):
    alerts = "  quiet: ['12:00-14:00']\n  time_zone: Europe/Berlin\n  disabled: [budget_exceeded]"  # it is 13:00 in Berlin
    async with watch("oncall", text=SHOP, alerts=alerts) as watched:
        spend(watched.gateway, "shop", 900_000_000)
        await watched.time.go_on(3_590)
        assert watched.receivers["oncall"].accepted == []
        await watched.time.go_on(30)
        assert watched.receivers["oncall"].incidents == [("raised", "budget_warning", "project shop day")]


@pytest.mark.parametrize(
    ("quiet", "utc", "waits"),
    [
        ("22:00-07:00", "2026-03-28T21:59", True),  # 22:59 in Berlin
        ("22:00-07:00", "2026-03-28T20:59", False),
        ("22:00-07:00", "2026-03-28T22:59", True),  # a minute before midnight, and midnight
        ("22:00-07:00", "2026-03-28T23:00", True),
        ("22:00-07:00", "2026-03-29T04:59", True),  # 06:59, an hour of that night less
        ("22:00-07:00", "2026-03-29T05:00", False),
        ("02:15-03:15", "2026-03-29T00:59", False),  # 01:59, followed by 03:00
        ("02:15-03:15", "2026-03-29T01:00", True),
        ("02:15-03:15", "2026-03-29T01:15", False),
        ("02:15-02:45", "2026-10-25T00:30", True),  # 02:30 for the first time
        ("02:15-02:45", "2026-10-25T00:50", False),
        ("02:15-02:45", "2026-10-25T01:30", True),  # and for the second time
        ("sat-sun 00:00-24:00", "2026-10-25T22:59", True),  # 23:59 on Sunday
        ("sat-sun 00:00-24:00", "2026-10-25T23:00", False),
        ("fri 22:00-06:00", "2026-06-26T22:00", True),  # midnight of Friday to Saturday
        ("fri 22:00-06:00", "2026-06-25T22:00", False),
    ],
)
def test_quiet_times_at_midnight_and_when_clocks_change(quiet, utc, waits):
    settings = AlertSettings(quiet=(QuietTime.parse(quiet),), time_zone="Europe/Berlin")
    now = datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp()
    assert severities_that_wait(settings, now) == (("warning",) if waits else ())
    assert severities_that_wait(msgspec.structs.replace(settings, quiet_critical=True), now) == (("warning", "critical") if waits else ())


async def test_while_the_database_cannot_be_written_messages_are_sent_from_memory(watch, mock_clock, tmp_path):
    import apsw

    async with watch("oncall", alerts="  recovered_after_s: 0") as watched:
        foreign = apsw.Connection(str(tmp_path / "gw.db"))
        foreign.execute("begin immediate")
        watched.gateway.failed_reload = "it is wrong"
        with trio.fail_after(20_000):
            await watched.time.go_on(300)
        foreign.execute("rollback")
        foreign.close()
        assert ("raised", "gateway_degraded", "reload_failed") in watched.receivers["oncall"].incidents
        watched.gateway.failed_reload = ""
        await watched.time.go_on(300)
        assert watched.receivers["oncall"].incidents[-1][0] == "recovered"
        state = await watched.gateway.store.alerts(watched.time.now(), since=0, limit=100)
        assert state.pending == []
        assert all(incident.closed_at for incident in state.incidents)


async def test_without_a_receiver_nothing_is_evaluated_until_a_reload_brings_one(watch, mock_clock):
    async with watch(text=SHOP) as watched:
        spend(watched.gateway, "shop", 1_200_000_000)
        await watched.time.go_on(600)
        state = await watched.gateway.store.alerts(watched.time.now(), since=0, limit=10)
        assert state.incidents == []


@pytest.mark.parametrize("name", ["oncall", "other"])
async def test_a_reload_changes_the_receivers(watch, mock_clock, name):
    async with watch("oncall", "other", text=SHOP, alerts="  disabled: [budget_warning]") as watched:
        alerts = watched.gateway.settings.alerts
        kept = {name: alerts.receivers[name]}
        watched.gateway.settings = attrs.evolve(watched.gateway.settings, alerts=msgspec.structs.replace(alerts, receivers=kept))
        spend(watched.gateway, "shop", 1_200_000_000)
        await watched.time.go_on(60)
        assert {name for name, receiver in watched.receivers.items() if receiver.accepted} == {name}
