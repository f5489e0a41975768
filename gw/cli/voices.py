"""`gw voices`: the voice aliases of gw.yaml, and what each model of speech speaks with when nobody names a voice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
import trio

from gw.cli.backend import origin
from gw.cli.config_file import load
from gw.cli.output import aside
from gw.cli.prices import configured_catalog
from gw.cli.resource import json_option, print_entries
from gw.registry.catalog import Catalog
from gw.registry.voice_choice import default_voice, gaps, mapped_voice

_FIELDS = ("voice", "model", "vendor_voice", "source")


@click.command()
@json_option("As a JSON array.")
def voices(as_json: bool) -> None:
    """Show the voices of every model that speaks.

    An app may name an alias (`voices` in gw.yaml) in place of a vendor's voice. A row without a voice is for requests that
    name none, and for fallbacks from another vendor whose voice has no alias. Source: voices, default_voice, vendor (its own
    default), or none (such requests skip the model).
    """
    settings = load(None)
    catalog = trio.run(configured_catalog, settings)
    aside(f"read from {origin(settings)}")
    rows = list(rows_of(catalog))
    print_entries(rows, rows, {name: name for name in _FIELDS}, as_json=as_json)
    for gap in gaps(catalog):
        aside(f"{gap.chain}: {gap.sentence()}")


def rows_of(catalog: Catalog) -> Iterator[Mapping[str, str]]:
    """Yield the aliases with the models that have a voice for them, then the default of every model."""
    models = catalog.by_modality["tts"].values()
    for alias in catalog.voices:
        for model in models:
            if voice := mapped_voice(catalog, alias, model):
                yield dict(zip(_FIELDS, (alias, model.id, voice, "voices"), strict=True))
    for model in models:
        default = default_voice(catalog, model)
        source = "default_voice" if model.default_voice else "none" if default is None else "vendor"
        yield dict(zip(_FIELDS, ("", model.id, default or "", source), strict=True))
