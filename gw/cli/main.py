"""The `gw` command: a group that imports a command when it is called, and turns errors into messages and exit codes.

stdout carries data, stderr everything else. Exit codes: 0 ok, 1 failed (another try may succeed), 2 usage, 3 configuration
or a database that somebody must mend first, 4 access, 5 a check failed, 130 Ctrl-C. A traceback is shown only with `--debug`.
"""

from __future__ import annotations

import gc
import importlib
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import click

import gw

FAILED = 1
CONFIG = 3
ACCESS = 4
CHECK_FAILED = 5
INTERRUPTED = 128 + 2  # the exit code that shells give a program killed by SIGINT
ERROR_CODES = {FAILED: "failed", 2: "usage", CONFIG: "config_invalid", ACCESS: "access", CHECK_FAILED: "check_failed"}
"""Exit code → `code` of an error in JSON that did not come from the gateway."""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("gw.cli.serve_command", "Run the gateway."),
    "init": ("gw.cli.config_file", "Write a starter gw.yaml, or compare yours with the example."),
    "check": ("gw.cli.check_command", "Check the configuration without starting."),
    "say": ("gw.cli.voice", "Speak TEXT into an audio file."),
    "transcribe": ("gw.cli.voice", "Print the transcript of an audio file."),
    "chat": ("gw.cli.voice", "Send TEXT to a language model and print its answer as it arrives."),
    "turn": ("gw.cli.voice", "Make one complete turn of a conversation from an audio file, or show finished turns."),
    "bench": ("gw.cli.bench_command", "Test under load with simulated callers, as they speak."),
    "status": ("gw.cli.status", "Show whether the gateway runs, and what it holds."),
    "top": ("gw.cli.status", "Show the traffic of the last minute, the workers, and the vendors' slots."),
    "costs": ("gw.cli.report_commands", "Show what was spent."),
    "latency": ("gw.cli.report_commands", "Show how fast each model answers: mean and percentiles."),
    "logs": ("gw.cli.report_commands", "Show the latest requests, newest first."),
    "compare": ("gw.cli.compare_command", "Compare models of transcription with their second models."),
    "request": ("gw.cli.request_commands", "Show one request: its outcome, times and cost, and each attempt."),
    "sessions": ("gw.cli.request_commands", "Show the latest conversations, and what each cost in all."),
    "session": ("gw.cli.request_commands", "Show the requests of one conversation in order, and what it cost in all."),
    "models": ("gw.cli.catalog_commands", "List, add, change or delete models."),
    "providers": ("gw.cli.catalog_commands", "List, test, add, change or delete providers."),
    "projects": ("gw.cli.project_commands", "List, add, change or delete projects and their budgets."),
    "fleet": ("gw.cli.fleet_commands", "Show the gateways of a fleet, or forget one that will not come back."),
    "alerts": ("gw.cli.alert_commands", "Show, test or mute alerts."),
    "capture": ("gw.cli.capture_commands", "Read, search or delete what was captured of sessions."),
    "cache": ("gw.cli.cache_commands", "List, fill or empty the phrase cache."),
    "pronunciations": ("gw.cli.pronunciation_commands", "List, import or export how a project's words are spoken."),
    "keys": ("gw.cli.key_commands", "List, make, change or revoke the API keys of callers."),
    "people": ("gw.cli.people_commands", "List people who have signed in, block one, or list and end sessions of the dashboard."),
    "tokens": ("gw.cli.token_commands", "List, make or revoke service tokens."),
    "fallbacks": ("gw.cli.catalog_commands", "Show or set the fallback chain of each modality."),
    "prices": ("gw.cli.prices", "Show or update the price tables, or check that every model has a price."),
    "voices": ("gw.cli.voices", "Show the voices of every model that speaks."),
    "mcp": ("gw.cli.mcp", "Serve the gateway's tools to coding agents (Model Context Protocol)."),
    "reconcile": ("gw.cli.reconcile", "Compare the gateway's records with a vendor's usage export, model by model."),
    "db": ("gw.cli.database", "Back up, upgrade or measure the database, or read records back into it."),
    "secret": ("gw.cli.database", "Replace the secret that encrypts stored provider keys."),
    "completion": ("gw.cli.main", "Print the completion script of a shell."),
}
"""Name → the module that defines the command of that name, and its one-line help: `gw --help` imports no command."""


class CommandFailed(click.ClickException):
    """A command failed: a message for people, and `status`, an exit code, for scripts."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        from gw.types.printable import for_terminal  # `gw --help` does without it

        super().__init__(for_terminal(message))
        self.status = status


def failure_of(error: Exception) -> CommandFailed:
    """Return an error as the user sees it. Imports the error tree, which `gw --help` does without.

    Supervisors try again after FAILED: a database is free when its holder ends, and a full disk gets space. They do not
    after CONFIG: nothing changes until a person acts.
    """
    from gw.errors import AuthError, ConfigError, DatabaseUnusable, GwError

    if isinstance(error, GwError):
        code = CONFIG if isinstance(error, (ConfigError, DatabaseUnusable)) else FAILED
        return CommandFailed(str(error), ACCESS if isinstance(error, AuthError) else code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return CommandFailed(f"{where}{error.strerror or error}")
    return CommandFailed(f"fault in gw: {type(error).__name__}: {error} (`gw --debug …` shows where)")


class LazyGroup(click.Group):
    """A group whose commands come from `COMMANDS`, and whose errors become messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name][0]
        if module not in sys.modules:
            _load(module)
        command: click.Command = getattr(sys.modules[module], cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, n=1)
        raise click.UsageError(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""), ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn what it raises into one message and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                import traceback

                traceback.print_exc()
            raise failure_of(error) from error

    def main(self, *args: Any, **options: Any) -> Any:
        """Run and exit; unlike click's own, Ctrl-C exits with 130."""
        options |= {"standalone_mode": False, "prog_name": "gw"}
        arguments = args[0] if args else options.get("args")
        arguments = sys.argv[1:] if arguments is None else arguments
        as_json = "--json" in arguments
        try:
            with _surviving_hangups() if "serve" in arguments else nullcontext():
                code = super().main(*args, **options)
        except click.Abort:
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            status = error.status if isinstance(error, CommandFailed) else error.exit_code
            if as_json:
                code = getattr(error, "code", "") or ERROR_CODES.get(status, "failed")
                body = {"error": {"code": code, "message": error.format_message()}}
                from gw.types.printable import escaped_json

                click.echo(escaped_json(json.dumps(body, ensure_ascii=False)), err=True)
            else:
                error.show()
            sys.exit(status)
        sys.exit(code if isinstance(code, int) else 0)


def _load(module: str) -> None:
    """Import hundreds of modules without collections of garbage: they find nothing, and the first one afterwards takes 20 ms."""
    gc.disable()
    try:
        importlib.import_module(module)
    finally:
        gc.freeze()  # no collection looks at these again
        gc.enable()


@contextmanager
def _surviving_hangups() -> Iterator[None]:
    """Ignore SIGHUP while the modules of the daemon load: it would end the process, and no file has been read yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(gw.__version__, message="gw %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def main(debug: bool) -> None:
    """Run gw, a self-hosted gateway for voice AI: speech-to-text, language models and text-to-speech on one port.

    First steps: `gw serve --demo` in one terminal, `gw say hello -o hi.wav` in another.
    """


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  gw completion bash > ~/.local/share/bash-completion/completions/gw
    zsh:   gw completion zsh > "${fpath[1]}/_gw"
    fish:  gw completion fish > ~/.config/fish/completions/gw.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has a class for every choice"
    click.echo(kind(main, {}, "gw", "_GW_COMPLETE").source(), nl=False)
