"""The price by which usage of unknown price counts against a budget.

Nobody is charged by it and no report adds it to a cost; without it, models without a price would not use up a budget. Of the
models in the rate tables at most one in ten costs more per unit, so a budget rather holds too early than too late.
"""

from __future__ import annotations

from gw.types.entities import Price

STAND_IN = Price(
    input_tokens=5_000_000_000,
    output_tokens=30_000_000_000,
    audio_seconds=300_000_000_000,
    characters=100_000_000_000,
    source="estimated",
)
"""$5 and $30 per million tokens, $0.018 per minute of audio, $100 per million characters."""
CONVERSATION_STAND_IN = Price(audio_seconds=1_333_333_333_333, text_messages=4_000_000_000_000, source="estimated")
"""$0.08 per minute and $0.004 per message, of a conversation that its vendor bills by duration."""
