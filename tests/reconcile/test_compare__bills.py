"""One bill with everything in it, in each vendor's form and in both file formats: each row of the report to the cent."""

from __future__ import annotations

import codecs
import csv
import io
import json
from decimal import Decimal

import pytest

from gw.errors import RequestError
from gw.reconcile.compare import reconcile
from gw.reconcile.files import FORMS, read_bill, read_usage
from gw.store.rollups import ModelUsage
from gw.types.usage import NANO

ONCE = {"input_tokens": "1000", "output_tokens": "100", "audio_seconds": "60.5", "characters": "500"}
"""Units of ten requests, which cost a dollar."""
COMMA = 'voice "A", large'
RECORDED = {  # model: requests, units as so many times ONCE, dollars
    "agrees": (20, 2, "2.00"),
    "rate": (10, 1, "0.90"),
    "units": (10, "1.2", "1.00"),
    "coverage": (10, 1, "1.00"),
    "credited": (10, 1, "0.70"),
    COMMA: (10, 1, "1.00"),
    "ours alone": (10, 1, "1.25"),
    "threshold": (10, 1, "1.05"),
}
BILLED = [  # model, units, dollars, requests
    ("agrees", 1, "1.00", 10),
    ("rate", 1, "1.00", 10),
    ("units", 1, "1.00", 10),
    ("coverage", 2, "2.00", 20),
    ("agrees", 1, "1.00", 10),
    ("credited", 1, "1.00", 10),
    ("credited", 0, "-0.30", 0),
    (COMMA, 1, "1.00", 10),
    ("theirs alone", 3, "3.10", 30),
    ("threshold", 1, "1.00", 10),
]
REPORT = {  # model: cause, dollars of ours less theirs, requests of theirs
    "agrees": ("", "0.00", 20),
    "rate": ("rate", "-0.10", 10),
    "units": ("units", "0.00", 10),
    "coverage": ("coverage", "-1.00", 20),
    "credited": ("", "0.00", 10),
    COMMA: ("", "0.00", 10),
    "ours alone": ("coverage", "1.25", None),
    "theirs alone": ("coverage", "-3.10", 30),
    "threshold": ("", "0.05", 10),
}


def recorded():
    return [
        ModelUsage(
            model=model, calls=requests, cost_nusd=int(Decimal(dollars) * NANO), unpriced=0,
            **{
                name: (float if name == "audio_seconds" else int)(Decimal(amount) * Decimal(times))
                for name, amount in ONCE.items()
            },
        )
        for model, (requests, times, dollars) in RECORDED.items()
    ]  # fmt: skip


def rows_of(form):
    for model, times, dollars, n_requests in BILLED:
        units = {name: str(Decimal(ONCE[name]) * times) for name in form.units}
        more = {"credits": str(1_500 * times)} if "credits" in form.optional else {}
        yield {"model": model, **units, **more, "n_requests": str(n_requests), "cost_usd": dollars}


def as_csv(rows):
    """As spreadsheets write it: a byte order mark, CRLF, everything quoted."""
    rows = list(rows)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, rows[0], quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return codecs.BOM_UTF8 + text.getvalue().encode()


def as_json(rows):
    numbers = [{name: value if name == "model" else float(value) for name, value in row.items()} for row in rows]
    return json.dumps(numbers, indent=1).encode()


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


@pytest.mark.parametrize(("name", "write"), [("bill.CSV", as_csv), ("bill.json", as_json)])
def test_every_row_to_the_cent(tmp_path, form, name, write):
    path = tmp_path / name
    path.write_bytes(write(rows_of(form)))
    report = reconcile(form, recorded(), read_bill([path], form), (1, 31), 5.0)
    found = {
        row.model.removeprefix(f"{form.provider}/"): (row.cause, f"{row.cost_usd.diff:.2f}", row.n_requests)
        for row in report.rows
    }
    assert found == REPORT
    assert {row.model for row in report.rows if row.flagged} == {
        f"{form.provider}/{model}" for model, (cause, *_) in REPORT.items() if cause
    }
    assert (report.total_cost_usd.ours, report.total_cost_usd.theirs) == (8.9, 11.8)
    assert report.total_cost_usd.diff == pytest.approx(sum(float(diff) for _, diff, _ in REPORT.values()))
    (twice,) = (row for row in report.rows if row.model.endswith("/agrees"))
    assert {unit: compared.theirs for unit, compared in twice.units.items()} == {
        unit: 2 * Decimal(ONCE[unit]) for unit in form.units
    }
    assert twice.credits == (3_000 if "credits" in form.optional else None)


@pytest.mark.parametrize("column", ["model", "units", "cost_usd"])
def test_a_column_that_is_misspelt(tmp_path, form, column):
    column = form.units[0] if column == "units" else column
    path = tmp_path / "bill.csv"
    path.write_bytes(as_csv({name + "x" if name == column else name: row[name] for name in row} for row in rows_of(form)))
    with pytest.raises(RequestError, match=f"missing {column}; required: .*'{column}x' for '{column}'"):
        read_usage(path, form)


@pytest.mark.parametrize("value", ["", "ten", "1,5", "-1", "inf", "0x10"])
def test_a_unit_that_is_no_number(tmp_path, form, value):
    rows = list(rows_of(form))
    rows[3][form.units[-1]] = value
    path = tmp_path / "bill.csv"
    path.write_bytes(as_csv(rows))
    with pytest.raises(RequestError, match=rf"bill\.csv: row 5, column '{form.units[-1]}'"):
        read_usage(path, form)


@pytest.mark.parametrize(("name", "content"), [("bill.csv", b""), ("bill.csv", codecs.BOM_UTF8), ("bill.json", b" \n")])
def test_a_file_with_nothing_in_it(tmp_path, form, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RequestError, match="is empty"):
        read_usage(path, form)
