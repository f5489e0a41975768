from __future__ import annotations

import json

import pytest

from gw.cli.main import CommandFailed
from gw.cli.pronunciation_commands import read_table
from gw.types.pronunciation import MOST_PRONUNCIATIONS, Pronunciation

TABLE = 'word,say,ipa,language,match_case\nNguyen,win,w ɪ n,,\nUS,you ess,,,true\n"\'=Corp","equals, corp",,en,\n'


def test_a_table_is_imported_listed_and_exported(run, real_gateway, tmp_path):
    names = tmp_path / "names.csv"
    names.write_text(TABLE, encoding="utf-8")
    assert run("projects", "add", "clinic").exit_code == 0
    done = run("pronunciations", "import", str(names), "--project", "clinic")
    assert (done.exit_code, "clinic has 3 pronunciations now" in done.stderr) == (0, True), done.output
    head, *rows = (line.split("\t") for line in run("pronunciations", "list", "--project", "clinic").stdout.splitlines())
    assert head == ["word", "say", "ipa", "language", "match_case"]
    assert rows == [["Nguyen", "win", "w ɪ n", "", ""], ["US", "you ess", "", "", "true"], ["=Corp", "equals, corp", "", "en", ""]]
    exported = run("pronunciations", "export", "--project", "clinic").stdout
    assert exported == TABLE.replace('"\'=Corp"', "'=Corp")
    names.write_text(exported, encoding="utf-8")
    again = run("pronunciations", "import", str(names), "--project", "clinic", "--json")
    assert json.loads(again.stdout)["pronunciations"][2]["word"] == "=Corp"
    refused = run("pronunciations", "import", str(names), "--project", "shop")
    assert refused.exit_code == 1
    assert "gw.yaml" in refused.stderr
    assert run("pronunciations", "list", "--project", "nobody").exit_code == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the column 'say' is missing"),
        ("word,says\n", "line 1: unknown column 'says'"),
        ("word,say\na,b\n,c\n", "line 3: word and say cannot be empty"),
        ("word,say\na,b,c\n", "line 2: it has more cells than columns"),
        ("word,say,match_case\na,b,maybe\n", "line 2: match_case must be true or false"),
        ("word,say\nNguyen,win\nother,one\nnguyen,wen\n", "line 4: 'nguyen' appears twice"),
        ('word,say\n"a\nb",c\n', "line 3: word must be at most 100 printable characters"),
        ('word,say\n"a,b\n', "line 1: this is not CSV"),
        ("word,say\n" + "".join(f"w{n},s\n" for n in range(MOST_PRONUNCIATIONS + 1)), "at most 2000 pronunciations, not 2001"),
        ("word,say\n" + ",\n" * 25, "and 5 more"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_its_line(text, problem):
    with pytest.raises(CommandFailed) as raised:
        read_table(text, "names.csv")
    assert problem in raised.value.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_table_is_read_as_spreadsheets_save_it(run, real_gateway, tmp_path, encoding):
    names = tmp_path / "names.csv"
    names.write_bytes("word,say\r\nMüller,Mewler\r\n".encode(encoding))
    run("projects", "add", "clinic")
    assert run("pronunciations", "import", str(names), "--project", "clinic").exit_code == 0
    assert "Müller\tMewler" in run("pronunciations", "list", "--project", "clinic").stdout


def test_another_encoding_is_refused_with_the_line(run, real_gateway, tmp_path):
    names = tmp_path / "names.csv"
    names.write_bytes("word,say\nMüller,Mewler\n".encode("cp1252"))
    refused = run("pronunciations", "import", str(names), "--project", "clinic")
    assert refused.exit_code == 1
    assert f"{names} line 2: the text is not UTF-8; save the file in UTF-8" in refused.stderr


def test_columns_may_be_left_out_and_in_any_order():
    assert read_table("say,word\r\nwin,Nguyen\r\n", "names.csv") == [Pronunciation(word="Nguyen", say="win")]
