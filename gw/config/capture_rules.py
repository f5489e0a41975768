"""Conditions for storing words or speech encrypted: what projects capture, and phrases on the disk or in a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from gw.config.settings import Settings
from gw.errors import ConfigError, Problem, install_extra
from gw.types.entities import Capture
from gw.types.secret import Secret

AUDIO_EXTRA = "capture"
PRESIDIO_EXTRA, PRESIDIO_MODULE = "presidio", "presidio_analyzer"


def missing_for(capture: Capture | None, secret: Secret) -> tuple[str, str] | None:
    """Return what is missing and what to do about it; None where nothing is.

    The secret must come from outside: the file `.secret` would lie beside what it protects in many backups.
    """
    if capture is None or not (capture.text or capture.audio):
        return None
    if not secret:
        return "capture needs GW_SECRET, with which everything captured is encrypted", "set it to a long random text, and keep that"
    if capture.audio and find_spec("av") is None:
        return "capture.audio needs a codec that is not installed", install_extra(AUDIO_EXTRA)
    if capture.presidio and find_spec(PRESIDIO_MODULE) is None:
        return "capture.presidio needs Presidio, which is not installed", install_extra(PRESIDIO_EXTRA)
    return None


def check_capture(settings: Settings) -> None:
    """Raise ConfigError if something would have to be captured, or phrases to be kept on the disk or in a fleet, that cannot be.

    Not checked when the file is read: commands read it in shells that have no secret.
    """
    problems = []
    for path, missing in _missing(settings):
        file, line = "" if settings.path is None else str(settings.path), settings.lines.get(path, 0)
        problems.append(Problem(what=missing[0], hint=missing[1], file=file, line=line, where=".".join(path)))
    if problems:
        raise ConfigError(problems=tuple(problems))


def _missing(settings: Settings) -> Iterator[tuple[tuple[str, ...], tuple[str, str]]]:
    """Yield each setting for which something is missing, with what that is and what to do about it."""
    for project in settings.projects.values():
        if (missing := missing_for(project.capture, settings.secret)) is not None:
            yield ("projects", project.id, "capture"), missing
    if settings.routing.phrase_cache_disk_mb and (missing := _missing_for_phrases(settings)):
        yield ("routing", "phrase_cache_disk_mb"), missing
    in_fleet = ("fleet", "phrase_cache_mb")
    if settings.fleet.valkey and settings.fleet.phrase_cache_mb and not settings.secret and in_fleet in settings.lines:
        what = "phrases in the fleet need GW_SECRET, with which they are encrypted"
        yield in_fleet, (what, "give all gateways the same long random text")


def _missing_for_phrases(settings: Settings) -> tuple[str, str] | None:
    """Return why phrases cannot be kept on the disk and what to do about it; None if they can."""
    if not settings.secret:
        return "phrases on the disk need GW_SECRET, with which they are encrypted", "set it to a long random text, and keep that"
    if settings.serve.workers != 1:
        return "phrases are not kept on the disk with serve.workers", "remove one of the two settings"
    return None
