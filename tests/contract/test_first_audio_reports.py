"""First audio as one quantity: turns over HTTP, and the same waits in every report, against the turns themselves."""

from __future__ import annotations

import statistics
from itertools import product

import apsw
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.test_numbers import open_setup, setup  # noqa: F401  # a fixture
from tests.fakes.temporary_gateway import NOON

WAITS = {("desk", 150.0): 3, ("shop", 400.0): 2, ("desk", 900.0): 1}
"""Project and time to the first byte of the model → turns."""


async def take(setup, number: int, project: str, chat_ms: float) -> float:  # noqa: F811
    """Listen, think for 50 ms, answer; return the wait from the end of the recording."""
    ids = {"x_gw_turn": f"turn-{number}", "x_gw_session": f"call-{number}", "x_gw_project": project}
    setup.north.first_ms, setup.south.first_ms = chat_ms, 90.0
    await setup.transcribe(**ids)
    setup.spend(50)
    await setup.chat("north/big", **ids)
    await setup.speak("ten chars.", **ids)
    await setup.speak("more words", **ids)  # the second sentence does not count again
    return 2 * chat_ms + 50 + 90


async def test_every_report_has_the_turns_own_waits(setup, mock_clock, tmp_path):  # noqa: F811
    waits: dict[str, list[float]] = {"desk": [], "shop": []}
    for number, (project, chat_ms) in enumerate(pair for pair, times in WAITS.items() for pair in [pair] * times):
        waits[project].append(await take(setup, number, project, chat_ms))
    await setup.chat("north/big", x_gw_turn="silent", x_gw_session="call-x", x_gw_project="desk")  # a turn without sound
    everything = [*waits["desk"], *waits["shop"]]
    turns = await setup.json("/api/turns")
    shown = [turn["first_audio_ms"] for turn in turns if turn["first_audio_ms"] is not None]
    assert sorted(shown) == pytest.approx(sorted(everything), abs=0.1)

    db = apsw.Connection(str(tmp_path / "gw.db"), flags=apsw.SQLITE_OPEN_READONLY)
    by_sql = [
        wait for (wait,) in db.execute(
            "select 1000 * (min(case when modality = 'tts' then timestamp + ttfb_ms / 1000 end) - min(timestamp)) from requests "
            "where turn_id <> 'silent' group by turn_id, session_id"
        )
    ]  # fmt: skip
    db.close()
    assert sorted(by_sql) == pytest.approx(sorted(everything), abs=0.1)

    for period, project in product(("today", "15m", "1h", "24h", "7d", "30d"), (None, "desk", "shop")):
        expected = everything if project is None else waits[project]
        query = f"?period={period}" + (f"&project={project}" if project else "")
        report = await setup.json(f"/v1/first-audio{query}")
        page = await setup.json(f"/api/pages/latency{query}")
        overview = (await setup.json(f"/api/overview{query}"))["compared"]
        assert page["first_audio"] == report
        assert overview["current"]["first_audio"] == report["all"], (period, project)
        same(report["all"], expected)
        assert report["before"]["count"] == overview["before"]["first_audio"]["count"] == 0
        [(stack, entry)] = report["by_stack"].items()
        assert (stack, entry) == ("north/ear / north/big / south/mouth", report["all"])
        for name, one in report["by_project"].items():
            same(one, waits[name])
        assert sum(report["course"]["count"]) == len(expected)
        assert report["course"]["times"][0] <= NOON <= report["course"]["times"][-1] + report["course"]["step_s"]

    setup.wait_for_commits()
    text = (await setup.running.get("/v1/metrics")).body.decode()
    [family] = [family for family in text_string_to_metric_families(text) if family.name == "gw_first_audio_seconds"]
    samples = {(sample.name, sample.labels["project"], sample.labels.get("quantile")): sample.value for sample in family.samples}
    for project, own in waits.items():
        assert samples["gw_first_audio_seconds_count", project, None] == len(own)
        assert samples["gw_first_audio_seconds_sum", project, None] == pytest.approx(sum(own) / 1_000, abs=0.001)
        assert samples["gw_first_audio_seconds", project, "0.5"] == pytest.approx(statistics.median_low(own) / 1_000, rel=0.03)


def same(entry: dict, waits: list[float]) -> None:
    """Compare with the percentiles of rank ceil(q * count), within the 3 % of a histogram."""
    ordered = sorted(waits)
    assert entry["count"] == len(waits)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert entry[name] == pytest.approx(ordered[-int(-share * len(ordered) // 1) - 1], rel=0.03), name
