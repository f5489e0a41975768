"""A plugin of pytest for LiveKit's own tests: it points LiveKit's plugins at a gateway by their own parameters.

It runs in LiveKit's process and imports nothing of ours. `GW_AT` is the gateway's address, `GW_TOXIPROXY` has the ports of the
stand-in for toxiproxy. Three things are replaced: plugins that are not installed, whose tests are skipped; the name `toxiproxy`,
which the tests' own network has; and tiktoken, which would fetch its tables from the internet.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import re
import socket
import sys
import types
from typing import Any

import pytest

AT = os.environ["GW_AT"]
SOCKET_AT = AT.replace("http", "ws", 1)
ADDRESSES = {
    "assemblyai.STT": SOCKET_AT,
    "cartesia.STT": AT,
    "cartesia.TTS": AT,
    "deepgram.STT": f"{AT}/v1/listen",
    "deepgram.STTv2": f"{SOCKET_AT}/v2/listen",
    "deepgram.TTS": f"{AT}/v1/speak",
    "deepgram.TTSv2": f"{AT}/v2/speak",
    "elevenlabs.STT": f"{AT}/v1",
    "elevenlabs.TTS": f"{AT}/v1",
    "groq.TTS": f"{AT}/openai/v1",
}
"""What each class takes as `base_url`. OpenAI's plugin and LiveKit's inference read theirs from the environment."""
ENVIRONMENT = {
    "ASSEMBLYAI_API_KEY": "any",
    "CARTESIA_API_KEY": "any",
    "DEEPGRAM_API_KEY": "any",
    "ELEVEN_API_KEY": "any",
    "GROQ_API_KEY": "any",
    "OPENAI_API_KEY": "any",
    "OPENAI_BASE_URL": f"{AT}/v1",
    "LIVEKIT_INFERENCE_URL": f"{AT}/livekit/v1",
    "LIVEKIT_INFERENCE_API_KEY": "any-key",
    "LIVEKIT_INFERENCE_API_SECRET": "anything-long-enough-for-hs256-is-accepted",
}
NOT_OURS = (
    "aws", "azure", "bland", "fal", "fireworksai", "gladia", "google", "gradium", "hume", "inworld", "lmnt", "mistralai",
    "neuphonic", "nvidia", "resemble", "rime", "sarvam", "soniox", "speechify", "speechmatics", "spitch",
)  # fmt: skip
"""Plugins of vendors whose protocols the gateway does not speak; a suite imports them all."""


class _LeftOut(types.ModuleType):
    """A plugin that is not installed. Each class of it skips the test that makes one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda **_: pytest.skip(f"{self.__name__} is not installed")


class _Tokens:
    """Pieces of four characters, about as long as tokens are."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def encode(self, text: str) -> range:
        self._pieces = re.findall(r"\s*\S{1,4}|\s+$", text)
        return range(len(self._pieces))

    def decode(self, tokens: list[int]) -> str:
        return "".join(self._pieces[token] for token in tokens)


def _point_at_the_gateway() -> None:
    for name, address in ADDRESSES.items():
        module, _, class_name = name.partition(".")
        made = getattr(importlib.import_module(f"livekit.plugins.{module}"), class_name)
        init = made.__init__

        def pointed(self: Any, *args: Any, _init: Any = init, _address: str = address, **kwargs: Any) -> None:
            _init(self, *args, **{"base_url": _address, **kwargs})

        made.__init__ = functools.wraps(init)(pointed)


def _find_the_stand_in() -> None:
    """Let the name `toxiproxy` lead to the stand-in, whose ports are others than those that the tests name."""
    ports = {int(named): free for named, free in json.loads(os.environ["GW_TOXIPROXY"]).items()}
    of_the_system, connect_ex = socket.getaddrinfo, socket.socket.connect_ex

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "toxiproxy":
            host, port = "127.0.0.1", ports[int(port)]
        return of_the_system(host, port, *args, **kwargs)

    def connect_ex_found(self: Any, address: Any) -> int:
        host, port = address
        return int(connect_ex(self, ("127.0.0.1", ports[port]) if host == "toxiproxy" else address))

    socket.getaddrinfo = getaddrinfo
    socket.socket.connect_ex = connect_ex_found


def pytest_configure(config: Any) -> None:
    os.environ.update(ENVIRONMENT)
    import livekit.plugins as installed

    for name in NOT_OURS:
        if importlib.util.find_spec(f"livekit.plugins.{name}") is None:
            stub = _LeftOut(f"livekit.plugins.{name}")
            sys.modules[stub.__name__] = stub
            setattr(installed, name, stub)
    _point_at_the_gateway()
    _find_the_stand_in()
    import tiktoken

    tiktoken.encoding_for_model = lambda model: _Tokens()

