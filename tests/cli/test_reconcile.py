import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
import trio

from gw.store.store import open_store
from tests.fakes import vendor_exports as exports
from tests.fakes.records import HandClock, record

CONFIG = "providers: {openai: {api_key: k}}\nmodels: {llm: [openai/gpt-x]}\n"
HEAD = "model,input_tokens,output_tokens,cost_usd\n"


@pytest.fixture
def prepared(tmp_path, run):
    """A database with three requests of $0.001, and a command on it."""

    async def fill():
        async with open_store(tmp_path / "gw.db", clock=HandClock()) as store:
            for n in range(3):
                store.finish(record(f"r{n}", provider="openai", model_id="openai/gpt-x", cost_nusd=1_000_000))

    trio.run(fill)
    (tmp_path / "gw.yaml").write_text(CONFIG)

    def reconcile(bill, *args, name="bill.csv"):
        Path(tmp_path / name).write_text(bill)
        return run(
            "reconcile", "--provider", "openai", "--provider-usage-file", name, *args, GW_DB_PATH=str(tmp_path / "gw.db")
        )

    return reconcile


def agreeing(prepared):
    """A bill that agrees, from what the command itself says of our side."""
    recorded = json.loads(prepared(HEAD, "--format", "json").stdout)["rows"][0]
    units = [int(recorded["units"][unit]["ours"]) for unit in ("input_tokens", "output_tokens")]
    return f"{HEAD}gpt-x,{units[0]},{units[1]},0.003\n"


def test_what_agrees(prepared):
    done = prepared(agreeing(prepared), "--fail-on-diff", "--threshold", "0")
    assert done.exit_code == 0
    header, row = [line.split("\t") for line in done.stdout.splitlines()]
    assert dict(zip(header, row, strict=True))["matched"] == "both"
    assert "2023-11-15 to 2023-11-15 UTC" in done.stderr


def test_a_difference_is_no_failure_unless_asked_for(prepared):
    bill = agreeing(prepared).replace("0.003", "0.004")
    done = prepared(bill)
    assert done.exit_code == 0
    assert "1 of 1 rows differ by more than 5 %" in done.stderr
    assert prepared(bill, "--fail-on-diff").exit_code == 5
    assert prepared(bill, "--fail-on-diff", "--threshold", "30").exit_code == 0


def test_json_and_csv(prepared):
    bill = agreeing(prepared) + "=HYPERLINK(1),1,1,5\n"
    report = json.loads(prepared(bill, "--format", "json").stdout)
    assert [row["model"] for row in report["rows"]] == ["openai/=HYPERLINK(1)", "openai/gpt-x"]
    assert report["rows"][0]["cause"] == "coverage"
    rows = list(csv.DictReader(io.StringIO(prepared(bill, "--format", "csv").stdout)))
    assert [row["usd theirs"] for row in rows] == ["5.000000", "0.003000"]


@pytest.mark.parametrize(
    ("bill", "args", "message"),
    [
        ("", (), "empty"),
        ("model\na\n", (), "missing input_tokens"),
        (HEAD + "a,x,1,1\n", (), "row 2, column 'input_tokens'"),
        (HEAD, ("--start", "soon"), "2026-01-31"),
        (HEAD, ("--threshold", "-1"), "-1.0 is not in the range"),
        (HEAD, ("--format", "xml"), "xml"),
    ],
)
def test_what_cannot_be_is_said_without_a_traceback(prepared, bill, args, message):
    done = prepared(bill, *args)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_unknown_vendor_and_no_records(prepared, run, tmp_path):
    (tmp_path / "bill.csv").write_text(HEAD)
    arguments = ("reconcile", "--provider-usage-file", "bill.csv", "--provider")
    done = run(*arguments, "ollama", GW_DB_PATH=str(tmp_path / "gw.db"))
    assert (done.exit_code, "openai, deepgram, cartesia" in done.stderr) == (2, True)
    done = run(*arguments, "openai", GW_DB_PATH=str(tmp_path / "none.db"))
    assert (done.exit_code, "no database" in done.stderr) == (1, True)


def test_files_of_the_vendors_own_apis_add_up(prepared, tmp_path, run):
    figures = {"input_tokens": Decimal(30), "output_tokens": Decimal(60), "n_requests": Decimal(3), "cost_usd": Decimal("0.003")}
    for name, export in (("usage.json", exports.openai_usage), ("costs.json", exports.openai_costs)):
        (tmp_path / name).write_text(exports.as_json(export("gpt-x-2024-08-06", figures)))
    files = ("--provider-usage-file", "usage.json", "--provider-usage-file", "costs.json")
    arguments = ("reconcile", "--provider", "openai", *files, "--threshold", "0", "--format", "json")
    done = run(*arguments, "--start", "2023-11-15", "--fail-on-diff", GW_DB_PATH=str(tmp_path / "gw.db"))
    costs_of_speech, row = json.loads(done.stdout)["rows"]
    assert (row["model"], row["names"], row["flagged"]) == ("openai/gpt-x", ["gpt-x-2024-08-06"], False)
    assert (costs_of_speech["model"], costs_of_speech["matched"]) == ("openai/voice", "theirs_only")
    assert done.exit_code == 5
    done = run(*arguments, "--start", "2023-11-16", "--end", "2023-11-16", GW_DB_PATH=str(tmp_path / "gw.db"))
    assert json.loads(done.stdout)["rows"] == []
    assert "4 rows of the files are of days outside the window" in done.stderr


def test_a_file_of_any_form(prepared):
    bill = agreeing(prepared).replace("model,input_tokens,output_tokens,cost_usd", "Name,In,Out,USD")
    named = ("--columns", "model=Name,input_tokens=In", "--columns", "output_tokens=Out,cost_usd=USD")
    assert prepared(bill, *named, "--fail-on-diff", "--threshold", "0").exit_code == 0
    refused = prepared(bill, "--columns", "model=Name,cost_usd=EUR")
    assert refused.exit_code == 2
    assert "no column 'EUR'" in refused.stderr
    assert "found: Name, In, Out, USD" in refused.stderr
