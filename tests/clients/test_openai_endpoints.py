"""Every endpoint that OpenAI's SDK knows: those that the gateway does not serve fail as the SDK expects, never with a page."""

from __future__ import annotations

import re
from pathlib import Path

import openai
import pytest

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours")]
CALL = re.compile(r'self\._(get|post|delete|put|patch|get_api_list)\(\s*(?:path_template\(\s*)?f?"(/[^"?]+)')
SERVED = ("/chat/completions", "/responses", "/embeddings", "/moderations", "/audio/", "/models", "/realtime/client_secrets")
OURS = ("/projects",)
"""The gateway has projects, too."""
FEWEST = 300


def _endpoints() -> set[tuple[str, str]]:
    """Return method and path of all calls in the SDK's source."""
    resources = Path(openai.__file__).parent / "resources"
    calls = (call for file in resources.rglob("*.py") for call in CALL.findall(file.read_text(encoding="utf-8")))
    return {("get" if method == "get_api_list" else method, re.sub(r"\{\w+\}", "some", path)) for method, path in calls}


def test_what_is_not_served_is_openais_404_or_501(demo):
    others = sorted(end for end in _endpoints() if not end[1].startswith((*SERVED, *OURS)))
    assert len(others) >= FEWEST
    with openai.OpenAI(base_url=demo.base, api_key="any", max_retries=0) as client:
        for method, path in others:
            with pytest.raises(openai.APIStatusError) as caught:
                getattr(client, method)(path, cast_to=object)
            error = caught.value
            kind = (error.status_code, error.type, error.code)
            if path.startswith(("/realtime/calls", "/realtime/sessions", "/realtime/transcription_sessions")):
                assert kind == (501, "server_error", "not_implemented"), (method, path)
                assert "client_secrets" in error.message
            else:
                assert kind in _REFUSALS, (method, path, kind, error.message)


_REFUSALS = {(404, "invalid_request_error", "unknown_url"), (405, "invalid_request_error", "method_not_supported")}
