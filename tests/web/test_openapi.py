"""The OpenAPI document."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from openapi_spec_validator import validate

from gw import __version__
from gw.web.openapi import document
from tests.fakes.temporary_gateway import call

ROOT = Path(__file__).resolve().parents[2]
METHODS = {"get", "post", "put", "patch", "delete"}


async def test_it_is_served_to_everybody_and_valid(guarded, app_of):
    answer = await call(app_of(guarded), "/v1/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    found = json.loads(answer.body)
    validate(found)
    assert (found["openapi"], found["info"]["version"]) == ("3.1.0", __version__)
    assert found == document()


def operations():
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield path, method, operation


def test_operation_ids_are_unique():
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))


def test_every_operation_says_who_may_and_what_comes():
    for path, _, operation in operations():
        assert operation["x-gw-right"] in ("public", "key", "call", "metrics", "viewer", "operator", "admin"), path
        assert ("401" in operation["responses"]) or operation["x-gw-right"] == "public", path
        assert operation["responses"]["200"]["content"], path
        assert operation["summary"], path
        names = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert names == {part[1:-1] for part in path.split("/") if part.startswith("{")}, path


def test_defaults_and_ranges_of_the_specification():
    paths = document()["paths"]

    def query(path: str) -> dict[str, dict[str, object]]:
        return {p["name"]: p["schema"] for p in paths[path]["get"]["parameters"] if p["in"] == "query"}

    assert query("/v1/logs")["limit"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    assert query("/v1/audit-log")["limit"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    rolling = ["15m", "1h", "24h", "7d", "30d"]
    assert query("/v1/costs")["period"] == {"enum": ["today", "week", "month", "all", *rolling]}
    assert query("/v1/latency")["period"] == {"enum": ["today", "week", "month", *rolling]}
    assert query("/api/latency")["period"] == {"enum": ["today", "week", *rolling]}
    assert query("/v1/logs")["modality"] == {"enum": ["stt", "llm", "tts"]}


def test_bodies_forbid_what_they_do_not_name():
    schemas = document()["components"]["schemas"]
    for name in ("CreateProvider", "UpdateProvider", "CreateModel", "UpdateModel", "CreateProject", "UpdateProject", "CreateKey"):
        assert schemas[name]["additionalProperties"] is False, name
    assert schemas["CreateProject"]["required"] == ["project_id"]
    assert schemas["CreateProvider"]["required"] == ["provider_id"]
    assert schemas["CreateModel"]["required"] == ["modality", "provider_id", "model_name"]


def test_the_dashboards_types_are_those_of_the_document():
    """If this fails: `python frontend/scripts/write_types.py`, then build the dashboard."""
    script = runpy.run_path(str(ROOT / "frontend" / "scripts" / "write_types.py"))
    assert script["types"]() == script["TYPES"].read_text(encoding="utf-8")
