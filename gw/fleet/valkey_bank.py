"""The bank of a fleet: Valkey, or Redis from version 7 on, which counts for all gateways with one atomic script.

Every call ends within CALL_S: a server that is away, stopped or behind a broken network raises BankUnreachable, and the client
connects again by itself. `glide` is imported here only, when a fleet is configured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
import trio

from gw.errors import BankUnreachable
from gw.fleet.valkey_script import EXCHANGE, JOIN, LEAVE, STATUS
from gw.types.bank import (
    MEMBER_DEAD_S,
    AccountStatus,
    Ask,
    BankStatus,
    Exchange,
    LeaseGrant,
    LeaseKind,
    MemberStatus,
    ShareStatus,
)
from gw.types.bank_address import BankAddress
from gw.types.notices import GateNotice

if TYPE_CHECKING:
    from glide import GlideClient, GlideClusterClient, Script

CALL_S = 0.25
CONNECT_S = 3.0
SETTLE_S = 2.5
"""A bank that is younger grants no budget: after a loss of its memory, each member says within a heartbeat what it has used."""
_OLDEST = 7
_UNANSWERED = 100
"""Calls that ended without an answer, whose keys and arguments are kept: the client would write memory that is free to the server."""

_log = structlog.get_logger("gw.fleet")


class ValkeyBank:
    """A connection to the server. `open_bank` makes it."""

    def __init__(self, client: GlideClient | GlideClusterClient, address: BankAddress, fleet: str, settle_s: float) -> None:
        from glide import Script

        self._client = client
        self._address = address
        self._prefix = f"gw:{{{fleet}}}:"
        self._settle_ms = str(int(settle_s * 1000))
        self._unanswered = deque[tuple[list[bytes], list[bytes]]](maxlen=_UNANSWERED)
        self._keys = [self._prefix + name for name in ("seen", "runs", "born", "accounts")]
        self._exchange, self._leave, self._status = Script(EXCHANGE), Script(LEAVE), Script(STATUS)
        self._join = Script(JOIN)
        self._channel = channel_of(fleet)

    async def join(self, member: str) -> str:
        name = await self._run(self._join, [self._prefix + "joins", self._prefix + "runs"], [member])
        return str(name.decode())

    async def exchange(self, member: str, run: str, number: int, asks: Sequence[Ask]) -> Exchange:
        arguments = [member, run, str(number), self._settle_ms, str(int(MEMBER_DEAD_S * 1000))]
        for ask in asks:
            figures = (ask.limit, ask.used, ask.open, ask.want, ask.need, ask.least)
            arguments += [ask.kind, *map(str, figures)]
        keys = [f"{self._prefix}account:{ask.account}" for ask in asks]
        members, replaced, *grants = await self._run(self._exchange, [*self._keys, *keys], arguments)
        if replaced:
            return Exchange([], members, replaced=True)
        return Exchange([_grant(*grant) for grant in grants], members)

    async def leave(self, member: str, run: str) -> None:
        await self._run(self._leave, self._keys, [member, run])

    async def status(self) -> BankStatus:
        members, accounts = _texts(await self._run(self._status, self._keys, []))
        cut = len(self._prefix) + len("account:")
        return BankStatus(
            members=[MemberStatus(name, run, int(age_ms) / 1000 if age_ms else None) for name, run, age_ms in members],
            accounts=[_account(account[cut:], *facts) for account, *facts in accounts],
        )

    async def publish(self, notice: GateNotice) -> None:
        with bounded(self._address):
            await self._client.publish(msgspec.json.encode(notice).decode(), self._channel)

    async def receive(self) -> GateNotice:
        """Wait for the next notice; what cannot be read as one is skipped. Raise BankUnreachable."""
        from glide import GlideError

        while True:
            try:
                message = await self._client.get_pubsub_message()
            except GlideError as error:
                raise BankUnreachable(address=str(self._address), why=why(error)) from error
            try:
                return msgspec.json.decode(message.message, type=GateNotice)
            except msgspec.DecodeError as error:
                _log.warning("fleet_notice_unreadable", why=str(error))

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[str]) -> Any:
        """Run a script. The client's thread reads the memory of keys and arguments later, also for a call that has been cancelled."""
        words = [key.encode() for key in keys], [argument.encode() for argument in arguments]
        answered = False
        try:
            with bounded(self._address):
                answer = await self._client.invoke_script(script, keys=[*words[0]], args=[*words[1]])
            answered = True
            return answer
        finally:
            if not answered:
                self._unanswered.append(words)


@contextmanager
def bounded(address: BankAddress) -> Iterator[None]:
    """End what is inside within CALL_S. Raise BankUnreachable in place of the client's errors."""
    from glide import GlideError

    try:
        with trio.fail_after(CALL_S):
            yield
    except (GlideError, trio.TooSlowError) as error:
        raise BankUnreachable(address=str(address), why=why(error)) from error


def channel_of(fleet: str) -> str:
    """Return the name of the channel on which the gateways of a fleet publish notices."""
    return f"gw:{{{fleet}}}:notices"


def _grant(granted: int, free: bytes, used: bytes, wait_s: bytes, scarce: int, share: int) -> LeaseGrant:
    return LeaseGrant(granted, int(free), int(used), float(wait_s), bool(scarce), share if share >= 0 else None)


def _account(name: str, kind: LeaseKind, limit: str, used: str, open_: str, shares: list[tuple[str, str, str]]) -> AccountStatus:
    of_members = tuple(ShareStatus(member, int(its_used), int(its_open)) for member, its_used, its_open in shares)
    return AccountStatus(name, kind, int(limit), int(used), int(open_), of_members)


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def why(error: Exception) -> str:
    return f"no answer within {CALL_S:g} s" if isinstance(error, trio.TooSlowError) else str(error).splitlines()[0][:200]


@asynccontextmanager
async def open_bank(address: BankAddress, fleet: str, *, settle_s: float = SETTLE_S) -> AsyncIterator[ValkeyBank]:
    """Connect. Raise BankUnreachable, also for a server that is too old."""
    from glide import GlideError

    try:
        with trio.fail_after(2 * CONNECT_S):
            client = await connect(address, channel_of(fleet))
    except (GlideError, trio.TooSlowError) as error:
        reason = f"no connection within {2 * CONNECT_S:g} s" if isinstance(error, trio.TooSlowError) else why(error)
        raise BankUnreachable(address=str(address), why=reason) from error
    try:
        yield ValkeyBank(client, address, fleet, settle_s)
    finally:
        with trio.move_on_after(1, shield=True):
            await client.close()


async def connect(address: BankAddress, channel: str | None) -> GlideClient | GlideClusterClient:
    """Connect to a server, or to the cluster that it belongs to, and listen on a channel if there is one."""
    from glide import GlideClient, GlideClusterClient, InfoSection, Logger, LogLevel
    from glide_shared.config import (
        AdvancedGlideClientConfiguration,
        AdvancedGlideClusterClientConfiguration,
        GlideClientConfiguration,
        GlideClusterClientConfiguration,
        NodeAddress,
        ServerCredentials,
    )

    Logger.set_logger_config(LogLevel.OFF)  # what fails is raised, and logged by us
    nodes = [NodeAddress(address.host, address.port)]
    password = address.password.reveal()
    credentials = ServerCredentials(password=password, username=address.user or None) if password else None
    milliseconds, connect_ms = int(CALL_S * 1000), int(CONNECT_S * 1000)
    client = await GlideClient.create(
        GlideClientConfiguration(
            nodes, use_tls=address.tls, credentials=credentials, request_timeout=milliseconds, database_id=address.database,
            client_name="gw", advanced_config=AdvancedGlideClientConfiguration(connection_timeout=connect_ms),
            pubsub_subscriptions=_listening_to(GlideClientConfiguration, channel),
        )
    )  # fmt: skip
    serves = False
    try:
        facts = _facts(await client.info([InfoSection.SERVER, InfoSection.CLUSTER]))
        version = facts.get("valkey_version") or facts.get("redis_version", "0")
        if int(version.partition(".")[0]) < _OLDEST:
            raise BankUnreachable(address=str(address), why=f"the server has version {version}, and gw needs {_OLDEST} or later")
        serves = facts.get("cluster_enabled") != "1"
    finally:
        if not serves:
            with trio.move_on_after(1, shield=True):
                await client.close()
    if serves:
        return client
    return await GlideClusterClient.create(
        GlideClusterClientConfiguration(
            nodes, use_tls=address.tls, credentials=credentials, request_timeout=milliseconds, client_name="gw",
            advanced_config=AdvancedGlideClusterClientConfiguration(connection_timeout=connect_ms),
            pubsub_subscriptions=_listening_to(GlideClusterClientConfiguration, channel),
        )
    )  # fmt: skip


def _listening_to(configuration: Any, channel: str | None) -> Any:
    if channel is None:
        return None
    return configuration.PubSubSubscriptions({configuration.PubSubChannelModes.Exact: {channel}}, callback=None, context=None)


def _facts(info: bytes) -> dict[str, str]:
    lines = [line.partition(":") for line in info.decode(errors="replace").splitlines() if ":" in line]
    return {name: value.strip() for name, _, value in lines}
