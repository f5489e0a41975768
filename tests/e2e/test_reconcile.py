"""A bill of a million rows, read by a process that may not grow."""

import json
import subprocess
import sys

import pytest
import trio

from gw.store.store import open_store
from tests.fakes.records import HandClock, record

pytestmark = pytest.mark.process
ROWS = 1_000_000
MOST_MB = 200
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, ({most} << 20, {most} << 20))
from gw.cli.main import main
main(sys.argv[1:])
"""


def test_a_million_rows_in_bounded_memory(tmp_path):
    async def fill():
        async with open_store(tmp_path / "gw.db", clock=HandClock()) as store:
            store.finish(record("r", provider="openai", model_id="openai/gpt-x", cost_nusd=1))

    trio.run(fill)
    (tmp_path / "gw.yaml").write_text("providers: {openai: {api_key: k}}\nmodels: {llm: [openai/gpt-x]}\n")
    bill = tmp_path / "bill.csv"
    with bill.open("w") as file:
        file.write("model,input_tokens,output_tokens,cost_usd\n")
        file.writelines(f"m{n % 50},{n},1,0.000001\n" for n in range(ROWS))
    arguments = ["reconcile", "--provider", "openai", "--provider-usage-file", str(bill), "--format", "json"]
    arguments += ["--config", str(tmp_path / "gw.yaml")]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED.format(most=MOST_MB), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"GW_DB_PATH": str(tmp_path / "gw.db"), "HOME": str(tmp_path), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert sum(row["units"]["output_tokens"]["theirs"] or 0 for row in report["rows"]) == ROWS
    assert report["total_cost_usd"]["theirs"] == 1.0
