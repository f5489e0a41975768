"""Origins of settings."""

from __future__ import annotations

from pathlib import Path

import attrs

from gw.admin.pages import SECTIONS, Origins, settings_page
from gw.config.parse import demo_settings, parse
from gw.config.settings import Settings
from tests.fakes.answers import as_json

TEXT = """\
providers:
  sim: {}
models:
  llm: [sim/echo]
  stt:
    sim/tone: {}
auth:
  admin_token: admin-token-8351026789
  keys:
  - {key: gwk_shop_8351026789, project: default, name: till}
routing:
  first_event_s: {llm: 3}
rate_limits:
  sim: {requests_per_minute: 60}
"""


def _parsed(tmp_path: Path, text: str = TEXT, **env: str) -> Settings:
    return parse(text, file=str(tmp_path / "gw.yaml"), env=env, data_dir=tmp_path)


async def _values(settings: Settings) -> dict[str, tuple[object, str]]:
    page = as_json(await settings_page(settings, version="1", started_at=2.0, warnings=("of the database",)))
    return {
        f"{section['name']}.{row['name']}": (row["value"], row["origin"])
        for section in page["sections"]
        for row in section["values"]
    }


def test_entries_have_their_line_and_so_have_items_of_lists(tmp_path):
    origin = Origins(_parsed(tmp_path))
    assert origin.of("yaml", "providers", "sim") == "gw.yaml:2"
    assert origin.of("yaml", "models", "llm", "sim/echo") == "gw.yaml:4"
    assert origin.of("yaml", "models", "stt", "sim/tone") == "gw.yaml:6"
    assert origin.of("yaml", "auth", "keys", 0) == "gw.yaml:10"
    assert origin.of("db", "providers", "sim") == "API"
    assert origin.of("yaml", "projects", "default") == "gw.yaml"  # it is there whether it is configured or not


def test_demo_mode_has_no_file(tmp_path):
    assert Origins(demo_settings(tmp_path)).of("yaml", "providers", "sim") == "built in"


async def test_values_and_where_they_are_from(tmp_path):
    values = await _values(_parsed(tmp_path))
    assert values["routing.first_event_s.llm"] == (3, "gw.yaml:12")
    assert values["routing.first_event_s.tts"] == (4, "default")
    assert values["rate_limiting.sim.requests_per_minute"] == (60, "gw.yaml:14")
    assert values["serve.port"] == (8080, "default")
    assert values["cost_tracking.db_path"] == (str(tmp_path / "gw.db"), "GW_DB_PATH or default")
    assert values["serve.tls_cert"] == (None, "default")
    assert (await _values(_parsed(tmp_path, PORT="9000")))["serve.port"] == (9000, "command line or PORT")


async def test_secrets_are_masked_everywhere(tmp_path):
    page = as_json(await settings_page(_parsed(tmp_path), version="1", started_at=2.0, warnings=()))
    assert "admin-token-8351026789" not in str(page)
    assert "gwk_shop_8351026789" not in str(page)
    values = await _values(_parsed(tmp_path))
    assert values["auth.admin_token"] == ("adm…6789", "gw.yaml:8")
    assert values["auth.keys.0.key"] == ("gwk…6789", "gw.yaml:10")
    assert values["auth.keys.0.name"] == ("till", "gw.yaml:10")


async def test_the_page_names_file_version_and_all_warnings(tmp_path):
    settings = attrs.evolve(_parsed(tmp_path), warnings=("of the file",))
    page = as_json(await settings_page(settings, version="1", started_at=2.0, warnings=("of the database",)))
    assert page["warnings"] == ["of the file", "of the database"]
    assert (page["version"], page["started_at"], page["file"]) == ("1", 2.0, str(tmp_path / "gw.yaml"))
    assert [section["name"] for section in page["sections"]] == list(SECTIONS)
