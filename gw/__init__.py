"""gw: a self-hosted gateway for voice AI.

`gw serve` runs it for others; `gw.Gateway` and `gw.open_gateway` run the same inside a Python program, see docs/library.md.
Their modules are imported at first use, since commands and the daemon have no need of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gw.library import AsyncGateway as AsyncGateway
    from gw.library import Gateway as Gateway
    from gw.library import UsageCollected as UsageCollected
    from gw.library import llm as llm
    from gw.library import open_gateway as open_gateway
    from gw.library import stt as stt
    from gw.library import tts as tts

__version__ = "0.1.0"
__all__ = ["AsyncGateway", "Gateway", "UsageCollected", "__version__", "llm", "open_gateway", "stt", "tts"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gw' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module("gw.library"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
