from __future__ import annotations

import subprocess
import sys

import click
import pytest

import gw
from gw.cli.main import COMMANDS, CommandFailed, failure_of, main
from gw.errors import (
    AuthError,
    ConfigError,
    DatabaseLocked,
    DatabaseUnusable,
    ForbiddenError,
    Problem,
    RequestError,
    StoreUnavailable,
)

HEAVY = ("quart", "quart_trio", "hypercorn", "mcp", "trio", "cryptography", "apsw", "httpx2", "pydantic", "rich", "attrs", "yaml")


def test_help_lists_every_command(run):
    result = run("--help")
    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.output for name in COMMANDS)


def test_help_imports_no_command():
    watch = f"""
import sys
from gw.cli.main import main
try:
    main(["--help"])
except SystemExit:
    print(sorted(set({HEAVY!r}) & set(sys.modules)), [m for m in sys.modules if m.startswith("gw.")])
"""
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] ['gw.cli', 'gw.cli.main']"


def test_a_report_imports_neither_an_event_loop_nor_a_store(tmp_path):
    """They would take half of its processor time. Nothing answers at the address, which is known only after all imports."""
    watch = f"""
import sys
from gw.cli.main import main
try:
    main(["costs", "--url", "http://127.0.0.1:1"])
except SystemExit as end:
    print(end.code, sorted(set({[*set(HEAVY) - {"attrs", "yaml"}]!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", watch], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "no gateway answers" in done.stderr
    assert done.stdout.splitlines()[-1] == "1 []"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_list_is_the_first_line_of_the_commands_own_help(name):
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").splitlines()[0] == COMMANDS[name][1]


def test_version(run):
    assert run("--version").output == f"gw {gw.__version__}\n"


def test_a_misspelt_command_is_usage_with_a_suggestion(run):
    result = run("cots")
    assert result.exit_code == 2
    assert "Did you mean 'costs'?" in result.stderr


def test_an_unknown_command_without_a_near_name(run):
    result = run("zzz")
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(problems=(Problem(what="no"),)), 3),
        (DatabaseLocked(), 1),
        (StoreUnavailable(), 1),
        (DatabaseUnusable(), 3),
        (AuthError(), 4),
        (ForbiddenError(), 4),
        (RequestError(what="no"), 1),
        (FileNotFoundError(2, "No such file or directory", "q.wav"), 1),
        (KeyError("x"), 1),
    ],
)
def test_exit_codes(error, code):
    assert failure_of(error).status == code


def test_an_operating_system_error_names_the_file():
    assert failure_of(FileNotFoundError(2, "No such file or directory", "q.wav")).message == "q.wav: No such file or directory"


def test_a_fault_of_ours_is_named_as_such():
    assert failure_of(KeyError("x")).message.startswith("fault in gw: KeyError: 'x'")


@pytest.fixture
def raising(monkeypatch):
    """A group of the same class with one command that raises what it is given."""
    raised: list[BaseException] = []
    group = type(main)("gw", params=main.params, callback=main.callback)

    @click.command()
    def costs() -> None:
        raise raised[0]

    group.get_command = lambda ctx, name: costs

    def run(error: BaseException, *options: str):
        raised[:] = [error]
        from click.testing import CliRunner

        return CliRunner().invoke(group, [*options, "costs"])

    return run


def test_an_error_is_one_message_without_traceback(raising):
    result = raising(RequestError(what="that was wrong"))
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Error: that was wrong\n")


def test_debug_shows_the_traceback(raising):
    result = raising(RequestError(what="that was wrong"), "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("Error: that was wrong\n")


def test_ctrl_c(raising):
    result = raising(KeyboardInterrupt())
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_a_failure_keeps_its_exit_code(raising):
    assert raising(CommandFailed("no", 5)).exit_code == 5


def test_a_reader_that_leaves_hears_nothing():
    script = """
from click import command
from gw.cli.main import main
from gw.cli.output import print_text
main.get_command = lambda ctx, name: command()(lambda: print_text("x" * 2**20))
main(["logs"])
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), stderr) == (1, b"")
