"""`gw voices`: the voice aliases of gw.yaml, and what each model of speech speaks with when nobody names a voice."""

from __future__ import annotations

import click

from gw.cli.backend import Backend
from gw.cli.output import aside
from gw.cli.resource import from_backend, print_entries

_FIELDS = ("voice", "model", "vendor_voice", "source")


@click.command()
@from_backend("As a JSON array.")
def voices(as_json: bool, backend: Backend) -> None:
    """Show the voices of every model that speaks.

    An app may name an alias (`voices` in gw.yaml) in place of a vendor's voice. A row without a voice is for requests that
    name none, and for fallbacks from another vendor whose voice has no alias. Source: voices, default_voice, vendor (its own
    default), or none (such requests skip the model).
    """
    answer = backend.read("/v1/tts/voices")
    rows = answer["voices"]
    print_entries(rows, rows, {name: name for name in _FIELDS}, as_json=as_json)
    for gap in answer["gaps"]:
        aside(f"{gap['chain']}: {gap['message']}")
