"""One call of the engine: its beginning, its pace, and the faults its knobs ask for."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import attrs
import trio

from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.policy.bucket import Bucket
from gw.providers.sim.faults import Knobs
from gw.providers.spec import Account
from gw.types.ids import Modality

MODELS: dict[Modality, tuple[str, ...]] = {"stt": ("tone",), "llm": ("echo", "scripted", "flaky"), "tts": ("tone",)}
_FLAKY_RATE = 0.3
_CANDIDATE_FAULTS = frozenset({401, 403, 404})
"""4xx that another candidate need not share: key, right, model."""
_QUOTA_OR_TIMEOUT = frozenset({402, 408})
_Item = TypeVar("_Item")


@attrs.define(kw_only=True)
class _State:
    """What one provider entry remembers between calls."""

    failing: int | None = None
    """Sum of the fail rates in thousandths, less 1000 for every call that failed; None = no failing call came yet."""
    bucket: Bucket | None = None
    calls: int = 0


_states: trio.lowlevel.RunVar[dict[str, _State]] = trio.lowlevel.RunVar("gw.providers.sim")
"""By provider id; a run variable, since its buckets count on the run's own clock."""


def _state(provider_id: str) -> _State:
    try:
        states = _states.get()
    except LookupError:
        states = {}
        _states.set(states)
    return states.setdefault(provider_id, _State())


class SimCall:
    """An open call. `number` counts the calls of its provider entry from 1."""

    def __init__(self, provider: str, knobs: Knobs, number: int, fault: ProviderError | None) -> None:
        self.provider = provider
        self.knobs = knobs
        self.number = number
        self._fault = fault
        self._steps = 0

    async def step(self) -> None:
        """Wait until the next piece is due; raise in its place what the knobs say. A checkpoint in any case."""
        knobs = self.knobs
        await trio.sleep((knobs.token_ms if self._steps else knobs.latency_ms) / 1000)
        if not self._steps:
            if self._fault is not None:
                raise self._fault
            if knobs.refuse:
                raise ProviderRefused(provider=self.provider, detail="simulated refusal")
        if knobs.cut_after is not None and self._steps >= knobs.cut_after:
            raise UpstreamCut(provider=self.provider, detail=f"simulated cut after {self._steps} pieces")
        self._steps += 1

    def past_the_end(self) -> UpstreamCut:
        return UpstreamCut(provider=self.provider, detail="read past the end of the answer")


class Inlet(Generic[_Item]):
    """What a live session is sent: at most `size` items wait, then the sender does, as on a slow socket."""

    def __init__(self, call: SimCall, size: int) -> None:
        self._call = call
        self._send, self._receive = trio.open_memory_channel[_Item](size)

    async def put(self, item: _Item) -> None:
        """Raises UpstreamCut when the session has broken or is over."""
        try:
            await self._send.send(item)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise UpstreamCut(provider=self._call.provider, detail="the session has ended") from None

    def finish(self) -> None:
        """Nothing more will be put; once more is harmless."""
        self._send.close()

    def close(self) -> None:
        """The session is over: whoever still puts gets UpstreamCut."""
        self._send.close()
        self._receive.close()

    async def take(self) -> _Item:
        """Raises trio.EndOfChannel after `finish`."""
        return await self._receive.receive()

    async def step(self) -> None:
        """`SimCall.step`; when the answer breaks off there, so does this direction."""
        try:
            await self._call.step()
        except ProviderError:
            self._receive.close()
            raise


def rejected(
    account: Account, detail: str, *, status: int = 400, fault: Literal["caller", "candidate"] = "candidate"
) -> ProviderRejected:
    return ProviderRejected(provider=account.provider_id, upstream_status=status, fault=fault, detail=detail)


async def begin(account: Account, modality: Modality) -> SimCall:
    """Open a call of `account.model`. Raises what the knobs say about a call's beginning; blocks for ever when `slow`.

    A knob with a bad value rejects every call, naming the knob.
    """
    known = MODELS[modality]
    if account.model not in known:
        what = f"no {modality} model {account.model!r}; there are: {', '.join(known)}"
        raise rejected(account, what, status=404)
    try:
        knobs = Knobs.read(account.options)
    except ValueError as error:
        raise rejected(account, str(error)) from None
    state = _state(account.provider_id)
    state.calls += 1
    _take_token(account.provider_id, state, knobs.rate_limit)
    own_rate = _FLAKY_RATE if account.model == "flaky" else 0.0
    fault = None
    if _fails(state, own_rate if knobs.fail_rate is None else knobs.fail_rate):
        if knobs.fail_with == "slow":
            await trio.sleep_forever()
        fault = _fault(account.provider_id, knobs)
        if isinstance(fault, (ProviderUnreachable, RateLimitError, ProviderFailed, ProviderRejected)):
            raise fault   # known before an answer begins; the others break off the answer
    return SimCall(account.provider_id, knobs, state.calls, fault)


def _take_token(provider: str, state: _State, per_minute: int | None) -> None:
    if per_minute is None:
        return
    now = trio.current_time()
    if state.bucket is None or state.bucket.per_minute != per_minute:
        state.bucket = Bucket(per_minute, now)
    if wait := state.bucket.take(now):
        detail = "simulated rate limit"
        raise RateLimitError(provider=provider, limit_source="upstream", retry_after_s=wait, detail=detail)


def _fails(state: _State, rate: float) -> bool:
    share = round(rate * 1000)
    if not share:
        return False
    state.failing = 1000 if state.failing is None else state.failing + share
    if state.failing < 1000:
        return False
    state.failing -= 1000
    return True


def _fault(provider: str, knobs: Knobs) -> ProviderError:
    kind = knobs.fail_with
    detail = f"simulated {kind}"
    match kind:
        case "reset":
            return UpstreamCut(provider=provider, detail=detail)
        case "malformed":
            return UpstreamProtocolError(provider=provider, detail=detail)
        case 429:
            return RateLimitError(
                provider=provider, limit_source="upstream", retry_after_s=knobs.retry_after_s, detail=detail
            )
        case int() if kind >= 500 or kind in _QUOTA_OR_TIMEOUT:
            return ProviderFailed(provider=provider, upstream_status=kind, detail=detail)
        case int() if kind in _CANDIDATE_FAULTS:
            return ProviderRejected(provider=provider, upstream_status=kind, fault="candidate", detail=detail)
        case int():
            return ProviderRejected(provider=provider, upstream_status=kind, fault="caller", detail=detail)
        case _:
            return ProviderUnreachable(provider=provider, detail=detail)
