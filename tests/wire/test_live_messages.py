"""Dialects whose binary frames are audio, and nothing else, say so: then a frame needs no decoding."""

from __future__ import annotations

import inspect

import pytest

from gw.types.audio import PCM_16K
from gw.types.stt import ListenRequest
from gw.wire.cartesia_listen import CartesiaListenServer, CartesiaTurnsServer
from gw.wire.deepgram_flux_listen import FluxListenServer
from gw.wire.deepgram_listen_server import DeepgramListenServer, parse_query
from gw.wire.live_messages import Audio
from gw.wire.speechmatics_listen import SpeechmaticsListenServer

SERVERS = [
    CartesiaListenServer("r"), CartesiaTurnsServer("r"), FluxListenServer(request_id="r"),
    DeepgramListenServer(parse_query(b"model=m"), request_id="r"),
    SpeechmaticsListenServer(ListenRequest(model="m", format=PCM_16K)),
]  # fmt: skip


def attributes(server):
    """Return what a server remembers, but for its count. A compiled one has no `__dict__`."""
    compiled = {n for cls in type(server).__mro__ for n, value in vars(cls).items() if inspect.isgetsetdescriptor(value)}
    names = {*compiled, *getattr(server, "__dict__", ())}
    return {name: getattr(server, name) for name in names if name != "audio_bytes" and not name.startswith("__")}


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: type(server).__name__)
def test_a_binary_frame_is_audio_as_it_is_and_changes_nothing_but_its_count(server):
    assert server.binary_is_audio
    before = attributes(server)
    assert before
    assert list(server.receive(bytes(640))) == [Audio(bytes(640))]
    assert attributes(server) == before
