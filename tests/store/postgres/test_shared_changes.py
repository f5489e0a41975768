"""Changes of entities by several gateways on one database: one at a time, and known to the others within a second."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest
import trio

from gw.errors import StoreUnavailable
from gw.store.entity_rows import Change
from gw.store.postgres.postgres_store import open_postgres_store
from gw.store.postgres.shared_changes import CHANNEL, CHECK_S, LOST_S, SharedChanges
from gw.types.entities import Project
from gw.types.secret import Secret
from tests.fakes import databases
from tests.fakes.records import HandClock
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import ADMIN, WITH_AUTH, YAML

pytestmark = pytest.mark.parametrize("kind", databases.POSTGRES)
SECRET = "a secret of thirty-two characters"


@pytest.fixture
def url(postgres):
    return databases.fresh_url()


@asynccontextmanager
async def gateways(folder, url, count=2):
    async with AsyncExitStack() as opened:
        members = []
        for n in range(count):
            (folder / str(n)).mkdir()
            text = f"{YAML}{WITH_AUTH}\ncost_tracking: {{database: {url!r}}}\nfleet: {{instance: gw-{n}}}\n"
            members.append(await opened.enter_async_context(open_running(folder / str(n), text, secret=SECRET)))
        yield members


async def seen(true):
    """Wait until `true()` holds."""
    with trio.fail_after(60):
        while not true():
            await trio.to_thread.run_sync(threading.Event().wait, 0.01)


async def test_a_key_works_everywhere_and_is_revoked_everywhere_within_a_second(kind, url, tmp_path):
    assert CHECK_S < 1, "the longest wait of a gateway that misses the message"
    async with gateways(tmp_path, url, 3) as (one, two, three):
        key = (await one.ask("POST", "/v1/keys", {"project": "shop", "name": "new"}, **ADMIN)).json
        bearer = {"authorization": f"Bearer {key['key']}"}
        chat = {"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]}
        for other in (two, three):
            await seen(lambda other=other: ("key", key["key_id"]) in other.gateway.registrar.stored)
            assert (await other.ask("POST", "/v1/chat/completions", chat, **bearer)).status == 200
        assert (await two.ask("DELETE", f"/v1/keys/{key['key_id']}?confirm=true", **ADMIN)).status == 200
        for other in (one, three):
            await seen(lambda other=other: ("key", key["key_id"]) not in other.gateway.registrar.stored)
            assert (await other.ask("POST", "/v1/chat/completions", chat, **bearer)).status == 401
        log = [entry["action"] for entry in (await three.get("/v1/audit-log", **ADMIN)).json]
        assert log == ["delete", "create"]


async def test_a_stored_provider_key_reaches_a_gateway_that_had_none(kind, url, tmp_path):
    async with gateways(tmp_path, url) as (one, two):
        body = {"provider_id": "extra", "provider_type": "openai", "api_key": "sk-0123456789abcdef"}
        assert (await one.ask("POST", "/v1/providers", body, **ADMIN)).status == 200
        await seen(lambda: "extra" in two.gateway.current.catalog.providers)
        assert two.gateway.current.catalog.providers["extra"].api_key.reveal() == "sk-0123456789abcdef"


async def test_of_two_who_create_the_same_at_once_one_does(kind, url, tmp_path):
    async with gateways(tmp_path, url) as members:
        for n in range(5):
            statuses = []

            async def create(member, body, statuses=statuses):
                statuses.append((await member.ask("POST", "/v1/projects", body, **ADMIN)).status)

            async with trio.open_nursery() as nursery:
                for member in members:
                    nursery.start_soon(create, member, {"project_id": f"p{n}"})
            assert sorted(statuses) == [200, 409]
        for member in members:
            await seen(lambda member=member: {f"p{n}" for n in range(5)} <= set(member.gateway.current.catalog.projects))


async def test_a_listener_whose_connection_ends_catches_up(kind, url, tmp_path, postgres):
    async with gateways(tmp_path, url) as (one, two):
        ended = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'select version from entities_version%'"
        await trio.to_thread.run_sync(postgres().execute, ended)
        assert (await one.ask("POST", "/v1/projects", {"project_id": "late"}, **ADMIN)).status == 200
        await seen(lambda: "late" in two.gateway.current.catalog.projects)


async def test_a_lost_message_is_made_up_for(kind, url, tmp_path, postgres):
    async with gateways(tmp_path, url, 1) as (one,):
        change = "insert into gw.managed values ('project', 'silent', '{\"kind\":\"project\",\"id\":\"silent\"}');"
        await trio.to_thread.run_sync(postgres().execute, f"{change} update gw.entities_version set version = version + 1", "gw")
        await seen(lambda: "silent" in one.gateway.current.catalog.projects)


async def test_a_change_for_entities_that_others_have_changed_is_refused(kind, url, tmp_path):
    async with open_postgres_store(Secret(url), tmp_path / "gw.db", instance="gw", clock=HandClock()) as store:
        async with store.changing() as changed:
            assert changed, "the entities have not been read yet"
        await store.entities()
        async with store.changing() as changed:
            assert not changed
        with pytest.raises(StoreUnavailable, match="another gateway has changed the entities"):
            await store.shared.apply(Change(put=(Project(id="p"),)), store.shared.known - 1)
        assert await store.entities() == []


async def test_a_gateway_without_news_says_so(kind, url, tmp_path, mock_clock):
    shared = SharedChanges(Secret("postgresql://127.0.0.1:1/gw"))
    assert not shared.lost
    mock_clock.jump(LOST_S + 1)
    assert shared.lost


async def test_messages_are_sent_with_the_commit(kind, url, tmp_path, postgres):
    async with open_postgres_store(Secret(url), tmp_path / "gw.db", instance="gw", clock=HandClock()) as store:
        with psycopg.connect(url, autocommit=True) as listener:
            listener.execute(f"listen {CHANNEL}")
            await store.change(Change(put=(Project(id="p"),)))
            await store.change(Change(meta=(("a", "b"),)))
            listener.execute("select pg_notify(%s, 'the last')", (CHANNEL,))
            messages = list(listener.notifies(timeout=60, stop_after=2))
            assert [message.payload for message in messages] == [str(store.shared.known), "the last"]
