"""The JDK's own HTTP client with its defaults, which Spring AI and LangChain4j use."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.clients

SOURCE = Path(__file__).with_name("programs") / "Http.java"
WITHIN_S = 120


def test_the_jdks_client_offers_http_2_and_is_served(demo, tool):
    command = [tool("java"), str(SOURCE), demo.daemon.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    whole, streamed, models = done.stdout.splitlines()
    assert all(line.startswith("200 HTTP_1_1 ") for line in (whole, streamed, models))
    assert '"content":"tell me something short"' in whole
    assert streamed.rstrip().endswith("data: [DONE]")
    assert '"sim/echo"' in models
