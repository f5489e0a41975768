"""gw: a self-hosted gateway for voice AI.

`gw serve` runs it as a server; `gw.Gateway`, `gw.open_gateway` and `gw.asyncio.open_gateway` run it inside a Python program, see
docs/library.md. Their modules are imported at first use, since commands and the daemon do without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gw import asyncio
    from gw.library import AsyncGateway, Gateway, UsageCollected, llm, open_gateway, stt, tts

__version__ = "0.1.0"
__all__ = ["AsyncGateway", "Gateway", "UsageCollected", "__version__", "asyncio", "llm", "open_gateway", "stt", "tts"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gw' has no attribute {name!r}")
    from importlib import import_module

    value = import_module("gw.asyncio") if name == "asyncio" else getattr(import_module("gw.library"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
