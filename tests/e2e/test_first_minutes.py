"""The first five minutes of README.md, command by command, as a newcomer would type them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import wave
from pathlib import Path

import attrs
import httpx2
import pytest

pytestmark = pytest.mark.process

README = Path(__file__).resolve().parents[2] / "README.md"
SPOKEN = "what is the weather in Paris"

AMOUNT = re.compile(r"\$?\d[\d.,]*( m?s\b)?")


@attrs.frozen
class CommandOutput:
    """The output of a command: `out` its data, `err` its messages for people."""

    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


def masked(text: str) -> str:
    """`text` with every number (and ms or s behind it) replaced, blanks run together: they differ from run to run."""
    return re.sub(r"[ \t]+", " ", AMOUNT.sub("N", text)).strip()


def readme_commands() -> list[list[str]]:
    """Arguments of the `gw …` lines of the section, without their comments."""
    section = README.read_text().partition("## The first five minutes")[2].partition("```bash\ncurl")[0]
    return [shlex.split(line, comments=True)[1:] for line in section.splitlines() if line.startswith("gw ")]


def run(arguments: list[str], url: str, folder: Path) -> CommandOutput:
    env = {**os.environ, "GW_URL": url, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "gw", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, f"gw {shlex.join(arguments)}: {done.stderr}"
    return CommandOutput(done.stdout, done.stderr)


def sample_week(url: str) -> dict[str, object]:
    """The costs of the week, once the sample history is there: it comes just after the start."""
    deadline = time.monotonic() + 60
    while True:
        week = httpx2.get(f"{url}/v1/costs", params={"period": "week"}).json()
        if week["total"] or time.monotonic() > deadline:
            return week


def check_past(url: str) -> None:
    """Sample records in a project of their own, and nothing today."""
    week = sample_week(url)
    assert week["total"] > 0
    assert set(week["by_project"]) == {"demo-history"}
    today = httpx2.get(f"{url}/v1/costs", params={"period": "today"}).json()
    assert (today["total"], today["requests"]) == (0, 0)
    (newest,) = httpx2.get(f"{url}/v1/logs", params={"limit": 1}).json()
    assert newest["id"].startswith("sample-")
    assert httpx2.get(f"{url}/v1/requests/{newest['id']}").json()["endpoint"] == "sample"


def check_speech(say: CommandOutput, transcribe: CommandOutput, question: Path) -> None:
    assert masked(say.err) == "q.wav sim/tone N audio ttfb N N characters N"
    with wave.open(str(question)) as audio:
        assert audio.getnframes() / audio.getframerate() > 1
    assert transcribe.out == SPOKEN + "\n"
    assert masked(transcribe.err) == "sim/tone N audio N N"


def check_turn(turn: CommandOutput, answer: Path) -> None:
    assert turn.rows == [["part", "text"], ["heard", SPOKEN], ["said", "It is sunny in Paris."]]
    *stages, last = turn.err.splitlines()
    assert all("░" in line or "█" in line for line in stages)
    without_bars = [masked(line.translate(dict.fromkeys(map(ord, "░█")))) for line in stages]
    assert without_bars == ["stt sim/tone N", "llm sim/scripted N", "tts sim/tone N"]
    assert masked(last) == "a.wav first audio N N"
    assert answer.stat().st_size > 10_000


def check_reports(costs: CommandOutput, logs: CommandOutput) -> None:
    """The six requests of the commands before, and the newest first."""
    header, sim = costs.rows
    assert header == ["provider", "requests", "cost"]
    assert sim[:2] == ["sim", "6"]
    assert float(sim[2]) > 0
    requests = [(row[2], row[3], row[4]) for row in logs.rows[1:7]]
    assert requests == [
        ("tts", "sim/tone", "success"),
        ("llm", "sim/scripted", "success"),
        ("stt", "sim/tone", "success"),
        ("llm", "sim/echo", "fallback"),
        ("stt", "sim/tone", "success"),
        ("tts", "sim/tone", "success"),
    ]
    assert all(row[-1].startswith("sample-") for row in logs.rows[7:])


def check_curl(origin: str) -> None:
    section = README.read_text().partition("\ncurl ")[2].partition("\n```")[0]
    url, *options = shlex.split(section.replace("\\\n", " "))
    assert options[0::2] == ["-H", "-d"]
    name, _, value = options[1].partition(": ")
    address = url.replace("http://127.0.0.1:8080", origin)
    response = httpx2.post(address, headers={name: value}, content=options[3])
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"] == "hi"
    assert response.headers["x-gw-model"] == "sim/echo"
    assert float(response.headers["x-gw-cost-usd"]) > 0


def test_the_first_five_minutes(start, tmp_path):
    url = start().url
    check_past(url)
    commands = readme_commands()
    assert [command[0] for command in commands] == ["say", "transcribe", "chat", "turn", "costs", "logs"]
    say, transcribe, chat, turn, costs, logs = (run(command, url, tmp_path) for command in commands)
    check_speech(say, transcribe, tmp_path / "q.wav")
    assert chat.out == "what is the weather?\n"
    assert masked(chat.err) == "sim/flaky failed (N) after N -> sim/echo ttfb N total N N fallback N"
    check_turn(turn, tmp_path / "a.wav")
    check_reports(costs, logs)
    check_curl(url)


def test_other_modes_have_no_past(start):
    daemon = start("providers: {sim: {}}\nmodels: {llm: [sim/echo]}\ncost_tracking: {db_path: gw.db}\n")
    assert "history" not in daemon.text()
    assert httpx2.get(f"{daemon.url}/v1/costs", params={"period": "all"}).json()["requests"] == 0
