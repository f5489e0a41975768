"""Run an example agent of LiveKit's in text, without a room: `python livekit_agent.py FILE CLASS QUESTION` prints what it says.

The agent is the example's own; the session is as LiveKit's documentation of tests has it, with the model that most examples name.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path

from livekit.agents import AgentSession, inference

MODEL = "openai/gpt-4.1-mini"


async def main(file: str, name: str, question: str) -> None:
    sys.path.insert(0, str(Path(file).parent))
    agent = runpy.run_path(file, run_name="example")[name]()
    async with AgentSession(llm=inference.LLM(MODEL)) as session:
        await session.start(agent)
        result = await session.run(user_input=question)
        for event in result.events:
            if event.type == "message" and event.item.role == "assistant":
                print(event.item.text_content)


asyncio.run(main(*sys.argv[1:]))
