"""Choosing the quickest of several candidates, by the 95th percentile of their times, without flapping.

One candidate leads and gets all requests but the probes. Another one takes over when its 95th percentile is lower by a fifth, and
by 20 ms at least, and that is no accident: if it were no quicker than the leader, it would have so many quick answers once in
3,000 times (a binomial test). Its latest few answers are compared with those of the leader's last 20 seconds, for what changed,
and all of both in ten minutes, for what a few do not show. It has to hold for `HOLD_S`, and the next change is `STAY_S` away. A
candidate with too few samples neither loses nor takes the lead.

Every twentieth session probes the candidates that do not lead, in turn, so that they are measured too: at most one request in ten,
if such sessions are busier than others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from math import comb, inf
from typing import Final

from gw.policy.recent_times import MOST, Sample

RECENT_S: Final = 20.0
LONG_S: Final = 600.0
ENOUGH: Final = 8
"""Samples of a candidate from which it is compared with others: as few as can show that it is quicker."""
HOLD_S: Final = 2.0
STAY_S: Final = 10.0
_PROBE_EVERY: Final = 20
_SESSIONS: Final = 2_000  # the latest, whose probing is remembered
_CHANCE = 1 / 3_000
_QUICKER = 0.8
_LEAST_S = 0.02
_MOST_PROBES = 0.1
_EVERY_S = 0.5  # between two comparisons: sorting for each request would cost more than its accounting
_FULL = 1_000_000


class Quickest:
    """The choice of one route and kind of call. Candidates are indices from 0 on, in the order of the file."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.leader = 0
        self.p95_s: float | None = None
        """The leader's, as it was last compared."""
        self._rival: int | None = None
        self._rival_since = 0.0
        self._led_since = -inf
        self._compared_at = -inf
        self._requests = 0
        self._probes = 0
        self._sessions = 0
        self._probed: OrderedDict[str, int | None] = OrderedDict()
        """Session → the candidate that it probes, None without one; the latest sessions."""

    def choose(self, samples: Sequence[Sequence[Sample]], session: str, now: float) -> tuple[int, bool]:
        """Return the candidate of a request, and whether it is a probe. `samples`: those of each candidate, the oldest first."""
        if now - self._compared_at >= _EVERY_S:
            self._compared_at = now
            self._follow(self._quicker(samples, now), now)
        self._requests += 1
        if self._requests >= _FULL:
            self._requests, self._probes = self._requests // 2, self._probes // 2
        probed = self._probe_of(session)
        if probed is None or probed == self.leader or self._probes + 1 > _MOST_PROBES * self._requests:
            return self.leader, False
        self._probes += 1
        return probed, True

    def _probe_of(self, session: str) -> int | None:
        """Return the candidate that a session probes, if it does; every twentieth new one probes the next in turn."""
        if session in self._probed:
            self._probed.move_to_end(session)
            return self._probed[session]
        self._sessions += 1
        turn, is_due = divmod(self._sessions, _PROBE_EVERY)
        probed = (self.leader + 1 + turn % (self._count - 1)) % self._count if is_due == 0 and self._count > 1 else None
        self._probed[session] = probed
        if len(self._probed) > _SESSIONS:
            self._probed.popitem(last=False)
        return probed

    def _follow(self, rival: int | None, now: float) -> None:
        if rival is None or rival != self._rival:
            self._rival, self._rival_since = rival, now
        elif now - self._rival_since >= HOLD_S and now - self._led_since >= STAY_S:
            self.leader, self._led_since, self._rival = rival, now, None

    def _quicker(self, samples: Sequence[Sequence[Sample]], now: float) -> int | None:
        """Return the candidate that is quicker than the leader, the quickest if there are several."""
        since = max(now - LONG_S, self._led_since - RECENT_S)  # what was before the last change led to it
        kept = [[each for each in candidate if each[0] > since] for candidate in samples]
        recent = [each for each in kept[self.leader] if each[0] > now - RECENT_S]
        self.p95_s = None
        for own, latest in ((recent, ENOUGH), (kept[self.leader], MOST)):
            if len(own) < ENOUGH:
                continue
            leaders = _ordered(own)
            self.p95_s = _p95_s(leaders) if self.p95_s is None else self.p95_s
            others = {index: _ordered(each[-latest:]) for index, each in enumerate(kept)}
            quicker = [
                (_p95_s(times), index) for index, times in others.items()
                if index != self.leader and len(times) >= ENOUGH and _is_quicker(times, leaders)
            ]  # fmt: skip
            if quicker:
                return min(quicker)[1]
        return None


def _ordered(samples: Sequence[Sample]) -> list[float]:
    return sorted([seconds for _, seconds in samples])


def _p95_s(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def _is_quicker(times: Sequence[float], leaders: Sequence[float]) -> bool:
    """Return whether the 95th percentile of `times` is clearly lower than that of the leader. Both are in ascending order."""
    own_s = _p95_s(leaders)
    limit_s = min(own_s * _QUICKER, own_s - _LEAST_S)
    if _p95_s(times) > limit_s:
        return False
    usual = (sum(seconds <= limit_s for seconds in leaders) + 1) / (len(leaders) + 2)
    quick, count = sum(seconds <= limit_s for seconds in times), len(times)
    chance = sum(comb(count, n) * usual**n * (1 - usual) ** (count - n) for n in range(quick, count + 1))
    return chance <= _CHANCE
