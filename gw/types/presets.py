"""Vendors that are a file: `gw/providers/presets/<provider type>.toml`, for those that speak OpenAI's dialect.

The files are part of the package, as modules are, and are read once, when this module is imported. `gw.providers.preset_spec`
makes the `ProviderSpec` of each.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from gw.types.chat_variant import ChatVariant
from gw.types.ids import Location, Modality

FOLDER = Path(__file__).parent.parent / "providers" / "presets"
Endpoint = Literal["embeddings", "moderations", "responses"]


class PresetChat(ChatVariant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Chat at `/chat/completions`, or at `/responses` where the vendor has only this."""

    example: str
    """Name of a model, for the documentation."""
    protocol: Literal["chat", "responses"] = "chat"
    default: str = ""
    """Name of the model that the vendor itself takes for a request without one, where its documentation names it."""
    endpoints: tuple[Endpoint, ...] = ()
    """OpenAI's other endpoints that the vendor has."""
    vision: bool = False
    audio_in: bool = False
    tools: bool = True
    states_cost: bool = False
    """Each answer states what it costs, in USD, for the documentation."""
    source: str
    """Documents that state these facts."""


class PresetRecordings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Transcription of recordings at `/audio/transcriptions`; a live session is transcribed utterance by utterance."""

    example: str
    default: str = ""
    formats: frozenset[str] = frozenset({"json", "text", "srt", "verbose_json", "vtt"})
    """Values of `response_format` that the server has."""
    refuses: frozenset[str] = frozenset()
    """Settings (`gw.types.speech_settings`) that it does not have."""
    live: Literal["", "utterances", "realtime"] = ""
    """Way of live transcription: none, as recordings of utterances, or at `/realtime`, where the server has it."""
    protocol: Literal["openai", "xai"] = "openai"
    """`xai`: recordings and live sessions not as OpenAI's API has them, but at `/stt`, as xAI's has."""
    source: str


class PresetSpeech(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Speech at `/audio/speech`; live speech is made sentence by sentence."""

    example: str
    default: str = ""
    default_voice: str | None = None
    """Voice of requests without one; none where the vendor refuses such requests."""
    formats: frozenset[str] = frozenset({"pcm_s16le", "wav", "mp3", "opus", "aac", "flac"})
    refuses: frozenset[str] = frozenset()
    """`speed` or `instructions`."""
    protocol: Literal["openai", "gemini", "xai"] = "openai"
    """`gemini`: not at `/audio/speech`, but as Gemini's API has it, at the address without its last segment. `xai`: complete and live at
    `/tts`, as xAI's API has it."""
    source: str


SessionMember = Literal["voice", "turn_detection"]


class PresetConversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conversations with a model that hears and speaks itself, at `/realtime`. Its models are listed under `models.llm`."""

    example: str
    protocol: Literal["openai", "gemini"] = "openai"
    """`gemini`: not at `/realtime`, but in Google's own protocol, which says by the name which models those are."""
    prefix: str = ""
    """Beginning of the names of such models."""
    billed_by: Literal["tokens", "duration"] = "tokens"
    top_level: frozenset[SessionMember] = frozenset()
    """Settings that stand at the top of a session, where OpenAI has them within `audio`."""
    source: str


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One vendor. A section `llm`, `stt` or `tts` says that it offers the modality, and how it differs from OpenAI there, and
    `conversation` that models of its own hold conversations."""

    label: str
    location: Location
    base_url: str = ""
    """Default address; "" where each account has its own, of the form `address`."""
    address: str = ""
    key: str = ""
    """Environment variable that holds the key in the vendor's own documentation."""
    key_header: str = "authorization"
    health_path: str = "/models"
    names_with_slash: bool = False
    """The vendor's own names of models have slashes."""
    notes: tuple[str, ...] = ()
    """Sentences for the documentation."""
    seen: date
    """Day on which the sources were read."""
    llm: PresetChat | None = None
    stt: PresetRecordings | None = None
    tts: PresetSpeech | None = None
    conversation: PresetConversation | None = None

    @property
    def sections(self) -> Mapping[Modality, PresetChat | PresetRecordings | PresetSpeech]:
        """Return the modalities that it offers."""
        by_modality: dict[Modality, PresetChat | PresetRecordings | PresetSpeech | None] = {
            "stt": self.stt, "llm": self.llm, "tts": self.tts,
        }  # fmt: skip
        return {modality: section for modality, section in by_modality.items() if section is not None}

    @property
    def default_models(self) -> Mapping[Modality, str]:
        return {modality: section.default for modality, section in self.sections.items() if section.default}


def parse_preset(name: str, text: str) -> Preset:
    """Return the vendor of a file. Raises ValueError naming the file and what is wrong in it."""
    try:
        members = tomllib.loads(text)
        preset = msgspec.convert(members, Preset)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{name}: {error}") from None
    if not preset.sections:
        raise ValueError(f"{name}: it offers nothing; add a section llm, stt or tts")
    if preset.conversation is not None and preset.llm is None:
        raise ValueError(f"{name}: conversation is for a vendor with a section llm, whose models hold the conversations")
    if preset.llm is not None and preset.llm.protocol == "responses" and "responses" not in preset.llm.endpoints:
        raise ValueError(f"{name}: with the protocol responses, the endpoint responses belongs among llm.endpoints")
    if (talk := preset.conversation) is not None and (talk.protocol == "gemini") == bool(talk.prefix):
        raise ValueError(f"{name}: conversation needs prefix, the beginning of its models' names, and none with the protocol gemini")
    if bool(preset.base_url) == bool(preset.address):
        raise ValueError(f"{name}: it needs either base_url or address, the form of an address that each account has of its own")
    if preset.key_header != "authorization" and (preset.stt or preset.tts):
        raise ValueError(f"{name}: key_header is for chat only")
    for section in ("stt", "tts"):
        if (given := members.get(section, {})).get("protocol") == "xai" and (unused := given.keys() & {"formats", "refuses", "live"}):
            raise ValueError(f"{name}: {section}.{min(unused)} is for OpenAI's protocol; what xAI's has is in its module")
    return preset


PRESETS: Mapping[str, Preset] = {
    path.stem: parse_preset(path.name, path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))
}
"""Provider type → its preset."""
