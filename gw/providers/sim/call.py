"""One call of the `sim` engine, and its options: how late it answers, and how it fails.

Failures follow a fixed sequence, not chance: each call adds its `fail_rate` to a sum per provider entry, and the call at which
the sum reaches one fails. The very first call of a failing provider fails. So a demo looks the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import attrs
import trio

from gw import errors
from gw.policy.bucket import Bucket
from gw.providers.spec import Account, rejected
from gw.types.ids import Modality
from gw.types.provider_types import SIM_FAULTS

MODELS: dict[Modality, tuple[str, ...]] = {"stt": ("tone",), "llm": ("echo", "scripted", "flaky"), "tts": ("tone",)}
_FLAKY_RATE = 0.3
_CANDIDATE_FAULTS = frozenset({401, 403, 404})  # 4xx that another candidate need not share: key, permission, model
_QUOTA_OR_TIMEOUT = frozenset({402, 408})
_LATENCY_CAP_MS = 600_000.0
T = TypeVar("T")


def _number(low: float, high: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        try:
            number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}, not {value!r}")
        return number

    return parse


def _integer(low: int, high: int) -> Callable[[object], int]:
    parse_number = _number(low, high)

    def parse(value: object) -> int:
        number = parse_number(value)
        if number != int(number):
            raise ValueError(f"must be a whole number from {low} to {high}, not {value!r}")
        return int(number)

    return parse


def _flag(value: object) -> bool:
    words = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, (bool, str)) or value not in words:
        raise ValueError(f"must be true or false, not {value!r}")
    return words[value]


def _fail_with(value: object) -> int | str:
    if isinstance(value, str) and value in SIM_FAULTS:
        return value
    try:
        return _integer(400, 599)(value)
    except ValueError:
        words = ", ".join(SIM_FAULTS)
        raise ValueError(f"must be an HTTP status from 400 to 599 or one of {words}, not {value!r}") from None


def _script_lines(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise ValueError("must map a piece of the user's text to the reply")
    return MappingProxyType(dict(value))


def _option(default: object, parse: Callable[[object], object]) -> Any:
    """Declare an option. `parse` returns its value, or raises ValueError with what the value must be."""
    return attrs.field(default=default, metadata={"parse": parse})


@attrs.frozen(kw_only=True)
class SimOptions:
    """The options of one provider entry; options of other types are ignored."""

    latency_ms: float = _option(0.0, _number(0, _LATENCY_CAP_MS))
    """Before the first event."""
    token_ms: float = _option(0.0, _number(0, _LATENCY_CAP_MS))
    """Between events."""
    fail_rate: float | None = _option(None, _number(0, 1))
    """Share of calls that fail; None = the model's own rate."""
    fail_with: int | str = _option(503, _fail_with)
    """HTTP status, or `reset`, `malformed`, `refused`, `slow` (never answers)."""
    retry_after_s: float | None = _option(None, _number(0, 86_400))
    """Retry-After of a simulated 429."""
    rate_limit: int | None = _option(None, _integer(1, 10_000_000))
    """Calls a minute; more get a 429."""
    refuse: bool = _option(False, _flag)
    """Refuse before any content."""
    cut_after: int | None = _option(None, _integer(0, 10_000_000))
    """Pieces of an answer after which the connection breaks."""
    script: Mapping[str, str] = _option(MappingProxyType({}), _script_lines)
    """Piece of the user's text (any case) → reply."""

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> SimOptions:
        """Raises ValueError naming the option."""
        values: dict[str, Any] = {}
        for field in attrs.fields(cls):
            if options.get(field.name) is not None:
                try:
                    values[field.name] = field.metadata["parse"](options[field.name])
                except ValueError as error:
                    raise ValueError(f"{field.name} {error}") from None
        return cls(**values)


@attrs.define(kw_only=True)
class _State:
    """State of one provider entry between calls."""

    failing: int | None = None
    """Sum of the fail rates in thousandths, less 1000 for every call that failed; None = no failing call came yet."""
    bucket: Bucket | None = None
    calls: int = 0


class SimCall:
    """An open call. `number` counts the calls of its provider entry from 1."""

    def __init__(self, provider: str, options: SimOptions, number: int, fault: errors.ProviderError | None) -> None:
        self.provider = provider
        self.options = options
        self.number = number
        self._fault = fault
        self._steps = 0

    async def step(self) -> None:
        """Wait until the next piece is due, or raise the fault that the options ask for. Always a checkpoint."""
        options = self.options
        await trio.sleep((options.token_ms if self._steps else options.latency_ms) / 1000)
        if not self._steps and self._fault is not None:
            raise self._fault
        if options.cut_after is not None and self._steps >= options.cut_after:
            raise errors.UpstreamCut(provider=self.provider, detail=f"simulated cut after {self._steps} pieces")
        self._steps += 1

    def past_the_end(self) -> errors.UpstreamCut:
        return errors.UpstreamCut(provider=self.provider, detail="read past the end of the answer")


class SimSession(Generic[T]):
    """The sending half of a live session. At most `size` items wait; then the sender does, as on a slow socket."""

    def __init__(self, call: SimCall, size: int) -> None:
        self._call = call
        self._to_queue, self._queued = trio.open_memory_channel[T](size)

    async def _enqueue(self, item: T) -> None:
        """Raises UpstreamCut when the session is broken or over."""
        try:
            await self._to_queue.send(item)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise errors.UpstreamCut(provider=self._call.provider, detail="the session has ended") from None

    async def send_frame(self, frame: str) -> None:
        raise AssertionError("no client speaks the dialect of the demo engine")

    async def finish(self) -> None:
        """End the input; a second call does nothing."""
        self._to_queue.close()

    def close(self) -> None:
        """End the session: sending raises UpstreamCut from now on."""
        self._to_queue.close()
        self._queued.close()

    async def _step(self) -> None:
        """Call `SimCall.step`; if the answer breaks off there, the sending direction does too."""
        try:
            await self._call.step()
        except errors.ProviderError:
            self._queued.close()
            raise


async def start_call(account: Account, modality: Modality) -> SimCall:
    """Open a call of `account.model`. Raises the faults that come before an answer; blocks for ever when `slow`.

    An option with a bad value rejects every call, naming the option.
    """
    models = MODELS[modality]
    if account.model not in models:
        raise rejected(account, f"no {modality} model {account.model!r}; there are: {', '.join(models)}", status=404)
    try:
        options = SimOptions.parse(account.options)
    except ValueError as error:
        raise rejected(account, str(error)) from None
    state: _State = account.call_state.setdefault("sim", _State())
    state.calls += 1
    _take_token(account.provider_id, state, options.rate_limit)
    default_rate = _FLAKY_RATE if account.model == "flaky" else 0.0
    fault = None
    if _fails(state, default_rate if options.fail_rate is None else options.fail_rate):
        if options.fail_with == "slow":
            await trio.sleep_forever()
        fault = _fault(account.provider_id, options)
        if isinstance(fault, (errors.ProviderUnreachable, errors.RateLimitError, errors.ProviderFailed, errors.ProviderRejected)):
            raise fault   # known before an answer starts; the other faults break off the answer
    if options.refuse and modality != "llm" and fault is None:   # a language model refuses in an answer
        fault = errors.ProviderRefused(provider=account.provider_id, detail="simulated refusal")
    return SimCall(account.provider_id, options, state.calls, fault)


def _take_token(provider: str, state: _State, per_minute: int | None) -> None:
    if per_minute is None:
        return
    now = trio.current_time()
    if state.bucket is None or state.bucket.per_minute != per_minute:
        state.bucket = Bucket(per_minute, now)
    if wait := state.bucket.take(now):
        detail = "simulated rate limit"
        raise errors.RateLimitError(provider=provider, limit_source="upstream", retry_after_s=wait, detail=detail)


def _fails(state: _State, rate: float) -> bool:
    share = round(rate * 1000)
    if not share:
        return False
    state.failing = 1000 if state.failing is None else state.failing + share
    if state.failing < 1000:
        return False
    state.failing -= 1000
    return True


def _fault(provider: str, options: SimOptions) -> errors.ProviderError:
    kind = options.fail_with
    detail = f"simulated {kind}"
    match kind:
        case "reset":
            return errors.UpstreamCut(provider=provider, detail=detail)
        case "malformed":
            return errors.UpstreamProtocolError(provider=provider, detail=detail)
        case 429:
            wait_s = options.retry_after_s
            return errors.RateLimitError(provider=provider, limit_source="upstream", retry_after_s=wait_s, detail=detail)
        case int() if kind >= 500 or kind in _QUOTA_OR_TIMEOUT:
            return errors.ProviderFailed(provider=provider, upstream_status=kind, detail=detail)
        case int() if kind in _CANDIDATE_FAULTS:
            return errors.ProviderRejected(provider=provider, upstream_status=kind, fault="candidate", detail=detail)
        case int():
            return errors.ProviderRejected(provider=provider, upstream_status=kind, fault="caller", detail=detail)
        case _:
            return errors.ProviderUnreachable(provider=provider, detail=detail)
