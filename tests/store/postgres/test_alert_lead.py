"""Two gateways with one database: one of them sends alerts, the other takes over, and each lets the other know what it sees."""

import time
from contextlib import asynccontextmanager

import psycopg
import pytest
import trio
import trio.lowlevel

from gw.alerts import monitor
from gw.errors import AlertsLedElsewhere, StoreError, StoreUnavailable
from gw.store.alert_rows import AlertChange
from gw.store.entity_rows import Change
from gw.store.postgres.alert_lead import AlertLead
from gw.types.alerts import Mute, Sighting
from gw.types.secret import Secret
from gw.types.usage import NANO
from tests.fakes import databases
from tests.fakes.alert_receiver import SECRET, loopback_receiver
from tests.fakes.temporary_gateway import SetClock, open_test_gateway

CHANGE = Change(alerts=AlertChange(mutes=(Mute(rule="error_rate", until=5.0),)))
SEEN = Sighting(rule="slots_full", subject="openai", severity="warning", text="It is full.")


@pytest.fixture(params=databases.POSTGRES)
def url(request, postgres):
    return databases.fresh_url()


@asynccontextmanager
async def leads(url, *names):
    opened = [AlertLead(Secret(url), name) for name in names]
    try:
        yield opened
    finally:
        for lead in opened:
            await lead.aclose()


async def test_one_leads_and_the_other_when_it_is_gone(url):
    async with leads(url, "a", "b") as (first, second):
        await first.wait()
        await first.write(CHANGE)
        with pytest.raises(AlertsLedElsewhere):
            await second.write(CHANGE)
        with pytest.raises(AlertsLedElsewhere):
            await second.confirm()
        await first.confirm()
        await first.aclose()
        with trio.fail_after(60):
            await second.wait()
        await second.write(CHANGE)


async def test_a_leader_whose_session_ends_leads_again_or_learns_that_another_one_does(url):
    async with leads(url, "a", "b") as (first, second):
        await first.wait()
        _end_sessions(url)
        await _until_whole(first.confirm)
        _end_sessions(url)
        with trio.fail_after(60):
            while True:
                try:
                    await second.confirm()
                    break
                except StoreError:
                    await trio.lowlevel.checkpoint()
        with pytest.raises(AlertsLedElsewhere):
            await _until_whole(first.write, CHANGE)


async def _until_whole(work, *arguments):
    """Call again while the session that was ended is noticed."""
    with trio.fail_after(60):
        while True:
            try:
                return await work(*arguments)
            except StoreUnavailable:
                continue


def _end_sessions(url):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'gw' and pid <> pg_backend_pid()")


async def test_sightings_of_others_are_read_while_they_are_fresh(url):
    async with leads(url, "a", "b") as (first, second):
        await first.publish([SEEN], 1_000.0)
        assert list(await second.seen_elsewhere(1_030.0)) == [SEEN]
        assert list(await first.seen_elsewhere(1_030.0)) == []
        assert list(await second.seen_elsewhere(1_100.0)) == []
        await first.publish([], 1_040.0)
        assert list(await second.seen_elsewhere(1_041.0)) == []


async def test_two_gateways_send_one_message_about_what_either_sees(tmp_path, url):
    with loopback_receiver(time.time) as (receiver, address):
        async with trio.open_nursery() as nursery:
            gateways = []

            async def run(name, task_status):
                text = f"""
providers: {{sim: {{}}}}
models: {{llm: [sim/echo]}}
projects: {{one: {{daily_budget: 1}}, two: {{daily_budget: 1}}}}
cost_tracking: {{database: "{url}"}}
fleet: {{instance: {name}}}
alerts: {{check_s: 1, recovered_after_s: 0, disabled: [budget_warning], receivers: {{oncall: {{url: "{address}", secret: {SECRET}}}}}}}
"""
                (tmp_path / name).mkdir()
                async with open_test_gateway(tmp_path / name, text, LiveClock()) as gateway, trio.open_nursery() as inner:
                    gateways.append((gateway, inner))
                    inner.start_soon(monitor.run, gateway)
                    task_status.started()

            await nursery.start(run, "gw-1")
            await nursery.start(run, "gw-2")
            (first, running), (second, _) = gateways
            spend(first, "one", 2 * NANO)
            spend(second, "two", 2 * NANO)
            wanted = {("raised", "budget_exceeded", f"project {name} day") for name in ("one", "two")}
            await trio.to_thread.run_sync(receiver.wait_for, lambda r: set(r.incidents) == wanted, 60)
            running.cancel_scope.cancel()  # the one that leads; what only that one sees ends with it
            spend(second, "two", -2 * NANO)
            wanted |= {("recovered", "budget_exceeded", f"project {name} day") for name in ("one", "two")}
            await trio.to_thread.run_sync(receiver.wait_for, lambda r: set(r.incidents) == wanted, 60)
            nursery.cancel_scope.cancel()
        assert len(receiver.incidents) == len(set(receiver.incidents))


def spend(gateway, project, nusd):
    """Count what a project has spent, or take it back."""
    gateway.ledger.count_elsewhere(project, gateway.ledger.day, nusd, 0)


class LiveClock(SetClock):
    def now(self):
        return time.time()
