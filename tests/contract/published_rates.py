"""What vendors bill by the rates that they publish: a second calculator, which shares nothing with `gw.pricing`.

Each figure is written as its source has it (USD per million tokens, per minute, per hour). `SOURCES` says where and when each
table was read; where that is no page of the vendor, it quotes one. A function returns the exact bill in nano-USD, or None
where no rate is published for something that the request used.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

Nano: TypeAlias = Fraction | None

SOURCES = {
    "CLAUDE": ("https://platform.claude.com/docs/en/about-claude/pricing", "2026-11-23"),
    "CLAUDE newest models": ("https://docs.rs/synaps/0.10.2/synaps_cli/pricing, which quotes the page above", "2026-10-10"),
    "CLAUDE_US": ("https://docs.aws.amazon.com/claude-platform/latest/userguide/data-residency.html", "2026-11-23"),
    "GPT": ("litellm 1.109.1, which names https://developers.openai.com/api/docs/pricing", "2026-11-20"),
    "GPT_STT": ("https://developers.openai.com/api/docs/models/gpt-4o-transcribe.md", "2026-11-23"),
    "GPT_STT mini": ("https://developers.openai.com/api/docs/models/compare?model=gpt-4o-mini-transcribe", "2026-11-23"),
    "GROQ": ("https://console.groq.com/docs/models, as quoted by braintrustdata/braintrust-proxy issue 479", "2026-11-23"),
    "DEEPGRAM": ("litellm 1.109.1 original_pricing_per_minute, of https://deepgram.com/pricing", "2026-11-20"),
    "DEEPGRAM recordings' options": ("github.com/hail-hq/hail costs/stt.json, of https://deepgram.com/pricing", "2026-05-05"),
    "SCRIBE": ("litellm 1.109.1 original_pricing_per_hour; options: elevenlabs 2.78.0 speech_to_text/client.py", "2026-11-20"),
    "CHARACTERS": ("litellm 1.109.1, of https://elevenlabs.io/pricing/api and https://deepgram.com/pricing", "2026-11-20"),
    "CARTESIA": ("https://docs.cartesia.ai (credits); plan Startup, 49 USD for 1,250,000 credits", "2026-11-20"),
}


def usd(text: str) -> Fraction:
    """Return nano-USD."""
    return Fraction(text) * 10**9


# ---------------------------------------------------------------------- Anthropic

CLAUDE = {  # input, written for 5 minutes, written for an hour, read, output
    "claude-fable-5-1": ("10", "12.50", "20", "0.25", "50"),
    "claude-fable-5": ("10", "12.50", "20", "1", "50"),
    "claude-opus-5-5": ("4", "5", "8", "0.20", "20"),
    "claude-opus-5": ("5", "6.25", "10", "0.50", "25"),
    "claude-opus-4-8": ("5", "6.25", "10", "0.50", "25"),
    "claude-opus-4-5": ("5", "6.25", "10", "0.50", "25"),
    "claude-sonnet-4-6": ("3", "3.75", "6", "0.30", "15"),
    "claude-haiku-5-5": ("0.10", "0.125", "0.20", "0.01", "0.50"),
    "claude-haiku-4-5": ("1", "1.25", "2", "0.10", "5"),
}
CLAUDE_US = Fraction(11, 10)  # of Opus 4.6, Sonnet 4.6 and later models; earlier ones refuse the parameter
NO_GEO = {"claude-opus-4-5", "claude-haiku-4-5"}
CLAUDE_FAST = {"claude-opus-4-8", "claude-opus-5", "claude-opus-5-5"}  # twice the price
CLAUDE_SEARCH = usd("0.01")


def claude(
    model: str, uncached: int, five_minutes: int, hour: int, read: int, output: int, *, searches: int, geo: str, tier: str, speed: str
) -> Nano:
    if tier == "priority" or (geo == "us" and model in NO_GEO):
        return None  # by contract; not offered
    counts = (uncached, five_minutes, hour, read, output)
    bill = sum((count * usd(rate) / 10**6 for count, rate in zip(counts, CLAUDE[model], strict=True)), Fraction(0))
    if model == "claude-haiku-5-5" and uncached + five_minutes + hour + read > 100_000:
        bill *= 5
    if speed == "fast":
        if model not in CLAUDE_FAST:
            return None
        bill *= 2
    if tier == "batch":
        bill /= 2
    if geo == "us":
        bill *= CLAUDE_US
    return bill + searches * CLAUDE_SEARCH


# ---------------------------------------------------------------------- OpenAI

GPT = {  # (input, cached input, output) by tier; `long`: above 272,000 tokens of input
    "gpt-5.4": {
        "": ("2.50", "0.25", "15"), "flex": ("1.25", "0.13", "7.50"), "priority": ("5", "0.50", "30"),
        "long": ("5", "0.50", "22.50"), "flex long": ("2.50", "0.25", "11.25"),
    },
    "gpt-5.4-mini": {"": ("0.75", "0.075", "4.50"), "flex": ("0.375", "0.0375", "2.25"), "priority": ("1.50", "0.15", "9")},
    "gpt-5": {"": ("1.25", "0.125", "10"), "flex": ("0.625", "0.0625", "5"), "priority": ("2.50", "0.25", "20")},
    "gpt-4o": {"": ("2.50", "1.25", "10"), "priority": ("4.25", "2.125", "17")},
    "gpt-4o-mini": {"": ("0.15", "0.075", "0.60"), "priority": ("0.25", "0.125", "1")},
    "gpt-4.1": {"": ("2", "0.50", "8"), "priority": ("3.50", "0.875", "14")},
}  # fmt: skip
STEPS = {"gpt-5.4": 272_000}
GPT_EU = {"gpt-5.4", "gpt-5.4-mini"}  # ten per cent on top where processing stays in a region
GPT_AUDIO = {"gpt-audio": ("2.50", "32", "10", "64"), "gpt-audio-mini": ("0.60", "10", "2.40", "20")}  # in, audio in, out, audio out
GPT_STT = {"gpt-4o-transcribe": ("2.50", "10"), "gpt-4o-mini-transcribe": ("1.25", "5")}


def gpt(model: str, prompt: int, cached: int, output: int, *, tier: str, eu: bool) -> Nano:
    name = f"{tier} long".strip() if prompt > STEPS.get(model, prompt) else tier
    if name not in GPT[model] or (eu and model not in GPT_EU):
        return None
    full, read, out = (usd(rate) / 10**6 for rate in GPT[model][name])
    bill = (prompt - cached) * full + cached * read + output * out
    return bill * Fraction(11, 10) if eu else bill


def gpt_audio(model: str, text: int, audio: int, text_out: int, audio_out: int) -> Nano:
    counts = (text, audio, text_out, audio_out)
    return sum((count * usd(rate) / 10**6 for count, rate in zip(counts, GPT_AUDIO[model], strict=True)), Fraction(0))


def gpt_stt(model: str, tokens: int, output: int) -> Nano:
    """Return the bill for audio and text tokens of input, which cost the same."""
    rate, out = (usd(figure) / 10**6 for figure in GPT_STT[model])
    return tokens * rate + output * out


# ---------------------------------------------------------------------- Groq

GROQ = {"openai/gpt-oss-120b": ("0.15", "0.075", "0.60"), "openai/gpt-oss-20b": ("0.075", "0.0375", "0.30")}
GROQ_HOUR = {"whisper-large-v3": "0.111", "whisper-large-v3-turbo": "0.04"}
GROQ_LEAST_S = 10


def groq(model: str, prompt: int, cached: int, output: int, *, tier: str) -> Nano:
    if tier == "performance":
        return None  # by contract
    full, read, out = (usd(rate) / 10**6 for rate in GROQ[model])
    return (prompt - cached) * full + cached * read + output * out


def groq_recording(model: str, seconds: Fraction) -> Nano:
    return max(seconds, Fraction(GROQ_LEAST_S)) * usd(GROQ_HOUR[model]) / 3_600


# ---------------------------------------------------------------------- Deepgram, ElevenLabs, Cartesia

DEEPGRAM = {"nova-3": "0.0043", "nova-2": "0.0043", "enhanced": "0.0145", "base": "0.0125"}  # recordings, USD a minute
DEEPGRAM_OPTIONS = {"nova-3": {"diarize": "0.002", "multilingual": "0.0009"}}
SCRIBE_HOUR = "0.22"
SCRIBE_OPTIONS = {"keyterm": Fraction(1, 5), "speaker_roles": Fraction(1, 10), "detect_entities": Fraction(3, 10)}
MILLION_CHARACTERS = {
    "eleven_multilingual_v2": "80", "eleven_v3": "80", "eleven_flash_v2_5": "40", "eleven_turbo_v2_5": "40",
    "aura-2-thalia-en": "30", "aura-asteria-en": "15", "tts-1": "15", "tts-1-hd": "30",
}  # fmt: skip
CARTESIA_CREDIT = usd("49") / 1_250_000


def deepgram_recording(model: str, seconds: Fraction, channels: int, options: tuple[str, ...]) -> Nano:
    known = DEEPGRAM_OPTIONS.get(model, {})
    if any(option not in known for option in options):
        return None
    minute = usd(DEEPGRAM[model]) + sum(usd(known[option]) for option in options)
    return seconds * channels * minute / 60


def scribe(seconds: Fraction, channels: int, options: tuple[str, ...]) -> Nano:
    if any(option not in SCRIBE_OPTIONS for option in options):
        return None
    hour = usd(SCRIBE_HOUR) * (1 + sum(SCRIBE_OPTIONS[option] for option in options))
    return seconds * channels * hour / 3_600


def characters(model: str, text: str) -> Nano:
    """Return the bill for code points of text, one credit each where a vendor counts credits."""
    if model.startswith("sonic"):
        return len(text) * CARTESIA_CREDIT
    return len(text) * usd(MILLION_CHARACTERS[model]) / 10**6
