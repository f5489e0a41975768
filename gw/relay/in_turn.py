"""Candidates tried one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from gw.errors import AllCandidatesFailed, CandidateSkipped, Failure, ProviderError, StaleConnection, last_word
from gw.registry.catalog import Model
from gw.relay.honoured import unsupported

R = TypeVar("R")


async def try_in_turn(
    models: Iterable[Model], attempt: Callable[[Model], Awaitable[R]], can_continue: Callable[[], bool] | None = None,
    failures: list[Failure] | None = None,
) -> R:  # fmt: skip
    """Return the result of the first candidate whose `attempt` succeeds, in the caller's task.

    A stale connection gets a second try with the same candidate. A failure that another candidate would meet as well
    (`retryable` false), or one after which none `can_continue`, is raised at once. When all have failed, raise the only
    failure or the `last_word` itself, else AllCandidatesFailed with one failure per candidate. `failures` collects them.
    """
    for model in models:
        for is_second in (False, True):
            try:
                return await attempt(model)
            except ProviderError as error:
                if not error.retryable or (can_continue is not None and not can_continue()):
                    raise
                if is_second or not isinstance(error, StaleConnection):
                    failures = [] if failures is None else failures
                    failures.append(Failure(model_id=model.id, error=error))
                    break
    raise all_failed(failures or [])


def all_failed(failures: Sequence[Failure]) -> Exception:
    """Return the error of a request whose candidates have all failed, the requested one first."""
    skipped = [f.error for f in failures if isinstance(f.error, CandidateSkipped) and f.error.settings]
    if skipped and len(skipped) == len(failures):
        return unsupported(skipped)
    if len({failure.model_id for failure in failures}) == 1:
        return failures[-1].error
    return last_word(failures) or AllCandidatesFailed(model=failures[0].model_id, failures=tuple(failures))
