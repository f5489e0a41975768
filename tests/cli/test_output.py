from __future__ import annotations

import io
import json
import sys

import pytest

from gw.cli.output import aside, bar, can_show, ms, print_json, print_row, print_table, print_text, usd


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unpriced"),
        (0, "$0"),
        (0.00042, "$0.00042"),
        (0.000_001_234, "$0.00000123"),
        (0.000_000_001, "$0.000000001"),
        (0.0015, "$0.0015"),
        (0.5, "$0.50"),
        (0.123456, "$0.123"),
        (0.9999, "$1.00"),
        (1.5, "$1.50"),
        (1234.567, "$1,234.57"),
    ],
)
def test_usd(amount, text):
    assert usd(amount) == text


@pytest.mark.parametrize(("duration", "text"), [(0.43, "0.4 ms"), (38.4, "38 ms"), (999, "999 ms"), (1_250, "1.25 s")])
def test_ms(duration, text):
    assert ms(duration) == text


def test_a_pipe_gets_tab_separated_values(capsys):
    print_table(("a", "b", "c"), [["x\ty\nz", None, 0.25], ["\x1b[31mred", 2, ""]])
    assert capsys.readouterr().out == "a\tb\tc\nx y z\t\t0.25\n [31mred\t2\t\n"


def test_no_row_hides_or_reverses_text(capsys):
    print_table(("model", "status"), [["sim/\u202eohce\u2066", "ok\u2028\x9b31m"]])
    print_row(["\u200fa\x7f"], [3])
    aside("cannot reach \u202ea\x1b]0;title\x07\n\tb")
    printed = capsys.readouterr()
    assert printed.out == "model\tstatus\nsim/ ohce \tok  31m\n a \n"
    assert printed.err == "cannot reach a]0;title\n\tb\n"


def test_a_long_cell_is_not_cut_in_a_pipe(capsys):
    print_table(("model",), [["m" * 500]])
    assert "m" * 500 in capsys.readouterr().out


def test_a_terminal_gets_a_table(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    print_table(("model", "cost"), [["[b]sim/echo[/b]", "$0.5"], ["x", "$10.25"]])
    head, rule, first, second = (line.rstrip() for line in terminal.getvalue().splitlines())
    assert head.split() == ["model", "cost"]
    assert set(rule.strip()) <= {"─", " "}
    assert first.endswith("  $0.5")
    assert "[b]sim/echo[/b]" in first
    assert len(first) == len(second)


def test_json_is_one_value(capsys):
    print_json({"name": "größe"})
    assert json.loads(capsys.readouterr().out) == {"name": "größe"}
    print_json({"name": "\u202e\x9b\n"})
    printed = capsys.readouterr().out
    assert (json.loads(printed), printed.isascii()) == ({"name": "\u202e\x9b\n"}, True)


def test_text_from_a_model_cannot_drive_the_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    print_text("a\x1b]0;title\x07b\tc\n")
    assert terminal.getvalue() == "a]0;titleb\tc\n"


def test_text_goes_into_a_pipe_as_it_is(capsys):
    print_text("a\x1bb", end="\n")
    assert capsys.readouterr().out == "a\x1bb\n"


def test_what_a_stream_can_show(monkeypatch):
    monkeypatch.delenv("TERM", raising=False)
    utf8, ascii_only = (io.TextIOWrapper(io.BytesIO(), encoding=name) for name in ("utf-8", "ascii"))
    assert can_show(utf8, "█")
    assert not can_show(ascii_only, "█")
    monkeypatch.setenv("TERM", "dumb")
    assert not can_show(utf8, "█")


def test_a_row_without_end_is_padded_on_a_terminal_only(monkeypatch, capsys):
    print_row(("a", None, 1.5), (3, 2, 1))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_row(("a", "longer than its width", 1.5), (3, 2, 1))
    assert capsys.readouterr().out == "a\t\t1.5\na   longer than its width 1.5\n"


def test_a_bar_is_for_terminals(capsys, monkeypatch):
    with bar("working", 2) as step:
        step(1)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar("working", 2) as step:
        step(2)
        step(5)
    assert "100%" in capsys.readouterr().err
