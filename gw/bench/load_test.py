"""A load test: simulated callers at once, begun one after the other, and what the gateway has recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
import trio

from gw.bench.caller import Call, CallPlan
from gw.bench.faults import Fault
from gw.bench.figures import Hop, Recorded, TurnFigures
from gw.bench.speech import Phrase
from gw.bench.target import Target

RECORD_WAIT_S = 3.0
"""For the records of the last requests, which the gateway writes in batches."""
_PAUSE_S = 0.2
_HOP_STAGES = ("llm", "tts")
"""Stages whose time to the first answer a record divides between the gateway and the vendor."""


@attrs.frozen(kw_only=True)
class Plan:
    """`ramp_s`: seconds within which the calls begin, evenly; each makes `turns`, none of whose waits is longer than `timeout_s`."""

    calls: int
    turns: int
    ramp_s: float
    timeout_s: float
    seed: int
    utterances: Sequence[Phrase]
    script: Sequence[Fault] = ()


@attrs.define
class Load:
    """The test while it runs and afterwards. `turns` are in the order in which they ended."""

    target: Target
    plan: Plan
    on_turn: Callable[[TurnFigures], None] = lambda turn: None
    turns: list[TurnFigures] = attrs.field(factory=list)
    active: int = 0
    session_ids: list[str] = attrs.field(factory=list)
    late_s: float = 0.0
    seconds: float = 0.0

    async def run(self) -> None:
        """Make all calls. What goes wrong in one is in its turns, not raised."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(1, self.plan.calls + 1):
                await trio.sleep_until(began + self.plan.ramp_s * (number - 1) / self.plan.calls)
                nursery.start_soon(self._call, number, began)
        self.seconds = trio.current_time() - began

    async def _call(self, number: int, began: float) -> None:
        plan = self.plan
        call = Call(
            self.target,
            CallPlan(
                number=number, turns=plan.turns, utterances=plan.utterances, script=plan.script, timeout_s=plan.timeout_s,
                seed=plan.seed, on_turn=self._ended, began=began,
            ),
        )  # fmt: skip
        self.session_ids.append(call.session_id)
        self.active += 1
        try:
            await call.run()
        finally:
            self.active -= 1
            self.late_s = max(self.late_s, call.late_s)

    def _ended(self, turn: TurnFigures) -> None:
        self.turns.append(turn)
        self.on_turn(turn)


class Api(Protocol):
    """The control plane of the gateway under test."""

    async def call(self, method: str, path: str) -> tuple[int, Any]: ...


async def records_of(api: Api, session_ids: Sequence[str]) -> Recorded | None:
    """Return what the gateway recorded of these sessions; None where the key may not read it.

    A session without a record within RECORD_WAIT_S is counted as missing.
    """
    records = Recorded()
    for session_id in session_ids:
        status, answer = await _session(api, session_id)
        if status in (401, 403):
            return None
        if status != 200:
            records.sessions_missing += 1
            continue
        _add(records, answer)
    return records


async def _session(api: Api, session_id: str) -> tuple[int, Any]:
    deadline = trio.current_time() + RECORD_WAIT_S
    while True:
        status, answer = await api.call("GET", f"/v1/sessions/{session_id}")
        if status != 404 or trio.current_time() > deadline:
            return status, answer
        await trio.sleep(_PAUSE_S)


def _add(records: Recorded, session: dict[str, Any]) -> None:
    records.cost_usd += session["cost_usd"]
    records.unpriced += session["unpriced_requests"]
    records.fallbacks += session["fallbacks"]
    records.requests += session["requests"]
    for turn in session["conversation"]:
        for stage in turn["stages"]:
            if stage["modality"] in _HOP_STAGES and None not in (stage["ttfb_ms"], stage["gateway_ms"]):
                hop = records.hops.setdefault(stage["modality"], Hop())
                hop.gateway.append(stage["gateway_ms"])
                hop.vendor.append(max(0.0, stage["ttfb_ms"] - stage["gateway_ms"]))
