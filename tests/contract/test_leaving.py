"""A caller may leave at any point of a request's life: the vendor's connection is closed, the record is complete, nothing is left.

On real time: a cell that was late is run again, because a busy machine is no failure of the gateway's.
"""

from __future__ import annotations

from tests.contract.callers import CALLERS, SOCKETS, Caller, SocketCaller
from tests.contract.leaving import POINTS, WAYS, Left, Rig, open_rig
from tests.fakes.cells import Cells
from tests.fakes.nightly import NIGHTLY, cells

CLOSED_WITHIN_S, RECORDED_WITHIN_S, ENDED_WITHIN_S = 0.05, 0.1, 0.2
TRIES = 3
EVERYBODY = (*CALLERS, *SOCKETS)
PART = 9
NOT_ASKED_YET = ("connected", "half of the head", "half of the request")


def in_time(left: Left) -> bool:
    limits = ((left.vendor_s, CLOSED_WITHIN_S), (left.recorded_s, RECORDED_WITHIN_S), (left.ended_s, ENDED_WITHIN_S))
    return all(seconds is not None and seconds <= limit for seconds, limit in limits)


def check_records(left: Left, caller: Caller | SocketCaller, point: str, whole_nusd: int) -> None:
    """Check status and cost. `whole_nusd`: of the complete answer."""
    http = isinstance(caller, Caller)
    found = [(record.status, bool(record.cost_nusd)) for record in left.records]
    if point in NOT_ASKED_YET:
        # The dialects whose address names the model dial the vendor before the first frame, which costs nothing.
        assert found in ([], [] if http else [("cancelled", False)]), found
        return
    (record,) = left.records
    cost = record.cost_nusd or 0
    if point == "complete":
        status = "success" if http or caller.end("m") or caller.modality != "stt" else "cancelled"  # that is how such a session ends
        assert (record.status, record.error_code, cost) == (status, None, whole_nusd)
        assert cost > 0
        return
    assert (record.status, record.error_code) == ("cancelled", None)
    outcomes = [attempt.outcome for attempt in record.attempts]
    assert len(outcomes) == (2 if point == "second vendor is silent" else 1), outcomes
    if point == "vendor is dialled" or (not http and left.vendors and outcomes[-1] != "ok" and not cost):
        assert cost == 0
        assert http or point in ("vendor is dialled", "vendor is silent", "second vendor is silent")
    elif record.modality == "tts":
        assert cost == whole_nusd  # the whole text was sent
    elif record.modality == "stt":
        assert 0 < cost <= whole_nusd
    else:
        assert cost > 0


async def leave_in_time(rig: Rig, caller: Caller | SocketCaller, point: str, how: str) -> Left:
    for _ in range(TRIES):
        left = await rig.leave(caller, point, how)
        if in_time(left):
            break
    else:
        raise AssertionError(f"late {TRIES} times: {left}")
    return left


async def test_every_caller_at_every_point_in_every_way(tmp_path):
    everything = len(EVERYBODY) * len(POINTS) * len(WAYS)
    ran = Cells(at_least=everything if NIGHTLY else everything // PART)
    whole: dict[str, int] = {}
    async with open_rig(tmp_path) as rig:
        for caller, point, how in cells(EVERYBODY, POINTS, WAYS, part=PART):
            if caller.name not in whole:
                (record,) = (await rig.leave(caller, "complete", "FIN")).records
                whole[caller.name] = record.cost_nusd or 0
            with ran.cell(f"{caller.name}, {point}, {how}"):
                check_records(await leave_in_time(rig, caller, point, how), caller, point, whole[caller.name])
                rig.check_nothing_in_use()
    ran.check()
    assert everything == 48 * 12 * 3
    assert len(whole) == len({caller.name for caller in EVERYBODY}) == 48
