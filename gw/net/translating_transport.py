"""A transport for httpx2 that raises the gateway's errors in place of the library's. Imported with the first call."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2

from gw.errors import ProviderUnreachable, UpstreamCut


class ResponseBody(httpx2.SyncByteStream):
    """The body as it arrives. Raises UpstreamCut when the connection breaks."""

    def __init__(self, inner: httpx2.SyncByteStream) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self.inner
        except httpx2.TransportError as error:
            raise UpstreamCut(provider="gateway", detail=str(error)) from error

    def close(self) -> None:
        self.inner.close()


class TranslatingTransport(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.BaseTransport, base_url: str) -> None:
        self.inner = inner
        self.base_url = base_url

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = self.inner.handle_request(request)
        except httpx2.TransportError as error:
            raise ProviderUnreachable(provider="gateway", detail=f"{self.base_url}: {error}") from error
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = ResponseBody(response.stream)
        return response

    def close(self) -> None:
        self.inner.close()
