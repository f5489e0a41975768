"""Run an example of Pipecat's with the services of its vendors at a gateway: `python pipecat_bot.py FILE --port N`.

GW_AT is the gateway's address. OpenAI's client reads its own variable; the others take an address as an argument only, so their
defaults are replaced. The example itself, and the server that it starts, stay as they are.
"""

from __future__ import annotations

import functools
import os
import runpy
import sys
from typing import Any

from pipecat.services.assemblyai.stt import AssemblyAISTTService
from pipecat.services.cartesia.tts import CartesiaTTSService
from pipecat.services.deepgram.stt import DeepgramSTTService
from pipecat.services.deepgram.tts import DeepgramTTSService

AT = os.environ["GW_AT"]
LIVE = AT.replace("http", "ws", 1)


def with_default(service: Any, **defaults: str) -> None:
    """Let `service` be made with these arguments unless the example names them."""
    made = service.__init__

    @functools.wraps(made)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **defaults | kwargs)

    service.__init__ = make


with_default(DeepgramSTTService, base_url=LIVE)
with_default(DeepgramTTSService, base_url=LIVE)
with_default(AssemblyAISTTService, api_endpoint_base_url=f"{LIVE}/v3/ws")
with_default(CartesiaTTSService, url=f"{LIVE}/tts/websocket")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
