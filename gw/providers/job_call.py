"""Recordings that a vendor transcribes as a job: requests over HTTP, and looking until it is done. Not itself a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from gw.errors import ProviderFailed
from gw.net.http1 import Headers, RequestBody
from gw.providers.http_call import Classify, rejection
from gw.providers.recording_call import TRANSCRIPT_LIMIT
from gw.providers.spec import Account

T = TypeVar("T")

_PAUSES_S: Final = (0.5, 0.5, 1.0, 1.0, 2.0)  # between looks; the last one is repeated
_PATIENCE_S: Final = 3_600.0
_SUCCESS: Final = (200, 201, 202, 204)


async def fetch(
    account: Account, method: bytes, path: bytes, headers: Headers, classify: Classify, body: bytes | RequestBody = b""
) -> bytes:
    """Return the body of an answer. Raises the rejection for a status that is not one of success."""
    all_headers = [*headers, *account.headers]
    async with account.pool.open(account.provider_id, method, account.origin, path, all_headers, body) as response:
        if response.status not in _SUCCESS:
            raise await rejection(response, account, classify)
        return await response.read(TRANSCRIPT_LIMIT)


async def wait_done(account: Account, look: Callable[[], Awaitable[T | None]]) -> T:
    """Return the result of `look`, called until it is not None. Raises ProviderFailed after an hour, and what `look` raises."""
    with trio.move_on_after(_PATIENCE_S):
        looks = 0
        while True:
            await trio.sleep(_PAUSES_S[min(looks, len(_PAUSES_S) - 1)])
            if (result := await look()) is not None:
                return result
            looks += 1
    detail = "the transcript was not ready within an hour"
    raise ProviderFailed(provider=account.provider_id, detail=detail, upstream_status=200)
