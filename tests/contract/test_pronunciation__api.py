"""The table of a project is read and changed over HTTP, and what is spoken from then on follows it."""

from __future__ import annotations

import pytest

from tests.fakes.running import open_running

CONFIG = """
providers: {sim: {type: sim, latency_ms: 0}}
models: {tts: {sim/tone: {price: {unit: 1M_characters, usd: 1000}}}}
projects: {file: {pronunciations: [{word: Nguyen, say: win}]}}
"""
NGUYEN = {"word": "Nguyen", "say": "win", "ipa": "w ɪ n", "language": "", "match_case": False}
PATH = "/v1/projects/clinic/pronunciations"


async def sent(running):
    """Have a text spoken; return how many characters the vendor was sent."""
    body = {"model": "sim/tone", "input": "Doctor Nguyen is here.", "response_format": "pcm"}
    answer = await running.ask("POST", "/v1/audio/speech", body, x_gw_project="clinic")
    assert answer.status == 200, answer.body
    return (await running.get(f"/v1/requests/{answer.headers['x-request-id']}")).json["input_units"]


async def test_a_table_is_replaced_and_audited_and_survives_a_restart(tmp_path):
    async with open_running(tmp_path, CONFIG) as running:
        assert (await running.ask("POST", "/v1/projects", {"project_id": "clinic"})).status == 200
        assert (await running.get(PATH)).json == {"project_id": "clinic", "source": "db", "pronunciations": []}
        whole = await sent(running)
        answer = await running.ask("PUT", PATH, {"pronunciations": [{"word": "Nguyen", "say": "win", "ipa": "w ɪ n"}]})
        assert (answer.status, answer.json["pronunciations"]) == (200, [NGUYEN])
        assert await sent(running) == whole - 3
        await running.ask("PUT", PATH, {"pronunciations": [NGUYEN]})  # changes nothing, so it is not in the log
        entries = [entry for entry in (await running.get("/v1/audit-log?limit=50")).json if "pronunciations" in entry["changes"]]
        assert [entry["changes"]["pronunciations"] for entry in entries] == [
            {"from": [], "to": [{"word": "Nguyen", "say": "win", "ipa": "w ɪ n"}]},
        ]  # fmt: skip
        await running.ask("PATCH", "/v1/projects/clinic", {"description": "a clinic"})
    async with open_running(tmp_path, CONFIG) as running:
        assert (await running.get(PATH)).json["pronunciations"] == [NGUYEN]
        assert await sent(running) == whole - 3
        assert (await running.ask("PUT", PATH, {"pronunciations": []})).json["pronunciations"] == []
        assert await sent(running) == whole


@pytest.mark.parametrize(
    ("entries", "param", "what"),
    [
        ([NGUYEN, {"word": "nguyen", "say": "wen"}], "pronunciations[1]", "entry 2: 'nguyen' appears twice"),
        ([{"word": "", "say": "win"}], "pronunciations[0]", "entry 1: word and say cannot be empty"),
        ([{"word": "a", "say": "b"} | {"word": f"w{n}"} for n in range(2_001)], "pronunciations", "at most 2000"),
        ([{"word": "a", "say": "b", "sound": "c"}], None, "sound"),
    ],
)  # fmt: skip
async def test_a_table_that_is_wrong_changes_nothing(tmp_path, entries, param, what):
    async with open_running(tmp_path, CONFIG) as running:
        await running.ask("POST", "/v1/projects", {"project_id": "clinic"})
        answer = await running.ask("PUT", PATH, {"pronunciations": entries})
        assert answer.status == 422
        assert what in answer.json["error"]["message"]
        assert param is None or answer.json["error"]["param"] == param
        assert (await running.get(PATH)).json["pronunciations"] == []


async def test_projects_of_the_file_are_read_only_and_others_unknown(tmp_path):
    async with open_running(tmp_path, CONFIG) as running:
        of_file = await running.get("/v1/projects/file/pronunciations")
        assert (of_file.json["source"], of_file.json["pronunciations"]) == ("yaml", [NGUYEN | {"ipa": ""}])
        refused = await running.ask("PUT", "/v1/projects/file/pronunciations", {"pronunciations": []})
        assert refused.status in {403, 409, 422}
        assert "gw.yaml" in refused.json["error"]["message"]
        assert (await running.get("/v1/projects/nobody/pronunciations")).status == 404
        for body in ({"pronunciations": []}, {}):
            assert (await running.ask("PUT", "/v1/projects/nobody/pronunciations", body)).status == 404
