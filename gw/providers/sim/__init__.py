"""The built-in engine of demo mode and tests: no key, no weights, no network.

`tone` speaks and hears the tone voice (`gw.providers.sim.fsk`); `echo`, `scripted` and `flaky` are language models. How late
the engine answers and how it fails is set by its knobs (`gw.providers.sim.faults`); it is the one provider that sleeps.
"""

from __future__ import annotations

from gw.providers.sim.call import MODELS
from gw.providers.sim.chat import chat
from gw.providers.sim.faults import KNOBS
from gw.providers.sim.stt import listen, transcribe
from gw.providers.sim.tts import speak, speak_live
from gw.providers.spec import ProviderSpec

__all__ = ["KNOBS", "MODELS", "SPEC"]

SPEC = ProviderSpec(
    type="sim",
    base_url="",
    dialect="sim",
    chat=chat,
    transcribe=transcribe,
    listen=listen,
    speak=speak,
    speak_live=speak_live,
    health_path="",
    speak_formats=frozenset(),  # none is claimed: without `gw[audio]` the demo speaks WAV to who asks for mp3
    needs_address=False,
    transports=dict.fromkeys(("chat", "transcribe", "listen", "speak", "speak_live"), "inside gw"),
    reported=frozenset({"chat", "transcribe", "listen", "speak", "speak_live"}),
)
