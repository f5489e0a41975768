"""The ids that docs/clients.md and the examples tell frameworks to send: the gateway reads each of these names."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tests.fakes.hosting import open_plane

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## Session and turn ids") : PAGE.index("## A local speech server")]
EXAMPLES = sorted((ROOT / "examples").glob("*_turn_ids.py"))
CONFIG = """
providers: {sim: {}}
models: {llm: [sim/echo]}
"""
BODY = msgspec.json.encode({"model": "sim/echo", "messages": [{"role": "user", "content": "hello"}]})


def names(text: str) -> set[str]:
    return set(re.findall(r"X-GW-[A-Za-z-]+|\bgw_(?:session|turn|project|fallback)\w*", text))


def sections() -> dict[str, str]:
    found = re.split(r"^### (.+)\n", SECTION, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_every_framework_has_its_lines():
    assert [title.split(" (")[0] for title in sections()] == ["LiveKit Agents, Python", "LiveKit Agents, Node", "Pipecat", "Vocode", "SDKs"]
    for title, text in sections().items():
        example = re.search(r"\(\.\./(examples/\w+\.py)\)", text)
        code = (ROOT / example[1]).read_text(encoding="utf-8") if example else text
        assert any(name.lower() in ("x-gw-session", "gw_session") for name in names(code)), title


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_on_the_page(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    assert f"(../examples/{path.name})" in SECTION
    assert names(text) == {"X-GW-Session", "X-GW-Turn"}


@pytest.mark.parametrize("name", sorted(names(SECTION + "".join(path.read_text(encoding="utf-8") for path in EXAMPLES))))
async def test_the_gateway_reads_each_name(tmp_path, autojump_clock, name):
    async with open_plane(CONFIG, tmp_path) as plane:
        path = "/v1/chat/completions" + (f"?{name}=an-id" if name.startswith("gw_") else "")
        reply = await plane.post(path, BODY, **({} if name.startswith("gw_") else {name.replace("-", "_"): "an-id"}))
        assert reply.status == 200
        record = plane.kept.record
    assert {"session": record.session_id, "turn": record.turn_id}[name.lower().replace("_", "-").rpartition("-")[2]] == "an-id"
