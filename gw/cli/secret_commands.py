"""`gw secret`: the secret that encrypts stored provider keys."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import trio

from gw.cli.config_file import load
from gw.cli.main import CONFIG, CommandFailed
from gw.cli.output import aside, log_warnings
from gw.config.settings import Settings


@click.group()
def secret() -> None:
    """Replace the secret that encrypts stored provider keys."""


@secret.command()
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
def rotate(config: Path | None) -> None:
    """Encrypt all stored keys with a new secret.

    The gateway must be stopped, since it would continue with the old secret. Without GW_SECRET a new secret is generated
    and written to the file `.secret`. Otherwise GW_SECRET holds the new one and GW_SECRET_PREVIOUS the one to replace. A
    rotation that is interrupted leaves everything readable; run it again.
    """
    settings = load(config)
    if settings.secret and not settings.previous_secret:
        message = "GW_SECRET is set: put the new secret there and the current one into GW_SECRET_PREVIOUS"
        raise CommandFailed(message, CONFIG)
    path = settings.cost_tracking.db_path
    if not path.exists():
        raise CommandFailed(f"there is no database at {path}, so no stored keys")
    count = trio.run(partial(_rotate, settings))
    file = f"the file .secret in {settings.secret_folder}"
    place = "GW_SECRET; GW_SECRET_PREVIOUS is no longer needed" if settings.secret else file
    aside(f"{count} stored keys are encrypted with the new secret ({place})")


async def _rotate(settings: Settings) -> int:
    from gw.gateway import open_gateway
    from gw.types.entities import Actor

    async with open_gateway(settings, learn=log_warnings().learn) as gateway:
        return await gateway.registrar.rotate(Actor(source="cli", name="admin"))
