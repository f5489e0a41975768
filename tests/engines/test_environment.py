"""No helper process inherits a secret of the gateway."""

from __future__ import annotations

import sys

import pytest
import trio

from gw.engines.environment import child_environment
from gw.engines.process import OwnedProcess

SECRETS = {
    "GW_SECRET": "s", "GW_SECRET_PREVIOUS": "s", "GW_MCP_TOKEN": "s", "GW_API_KEY": "s", "GW_DB_PATH": "s", "GW_CONFIG": "s",
    "OPENAI_API_KEY": "s", "DEEPGRAM_API_KEY": "s", "HF_TOKEN": "s", "HUGGING_FACE_HUB_TOKEN": "s", "HUGGINGFACE_TOKEN": "s",
    "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "s", "DATABASE_URL": "postgres://u:p@h/d", "PGPASSWORD": "s", "MY_VOICE": "s",
    "HTTPS_PROXY": "http://user:password@proxy:3128", "PYTHONSTARTUP": "s", "SSH_AUTH_SOCK": "s", "PATH_TO_KEY": "s",
}  # fmt: skip
NEEDED = {
    "PATH": "/bin", "HOME": "/root", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp", "TZ": "UTC", "PYTHONPATH": "/app",
    "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "0", "HF_HOME": "/models", "HF_HUB_OFFLINE": "1", "LD_LIBRARY_PATH": "/lib",
    "XDG_CACHE_HOME": "/cache", "https_proxy": "http://proxy:3128", "NO_PROXY": "localhost", "SSL_CERT_FILE": "/ca.pem",
    "ORT_LOGGING_LEVEL": "3", "CT2_VERBOSE": "1", "ESPEAK_DATA_PATH": "/espeak", "NVIDIA_VISIBLE_DEVICES": "all",
}  # fmt: skip


def test_only_what_a_program_needs_is_passed_on():
    assert child_environment({**SECRETS, **NEEDED}) == NEEDED


DUMP = "import os, sys; sys.stdout.write('\\n'.join([*os.environ, 'END'])); sys.stdout.flush(); sys.stdin.read()"


class _Dumping(OwnedProcess):
    """Keeps the names of the variables that its process prints."""

    names: frozenset[str] = frozenset()

    async def _use(self, process):
        printed = b""
        while b"\nEND" not in printed:
            printed += await process.stdout.receive_some()
        self.names = frozenset(printed.decode().split("\n"))


@pytest.mark.process
async def test_an_engine_gets_no_secret(monkeypatch):
    for name, value in {**SECRETS, **NEEDED}.items():
        if name not in ("PATH", "PYTHONPATH", "HOME", "LD_LIBRARY_PATH"):
            monkeypatch.setenv(name, value)
    engine = _Dumping([sys.executable, "-c", DUMP])
    with trio.fail_after(60):
        await engine.run()
    assert not SECRETS.keys() & engine.names
    assert {"PATH", "HF_HOME", "OMP_NUM_THREADS"} <= engine.names
