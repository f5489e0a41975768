"""Captured words and sounds, in over HTTP and WebSocket and out by the API: encrypted, audited, deleted, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gw.cli.serve_command import bound_to
from gw.config.parse import parse
from gw.errors import ConfigError
from gw.types.entities import Actor
from tests.fakes.running import Running, open_running

SECRET = "a long secret that nobody knows"
DAY_S = 86_400
CONFIG = """
providers: {sim: {latency_ms: 0, token_ms: 0}}
models: {llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}
projects:
  kept: {capture: {text: true, share: 1, keep_days: 2, names: [Grace Hopper]}}
  off: {}
"""
CANARY = "canary-in-the-coal-mine"


async def chat(running: Running, text: str, *, project: str = "kept", session: str = "s1", stream: bool = False) -> str:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    body = {"model": "sim/echo", "messages": messages, "stream": stream}
    answer = await running.ask("POST", "/v1/chat/completions", body, x_gw_project=project, x_gw_session=session)
    assert answer.status == 200, answer.body
    return answer.headers["x-request-id"]


async def captured(running: Running, name: str) -> list[dict]:
    answer = await running.get(f"/v1/capture/{name}")
    assert answer.status == 200, answer.body
    return answer.json["requests"]


@pytest.fixture
async def running(tmp_path):
    async with open_running(tmp_path, CONFIG, secret=SECRET) as running:
        yield running


async def test_a_chat_is_captured_encrypted_and_read_back_with_an_audit_entry(running: Running, tmp_path: Path):
    request_id = await chat(running, f"I am Grace Hopper, {CANARY}, +49 171 1234567, 4111 1111 1111 1111, g@navy.mil")
    await chat(running, f"again {CANARY}", stream=True)
    await chat(running, CANARY, project="off", session="s1")
    first, second = await captured(running, "s1")
    spoken = f"I am [name], {CANARY}, [phone], [card], [mail]"
    assert (first["request_id"], first["project"], first["captured"], first["cut"]) == (request_id, "kept", "stored", False)
    asked = {"role": "system", "text": "Be brief."}
    assert first["said"] == [asked, {"role": "user", "text": spoken}, {"role": "answer", "text": spoken}]
    assert second["said"][2] == {"role": "answer", "text": f"again {CANARY}"}
    assert await captured(running, request_id) == [first]
    entries = (await running.get("/v1/audit-log?entity_type=capture")).json
    assert [(e["action"], e["entity_id"], e["actor"], e["changes"]) for e in entries] == [
        ("read", request_id, "anyone", {"what": "text", "requests": 1}),
        ("read", "s1", "anyone", {"what": "text", "requests": 2}),
    ]
    await nowhere_in_clear(running, tmp_path, CANARY.encode(), b"Grace Hopper", b"1234567")


async def nowhere_in_clear(running: Running, folder: Path, *canaries: bytes) -> None:
    """Look through every file below the folder, the metrics, the log of requests, the audit log and the statistics."""
    await running.gateway.store.flush()
    files = await trio.to_thread.run_sync(_files_below, folder)
    assert folder / "gw.db.capture" in files
    pages = [(await running.get(path)).body for path in ("/v1/metrics", "/v1/logs", "/v1/audit-log", "/v1/capture", "/health")]
    for canary in canaries:
        assert [file.name for file in files if canary in file.read_bytes()] == []
        assert [page for page in pages if canary in page] == []


def _files_below(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


async def test_it_is_off_without_the_setting(running: Running, tmp_path: Path):
    await chat(running, CANARY, project="off")
    await chat(running, CANARY, project="default")
    assert (await running.get("/v1/capture/s1")).status == 404
    assert not (tmp_path / "gw.db.capture").exists()


async def test_forgetting_needs_a_confirmation_and_deletes(running: Running, tmp_path: Path):
    await chat(running, "one")
    await chat(running, "two", session="s2")
    path = "/v1/capture/s1"
    preview = await running.ask("DELETE", path)
    assert preview.json == {"would_delete": {"capture_id": "s1", "requests": 1}}
    assert len(await captured(running, "s1")) == 1
    assert (await running.ask("DELETE", f"{path}?confirm=true")).json == {"deleted": "s1", "requests": 1, "pieces": 1}
    assert (await running.get(path)).status == 404
    assert len(await captured(running, "s2")) == 1
    newest = (await running.get("/v1/audit-log?entity_type=capture&action=delete")).json
    assert [(e["entity_id"], e["changes"]) for e in newest] == [("s1", {"requests": 1})]


async def test_what_has_expired_is_not_shown(running: Running):
    await chat(running, "one")
    assert len(await captured(running, "s1")) == 1
    running.clock.at += 2 * DAY_S + 1
    assert (await running.get("/v1/capture/s1")).status == 404


async def test_the_statistics_say_what_is_stored(running: Running):
    await chat(running, "one")
    stats = (await running.get("/v1/capture")).json
    assert (stats["enabled"], stats["projects"], stats["requests"], stats["stored"]) == (True, ["kept"], 1, 1)
    assert 0 < stats["bytes"] < stats["max_bytes"] == 1_000_000_000
    metrics = (await running.get("/v1/metrics")).body.decode()
    assert 'gw_capture_pieces_total{result="stored"} 1.0' in metrics
    assert f'gw_capture_bytes {float(stats["bytes"])}' in metrics


async def test_the_record_says_that_a_piece_was_dropped(running: Running, monkeypatch):
    monkeypatch.setattr("gw.store.capture_writer.QUEUED", 0)
    request_id = await chat(running, "one")
    detail = (await running.get(f"/v1/requests/{request_id}")).json
    assert detail["captured"] == "dropped"
    assert (await running.get("/v1/capture")).json["dropped"] == 1
    assert b'gw_capture_pieces_total{result="dropped"} 1.0' in (await running.get("/v1/metrics")).body
    monkeypatch.undo()
    kept = await chat(running, "two")
    assert (await running.get(f"/v1/requests/{kept}")).json["captured"] == "stored"
    off = await chat(running, "three", project="off")
    assert (await running.get(f"/v1/requests/{off}")).json["captured"] is None


async def test_a_project_is_given_capture_over_the_api(running: Running):
    made = await running.ask("POST", "/v1/projects", {"project_id": "late", "capture": {"text": True, "share": 1}})
    assert made.status == 200, made.body
    entry = (await running.get("/v1/projects/late")).json
    assert entry["capture"] == {"text": True, "audio": False, "share": 1.0, "keep_days": 14, "names": [], "presidio": ""}
    await chat(running, "hello", project="late", session="s9")
    assert len(await captured(running, "s9")) == 1
    assert (await running.ask("PATCH", "/v1/projects/late", {"capture": None})).status == 200
    await chat(running, "hello", project="late", session="s10")
    assert (await running.get("/v1/capture/s10")).status == 404


async def test_without_a_secret_nothing_can_be_captured(tmp_path: Path):
    async with open_running(tmp_path, CONFIG.replace("text: true", "text: false")) as running:
        refused = await running.ask("POST", "/v1/projects", {"project_id": "late", "capture": {"text": True}})
        assert (refused.status, refused.error["param"]) == (422, "capture")
        assert "GW_SECRET" in refused.error["message"]
        assert (await running.get("/v1/capture/s1")).status == 404
        assert (await running.get("/v1/capture")).json["enabled"] is False


async def test_the_share_is_taken_of_whole_sessions(tmp_path: Path):
    text = CONFIG.replace("share: 1", "share: 0.5")
    async with open_running(tmp_path, text, secret=SECRET) as running:
        kept = []
        for n in range(20):
            ids = [await chat(running, "hello", session=f"session-{n}") for _ in range(2)]
            states = {(await running.get(f"/v1/requests/{one}")).json["captured"] for one in ids}
            assert len(states) == 1
            kept += states
        assert 3 <= kept.count("stored") <= 17
        assert kept.count("stored") + kept.count(None) == 20


async def test_a_new_secret_keeps_what_was_captured_readable(tmp_path: Path):
    async with open_running(tmp_path, CONFIG, secret=SECRET) as running:
        await chat(running, "hello")
        await running.gateway.registrar.rotate(Actor(source="cli", name="admin"))
        assert len(await captured(running, "s1")) == 1
    async with open_running(tmp_path, CONFIG, secret=SECRET) as running:
        assert len(await captured(running, "s1")) == 1
    async with open_running(tmp_path, CONFIG, secret="another secret") as running:
        assert (await running.get("/v1/capture/s1")).status == 500


async def test_a_search_finds_words_and_goes_on_where_it_stopped(running: Running):
    ids = [await chat(running, f"number {n}: the {CANARY} sings", session=f"s{n}") for n in range(5)]
    body = {"text": CANARY.upper(), "limit": 4}
    first = (await running.ask("POST", "/v1/capture-search", body)).json
    assert [one["request_id"] for one in first["found"]] == [ids[4], ids[4], ids[3], ids[3]]
    assert first["found"][0]["text"].startswith("number 4: the")
    assert (first["searched"], first["next"] is None) == (2, False)
    second = (await running.ask("POST", "/v1/capture-search", {**body, "limit": 50, "before": first["next"]})).json
    assert [one["request_id"] for one in second["found"]][::2] == [ids[2], ids[1], ids[0]]
    assert second["next"] is None
    assert (await running.ask("POST", "/v1/capture-search", {"text": "nothing like it"})).json["found"] == []
    assert (await running.ask("POST", "/v1/capture-search", {"text": CANARY, "project": "off"})).json["found"] == []
    assert (await running.ask("POST", "/v1/capture-search", {"text": "x"})).status == 422
    log = await running.get("/v1/audit-log?entity_id=search")
    assert len(log.json) == 4
    assert CANARY.encode() not in log.body.lower()


def test_the_gateway_does_not_start_where_what_it_should_capture_cannot_be(tmp_path: Path, monkeypatch):
    def checked(text: str, secret: str) -> ConfigError:
        settings = parse(text, file="gw.yaml", env={"GW_SECRET": secret}, data_dir=tmp_path)
        with pytest.raises(ConfigError) as refused:
            bound_to(settings, None, None)
        return refused.value

    (problem,) = checked(CONFIG, "").problems
    assert ("GW_SECRET" in problem.what, problem.line) == (True, 5)
    monkeypatch.setattr("gw.config.capture_rules.find_spec", lambda name: None)
    (problem,) = checked(CONFIG.replace("text: true", "audio: true"), SECRET).problems
    assert problem.hint == "install gw with its extra 'capture': pip install '.[capture]' in a checkout"


async def test_a_reload_that_cannot_capture_changes_nothing(running: Running, tmp_path: Path):
    settings = parse(CONFIG, file="gw.yaml", env={}, data_dir=tmp_path)
    with pytest.raises(ConfigError):
        await running.gateway.reload(settings)
    await chat(running, "still captured")
    assert len(await captured(running, "s1")) == 1
