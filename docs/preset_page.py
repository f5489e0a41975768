"""docs/providers/presets.md, made from the presets (`gw/providers/presets`)."""

from __future__ import annotations

from collections.abc import Iterator

from gw.pricing.book import PriceBook
from gw.pricing.rate_tables import load_book
from gw.types.presets import PRESETS, Preset, PresetChat, PresetRecordings
from gw.types.speech_settings import word_of
from gw.wire.chat_variants import NEEDED

DAY = 20_800
"""2026-12-13, after the newest price."""
INTRODUCTION = """\
# Vendors that are a file

Generated from `gw/providers/presets/*.toml` by `uv run nox -s docs -- --write`. These vendors speak OpenAI's dialect. A file of at most 30
lines states where a vendor is and how it differs; [adding-a-provider.md](../adding-a-provider.md) explains how to write one. In gw.yaml,
over the API and on the command line, such a type is one like any other.

What a vendor refuses is never dropped in silence. A *mapped* member is sent in the vendor's own word. A *noted* one only tunes the
answer, so it is left out, and named in `X-GW-Ignored-Settings` and in the request's record. *Skipped* are those without which the answer
would mean something else: the candidate is passed over, and if none is left, the answer is a 400 that names the member. A value that
says nothing, such as `n: 1`, is left out and counts as neither. Members that are not listed pass through unchanged.

Usage comes from the vendor. gw reads cached tokens in OpenAI's place, in `prompt_cache_hit_tokens` and in `cached_tokens`. Reasoning
that a vendor counts beside its completion tokens, or only in the total, is added to the output, since it is billed as such.

"""


def preset_page() -> str:
    """Return docs/providers/presets.md as it should be."""
    book = load_book()
    return INTRODUCTION + "\n".join("".join(_section(name, preset, book)) for name, preset in PRESETS.items())


def _section(name: str, preset: Preset, book: PriceBook) -> Iterator[str]:
    where = f"at `{preset.base_url}`" if preset.base_url else "at an address of each account"
    yield f"## {name}\n\n{preset.label}, {preset.location}: {', '.join(_offers(preset))}; {where}.\n\n"
    yield "```yaml\n" + "".join(_configuration(name, preset)) + "```\n\n"
    points = [*(_chat(preset.llm) if preset.llm else ()), *(_recordings(preset.stt) if preset.stt else ())]
    if preset.tts and preset.tts.refuses:
        points.append(f"Speech without `{'`, `'.join(sorted(preset.tts.refuses))}`, noted.")
    points += preset.notes
    if preset.location == "cloud":
        unpriced = [m for m, section in preset.sections.items() if book.any_price(name, section.example, at_day=DAY) is None]
        none = f"No list prices are included for {' and '.join(unpriced)}: set `price`, or the records have no cost."
        if preset.llm and preset.llm.states_cost:
            none = "Each answer states its cost in USD, which is that of its record. Prices that you set with `price` hold instead."
        points.append(none if unpriced else "List prices are included.")
    yield "".join(f"- {point}\n" for point in points) + ("\n" if points else "")
    sources = "; ".join(f"{modality}: {section.source}" for modality, section in preset.sections.items())
    if preset.conversation:
        sources += f"; conversations: {preset.conversation.source}"
    yield f"Sources, read on {preset.seen.isoformat()}: {sources}.\n"


def _offers(preset: Preset) -> Iterator[str]:
    if preset.llm:
        yield "chat"
        yield from preset.llm.endpoints
    if preset.conversation:
        yield "conversations"
    if preset.stt:
        yield "transcription of recordings"
        if preset.stt.live or preset.stt.protocol == "xai":
            yield "live transcription"
    if preset.tts:
        yield "speech"


def _configuration(name: str, preset: Preset) -> Iterator[str]:
    yield f"providers:\n  {name}:\n"
    if preset.key:
        yield f"    api_key: ${{{preset.key}}}\n"
    if preset.location == "local" or preset.address:
        yield f"    base_url: {preset.base_url or preset.address}\n"
    yield "models:\n"
    for modality, section in preset.sections.items():
        yield f"  {modality}:\n    {name}/{section.example}:\n"
        if modality == "llm" and preset.conversation:
            yield f"    {name}/{preset.conversation.example}:\n"


def _chat(chat: PresetChat) -> Iterator[str]:
    mapped = [f"`{old}` to `{new}`" for old, new in sorted(chat.renames.items())]
    if not chat.developer_role:
        mapped.append("the role `developer` to `system`")
    if chat.protocol == "responses":
        mapped.append("a chat to the items and members of `/responses`")
    if mapped:
        yield f"Mapped: {', '.join(mapped)}."
    noted = [name for name in sorted(chat.refuses) if name.partition(".")[0] not in NEEDED]
    if not chat.message_names:
        noted.append("name")
    if noted:
        yield f"Noted: {_names(noted)}."
    needed = [name for name in sorted(chat.refuses) if name.partition(".")[0] in NEEDED]
    if needed:
        yield f"Skipped: {_names(needed)}."


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" + (" of a message" if name == "name" else "") for name in names)


def _recordings(stt: PresetRecordings) -> Iterator[str]:
    if stt.protocol != "openai":
        return
    yield f"Transcripts as {_names(sorted(stt.formats))}; gw makes the other formats where it can."
    if stt.refuses:
        yield f"Recordings without {_names(sorted(word_of(name, 'openai') for name in stt.refuses))}."
