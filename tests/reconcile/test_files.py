import codecs
import json
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import RequestError
from gw.reconcile.files import FORMS, ROWS_PER_REPORT, parse_columns, read_bill, read_usage

LLM, STT, TTS = FORMS["openai"], FORMS["deepgram"], FORMS["cartesia"]
HEAD = "model,input_tokens,output_tokens,cost_usd\n"


def written(tmp_path, content, name="usage.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(tmp_path, content, form=LLM, name="usage.csv"):
    return read_usage(written(tmp_path, content, name), form)


def refused(tmp_path, content, form=LLM, name="usage.csv"):
    path = written(tmp_path, content, name)
    with pytest.raises(RequestError) as caught:
        read_usage(path, form)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_csv_in_any_order_of_columns(tmp_path):
    usage = read(tmp_path, "cost_usd,note,output_tokens,model,input_tokens,n_requests\n1.5,x,20,gpt-4o,10,3\n")
    billed = usage["gpt-4o"]
    assert billed.units == {"input_tokens": 10, "output_tokens": 20}
    assert (billed.cost_nusd, billed.n_requests, billed.rows) == (1_500_000_000, 3, 1)


def test_json(tmp_path):
    rows = [{"model": "sonic-3", "characters": 1000, "credits": 1500, "cost_usd": 0.039, "extra": [1, {"a": "]"}]}]
    billed = read(tmp_path, json.dumps(rows), TTS, "usage.JSON")["sonic-3"]
    assert (billed.units, billed.cost_nusd, billed.credits) == ({"characters": 1000}, 39_000_000, 1500)


def test_rows_of_one_model_add_up_with_credits_and_refunds(tmp_path):
    content = HEAD + "a,10,1,0.1\nb,1,1,1\na,5,2,0.2\na,0,0,-0.05\n"
    usage = read(tmp_path, content)
    assert usage["a"].units == {"input_tokens": 15, "output_tokens": 3}
    assert (usage["a"].cost_nusd, usage["a"].rows, usage["b"].cost_nusd) == (250_000_000, 3, 1_000_000_000)


def test_money_is_exact(tmp_path):
    content = HEAD + "a,1,1,0.1\n" * 3 + "b,1,1,0.000000001\nc,1,1,12345678.123456789\n"
    usage = read(tmp_path, content)
    assert [usage[n].cost_nusd for n in "abc"] == [300_000_000, 1, 12_345_678_123_456_789]


def test_seconds_may_be_fractions(tmp_path):
    usage = read(tmp_path, "model,audio_seconds,cost_usd\nnova-3,61.25,0.0078\n", STT)
    assert usage["nova-3"].units == {"audio_seconds": Decimal("61.25")}


@pytest.mark.parametrize("encode", [
    lambda text: codecs.BOM_UTF8 + text.encode(),
    lambda text: text.encode("utf-16"),
    lambda text: text.replace("\n", "\r\n").encode(),
    lambda text: text.replace("\n", "\r").encode(),
    lambda text: ("\n" + text + "\n,,,\n\n").encode()[1:],
])  # fmt: skip
def test_files_of_other_programs(tmp_path, encode):
    assert read(tmp_path, encode(HEAD + "gpt-4o,10,20,0.5\n"))["gpt-4o"].cost_nusd == 500_000_000


def test_quoted_fields(tmp_path):
    usage = read(tmp_path, '"model","input_tokens",output_tokens,cost_usd\n"a ""b"", c\nd",1,2,"3"\n')
    assert list(usage) == ['a "b", c\nd']


def test_a_header_alone_is_a_vendor_that_billed_nothing(tmp_path):
    assert read(tmp_path, HEAD) == {}
    assert read(tmp_path, "[ ]", LLM, "usage.json") == {}


@pytest.mark.parametrize("content", ["", "\n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path, content):
    assert "empty" in refused(tmp_path, content)
    assert "empty" in refused(tmp_path, content, name="usage.json")


def test_missing_and_misspelt_columns(tmp_path):
    message = refused(tmp_path, "modell,input_tokens,cost\na,1,2\n")
    assert "missing model, output_tokens, cost_usd" in message
    assert "found: modell, input_tokens, cost" in message
    assert "'modell' for 'model'?" in message
    assert "missing cost_usd" in refused(tmp_path, '[{"model":"a","input_tokens":1,"output_tokens":2}]', name="u.json")


@pytest.mark.parametrize(
    ("row", "place", "what"),
    [
        ("a,ten,1,1", "row 2, column 'input_tokens'", "'ten' is not a number"),
        ("a,1,1.5,1", "row 2, column 'output_tokens'", "whole number"),
        ("a,-1,1,1", "row 2, column 'input_tokens'", "not be negative"),
        ('a,"1,000",1,1', "row 2, column 'input_tokens'", "is not a number"),
        ("a,1,1,NaN", "row 2, column 'cost_usd'", "is out of range"),
        ("a,1,1,Infinity", "row 2, column 'cost_usd'", "is out of range"),
        ("a,1,1,1e40", "row 2, column 'cost_usd'", "is out of range"),
        ("a,1,1,$5", "row 2, column 'cost_usd'", "is not a number"),
        ("a,1,1,", "row 2, column 'cost_usd'", "is not a number"),
        ("a,1_000,1,1", "row 2, column 'input_tokens'", "is not a number"),
        ("a,١,1,1", "row 2, column 'input_tokens'", "is not a number"),
        (" ,1,1,1", "row 2, column 'model'", "required"),
        ("a,1,1", "row 2", "3 fields"),
        ("a,1,1,1,1", "row 2", "5 fields"),
        ('a,"1,1,1', "row 2", ""),
    ],
)
def test_bad_values_are_reported_with_row_and_column(tmp_path, row, place, what):
    message = refused(tmp_path, HEAD + row + "\n")
    assert place in message
    assert what in message


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('"a"', "must be an array"),
        ('{"model":"a"}', "missing input_tokens"),
        ("[1]", "row 1 is not an object"),
        ('[{"model":"a","input_tokens":"x","output_tokens":1,"cost_usd":1}]', "row 1, column 'input_tokens'"),
        ('[{"model":"a","input_tokens":true,"output_tokens":1,"cost_usd":1}]', "row 1, column 'input_tokens'"),
        ('[{"model":null,"input_tokens":1,"output_tokens":1,"cost_usd":1}]', "row 1, column 'model'"),
        ('[{"model":"a","input_tokens":NaN,"output_tokens":1,"cost_usd":1}]', "not JSON"),
        ("[", "not JSON"),
        ('[{"model":"a"', "not JSON"),
        ("[]x", "follows"),
        ('[{"model":"a","input_tokens":1,"output_tokens":1,"cost_usd":1} {}]', "comma"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_bad_json(tmp_path, content, what):
    assert what in refused(tmp_path, content, name="usage.json")


def test_other_extensions_and_files_that_are_none(tmp_path):
    assert ".csv or .json" in refused(tmp_path, HEAD, name="usage.xlsx")
    assert "not text" in refused(tmp_path, b"\xff\xfa\x00")
    with pytest.raises(RequestError, match="cannot be read"):
        read_usage(tmp_path / "nothing.csv", LLM)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(RequestError, match="cannot be read"):
        read_usage(tmp_path / "folder.csv", LLM)


@pytest.mark.parametrize("name", ["big.csv", "big.json"])
def test_a_long_file_needs_no_more_memory(tmp_path, name):
    path, rows = tmp_path / name, 40_000
    with path.open("w") as file:
        if name.endswith("csv"):
            file.write(HEAD)
            file.writelines(f"m{n % 10},{n},1,0.001\n" for n in range(rows))
        else:
            file.write("[")
            file.writelines(
                f'{"," if n else ""}{{"model":"m{n % 10}","input_tokens":{n},"output_tokens":1,"cost_usd":0.001}}\n'
                for n in range(rows)
            )
            file.write("]")
    tracemalloc.start()
    usage = read_usage(path, LLM)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(billed.rows for billed in usage.values()) == rows
    assert sum(billed.cost_nusd for billed in usage.values()) == rows * 1_000_000
    assert peak < 3_000_000


_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "model": st.text(alphabet="ab-é🎈,\"'", min_size=1, max_size=8).filter(lambda s: s.strip()),
            "input_tokens": st.integers(0, 10**12),
            "output_tokens": st.integers(0, 10**9),
            "cost_usd": st.decimals(-1000, 1000, places=9),
        }
    ),
    max_size=20,
)


@given(_ROWS)
def test_both_forms_say_the_same(tmp_path_factory, rows):
    import csv

    folder = tmp_path_factory.mktemp("usage")
    with (folder / "u.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["model", "input_tokens", "output_tokens", "cost_usd"])
        writer.writeheader()
        writer.writerows(rows)
    listed = ",".join(
        json.dumps({**row, "cost_usd": 0}, ensure_ascii=False).replace('"cost_usd": 0', f'"cost_usd": {row["cost_usd"]:f}')
        for row in rows
    )
    (folder / "u.json").write_text(f"[{listed}]")
    assert read_usage(folder / "u.csv", LLM) == read_usage(folder / "u.json", LLM)


@pytest.mark.parametrize("name", ["usage.csv", "usage.json"])
def test_progress_is_reported(tmp_path, name):
    rows = [f"m{n % 7},{n},1,0.01" for n in range(3 * ROWS_PER_REPORT)]
    keys = HEAD.strip().split(",")
    content = HEAD + "\n".join(rows)
    if name.endswith("json"):
        as_objects = [dict(zip(keys, [fields[0], *map(float, fields[1:])], strict=True)) for row in rows if (fields := row.split(","))]
        content = json.dumps(as_objects)
    path, progress = written(tmp_path, content, name), []
    read_usage(path, LLM, on_progress=lambda done, total: progress.append((done, total)))
    done = [read for read, _ in progress]
    assert {total for _, total in progress} == {path.stat().st_size}
    assert len(progress) == 5
    assert done == sorted(done)
    assert done[0] < done[-1] == path.stat().st_size


def test_the_progress_callback_may_end_the_reading(tmp_path):
    def enough(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_usage(written(tmp_path, HEAD), LLM, on_progress=enough)


def mapped(tmp_path, content, columns, form=STT, name="export.csv"):
    return read_bill([written(tmp_path, content, name)], form, columns=parse_columns([columns], form))


def test_any_file_is_read_by_the_columns_that_are_named(tmp_path):
    columns = 'model=Speech model,"audio_seconds=Duration, s",cost_usd=Amount,date=Day'
    content = 'Day,Speech model,"Duration, s",Amount\n2026-11-01,universal-2,60.5,0.5\n2026-11-02,universal-2,30,0.25\n'
    billed = mapped(tmp_path, content, columns).sums["universal-2"]
    assert (billed.units, billed.cost_nusd, billed.rows) == ({"audio_seconds": Decimal("90.5")}, 750_000_000, 2)
    rows = [{"m": "universal-2", "s": 7}, {"m": "nova", "s": "1.5"}]
    sums = mapped(tmp_path, json.dumps(rows), "model=m,audio_seconds=s", name="export.json").sums
    assert {name: (one.units["audio_seconds"], one.cost_nusd) for name, one in sums.items()} == {
        "universal-2": (7, None), "nova": (Decimal("1.5"), None),
    }  # fmt: skip
    header = "start_time,num_model_requests,model,paid\n1,2,gpt-x,3\n"  # otherwise known as an export of OpenAI
    assert mapped(tmp_path, header, "model=model,cost_usd=paid", LLM).sums["gpt-x"].cost_nusd == 3_000_000_000


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("model", "'model' is not a pair as ours=theirs"),
        ("model=a,seconds=b", "with one of model, audio_seconds, cost_usd, n_requests, date before"),
        ("audio_seconds=b", "must name the model"),
        ("model=a", "one of audio_seconds, cost_usd"),
        ("model=a,cost_usd=c", "no column 'c', which --columns names; found: a, b"),
        ("model=a,cost_usd=b", "row 2, column 'b': 'x' is not a number"),
    ],
)
def test_what_is_wrong_with_named_columns(tmp_path, columns, what):
    with pytest.raises(RequestError) as caught:
        mapped(tmp_path, "a,b\nmodel,x\n", columns)
    assert what in str(caught.value)
