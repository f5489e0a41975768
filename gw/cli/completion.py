"""`gw completion`: shell scripts that complete gw's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gw.cli.main import main
from gw.cli.output import print_text

VARIABLE = "_GW_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  gw completion bash > ~/.local/share/bash-completion/completions/gw
    zsh:   gw completion zsh > "${fpath[1]}/_gw"
    fish:  gw completion fish > ~/.config/fish/completions/gw.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has a class for every choice"
    print_text(kind(main, {}, "gw", VARIABLE).source())
