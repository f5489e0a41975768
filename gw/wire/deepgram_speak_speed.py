"""Speeds of Deepgram's voices: what each family takes, and what a caller of another protocol gets.

Sources: developers.deepgram.com/docs/tts-voice-controls, and its changelog of 2026-05-04 (Aura-2) and 2026-08-31 (Flux, with the
codes of what is refused). The voices of the first Aura have no such setting.
"""

from __future__ import annotations

from typing import Final

_AURA: Final = (0.7, 1.5)
_FLUX: Final = (0.5, 1.5)
_FLUX_STEPS: Final = 20  # in 1: multiples of 0.05


def takes_speed(voice_model: str) -> bool:
    """Return whether a voice has the setting; `voice_model` names the voice: `aura-2-thalia-en`, `flux-alexis-en`."""
    return voice_model.startswith(("aura-2", "flux"))


def nearest_speed(speed: float, voice_model: str) -> float:
    """Return the speed nearest to `speed` that the voice takes."""
    slowest, fastest = _FLUX if voice_model.startswith("flux") else _AURA
    speed = min(fastest, max(slowest, speed))
    return round(speed * _FLUX_STEPS) / _FLUX_STEPS if voice_model.startswith("flux") else speed


def flux_refusal(speed: float | None) -> tuple[str, str] | None:
    """Return the code and the text with which Flux refuses a speed; None if it takes it."""
    slowest, fastest = _FLUX
    if speed is None or not slowest <= speed <= fastest:
        return "SPEED_OUT_OF_RANGE", f"'speed' must be between {slowest} and {fastest}."
    if abs(speed * _FLUX_STEPS - round(speed * _FLUX_STEPS)) > 1e-6:
        return "SPEED_INCREMENT_INVALID", "'speed' must be provided in increments of 0.05."
    return None
