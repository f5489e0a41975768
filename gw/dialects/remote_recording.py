"""Recordings that a request names by their address: passed on to a vendor that fetches them, fetched here for the others."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gw.dialects.upload import Upload
from gw.errors import RequestError
from gw.gateway import Gateway
from gw.net import recordings
from gw.types.stt import TranscribeRequest


def by_url(
    gateway: Gateway, url: str, param: str, upload: Upload, parse: Callable[[], TranscribeRequest]
) -> TranscribeRequest:
    """Return the request for the recording at `url`, which is read into `upload` if a candidate needs the audio itself.

    `parse` builds the request from the upload as it is. Raises ClientProtocolError for an address that is never called.
    """
    recordings.check_url(url, param)
    failed: list[RequestError] = []

    async def fetch() -> TranscribeRequest:
        if failed:  # for the candidate before this one
            raise failed[0]
        serve = gateway.settings.serve
        try:
            await recordings.fetch(
                gateway.pool.connect, url, param, upload.begin, upload.write, max_bytes=serve.max_body_bytes(),
                private_hosts=serve.recording_hosts,
            )
        except RequestError as error:
            failed.append(error)
            raise
        return parse()

    return attrs.evolve(parse(), url=url, fetch=fetch)
