"""Recordings named by their address: which candidates fetch them, and fetching for the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gw.errors import CandidateSkipped, RequestError, UnknownProviderError
from gw.providers.spec import spec_of
from gw.registry.catalog import Catalog, Model
from gw.types.stt import TranscribeRequest


def fetches(catalog: Catalog, model: Model, dialect: str) -> bool:
    """Return whether the vendor of `model` fetches recordings for a caller of `dialect`."""
    try:
        return dialect in spec_of(catalog.provider(model.provider).type).fetches
    except UnknownProviderError:  # the attempt will say so
        return True


async def fetched(
    fetch: Callable[[], Awaitable[TranscribeRequest]], model: Model, *, is_first: bool
) -> TranscribeRequest:
    """Return the request with its audio. Raises RequestError; CandidateSkipped after another candidate has failed.

    To be called outside of an attempt, since a slow host of the caller's is no fault of the provider's.
    """
    try:
        return await fetch()
    except RequestError as error:
        if is_first:
            raise
        raise CandidateSkipped(provider=model.provider, reason="missing_ability", detail=error.what) from error
