"""Run LiveKit's own tests of its plugins, from a clone and unchanged, against a gateway before fake vendors."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import trustme

from gw.providers.sim import fsk
from gw.types.asgi import ASGIApp
from gw.types.audio import AudioFormat
from tests.clients.gateway_pair import KEY, hosted
from tests.clients.suites.own_suite import FOLDER, Outcome
from tests.clients.suites.toxiproxy import open_toxiproxy
from tests.e2e.conftest import starter
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

WITHIN_S = 900
RATE_HZ = 48_000
NAMED_PORTS = (443, 500)
"""At which the tests expect toxiproxy to pass on a vendor's API, and the recogniser that checks what was spoken."""
CHECKER = "api.deepgram.com"
"""Whom the tests expect behind the second port."""
_SILENCE_S = 0.6
_BIT_RATE = 64_000


def _spoken(request: Any) -> bytes:
    return b"".join(fsk.encode(request.text, 24_000))


def fakes() -> Mapping[str, tuple[ASGIApp, str]]:
    """Return each vendor's fake with the path of its API. All of them say tones, and hear what tones say."""
    ears: Any = {"api_key": KEY, "transcript": ""}
    return {
        "assemblyai": (FakeAssemblyAI(**ears), ""),
        "cartesia": (FakeCartesia(**ears), ""),
        "deepgram": (FakeDeepgram(**ears), ""),
        "elevenlabs": (_Mp3ElevenLabs(**ears), ""),
        "openai": (FakeOpenAI(**ears, speech_pcm=_spoken), "/v1"),
        "groq": (FakeOpenAI(**ears, speech_pcm=_spoken, prefix="/openai/v1"), "/openai/v1"),
    }


@attrs.define(kw_only=True)
class _Mp3ElevenLabs(FakeElevenLabs):
    """Its plugin asks for MP3 unless it is told otherwise."""

    def voice(self, text: str, fmt: AudioFormat) -> Iterator[bytes]:
        if fmt.encoding != "mp3":
            yield from super().voice(text, fmt)
            return
        tones = b"".join(fsk.encode(text, RATE_HZ))
        packed = mp3(tones, fmt.sample_rate_hz or RATE_HZ, _BIT_RATE)
        count = max(1, round(len(tones) / 2 / RATE_HZ / self.piece_s))
        size = -(-len(packed) // count)
        yield from (packed[at : at + size] for at in range(0, len(packed), size))


@attrs.frozen
class Setting:
    """A gateway with TLS, as the vendors' own addresses have it, and the file of the authority that a client has to trust."""

    address: str
    authority: Path


@contextmanager
def open_gateway(folder: Path) -> Iterator[Setting]:
    """Run a gateway before the fakes. No model is listed but what LiveKit's inference names otherwise."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate = authority.issue_cert("127.0.0.1", "localhost", CHECKER)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for part in certificate.cert_chain_pems:
        part.write_to_path(folder / "certificate.pem", append=True)
    serve = {"tls_cert": str(folder / "certificate.pem"), "tls_key": str(folder / "key.pem"), "allowed_hosts": [CHECKER]}
    voiced = {"cartesia/sonic-3": {"aliases": ["rime/coda"], "default_voice": "a-voice"}}
    models = {"tts": voiced}
    with ExitStack() as stack:
        providers = {}
        for name, (fake, root) in fakes().items():
            providers[name] = {"api_key": KEY, "base_url": stack.enter_context(hosted(fake)) + root}
        settings = {"providers": providers, "models": models, "serve": serve}
        yield Setting(stack.enter_context(starter(folder))(json.dumps(settings)).url, folder / "authority.pem")


def prepare(clone: Path, folder: Path) -> Path:
    """Copy the clone's tests; return where they are. The recording becomes one in which the fakes hear the same words."""
    at = folder / "agents"
    at.mkdir()
    shutil.copy(clone / "pyproject.toml", at)
    shutil.copytree(clone / "tests", at / "tests")
    lines = (at / "tests" / "long_transcript.txt").read_text("utf-8").splitlines()
    silence = bytes(int(RATE_HZ * _SILENCE_S) * 2)
    tones = silence + b"".join(b"".join(fsk.encode(line.strip(), RATE_HZ)) + silence for line in lines)
    (at / "tests" / "long.mp3").write_bytes(mp3(tones, RATE_HZ, 2 * _BIT_RATE))
    return at


def mp3(pcm: bytes, rate_hz: int, bit_rate: int) -> bytes:
    """Encode samples of `RATE_HZ`."""
    import av
    import numpy

    packed = io.BytesIO()
    with av.open(packed, "w", format="mp3", options={"id3v2_version": "0", "write_xing": "0"}) as file:  # frames alone, as streamed
        stream = file.add_stream("mp3", rate=rate_hz, layout="mono", bit_rate=bit_rate)
        frame = av.AudioFrame.from_ndarray(numpy.frombuffer(pcm, dtype=numpy.int16).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = RATE_HZ
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return packed.getvalue()


def run(tests: Path, name: str, gateway: Setting, report: Path) -> list[Outcome]:
    """Run one file of the tests by their own settings of pytest; raise AssertionError when pytest itself fails."""
    with open_toxiproxy(urlsplit(gateway.address).port or 0, NAMED_PORTS) as ports:
        through = f"https://127.0.0.1:{ports[443]}"
        env = {
            **os.environ,
            "PYTHONPATH": str(FOLDER),
            "SSL_CERT_FILE": str(gateway.authority),
            "GW_AT": through if name == "test_tts.py" else gateway.address,
            "GW_TOXIPROXY": json.dumps(ports),
        }
        plugin = ("-p", "gw_livekit_plugin", f"--junitxml={report}")
        command = [sys.executable, "-m", "pytest", "-v", "--tb=short", *plugin, f"tests/{name}"]
        output = report.with_suffix(".txt")
        with output.open("w", encoding="utf-8") as log:
            done = subprocess.run(
                command, cwd=tests, env=env, stdout=log, stderr=subprocess.STDOUT, timeout=WITHIN_S, check=False
            )
    assert done.returncode in (0, 1), output.read_text("utf-8")[-5_000:]
    return [_outcome(name, case) for case in ElementTree.parse(report).iter("testcase")]


def _outcome(file: str, case: ElementTree.Element) -> Outcome:
    name = f"{file}::{case.attrib['name']}"
    for tag, result in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            return Outcome(name, result, found.attrib.get("message", "")[:500])
    return Outcome(name, "passed", "")
