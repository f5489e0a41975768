"""Projects, prices, providers, models and stacks, and the entities created through the API as the database has them.

A model or a project is one struct for gw.yaml, the database and the catalog. A provider has a
separate stored form, because its key is encrypted there. Texts beside a field are its description in gw.yaml.example.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import attrs
import msgspec

from gw.types.ids import ANY_NAME, KeyLimits, Location, Modality, Source
from gw.types.pronunciation import Pronunciation
from gw.types.roles import Access
from gw.types.secret import Secret
from gw.types.usage import NANO

LOCAL = "local"
"""Region of a provider on an own machine that names none."""
DEFAULT_PROJECT = "default"  # project of requests that name none; it always exists
BudgetAction = Literal["warn", "block"]
OnFullDisk = Literal["budgets", "refuse", "continue"]
BudgetStatus = Literal["ok", "warning", "exceeded"]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """Words and sound of a project's requests that are kept, encrypted (docs/capture.md)."""

    text: Annotated[bool, "prompts, answers and transcripts, without card numbers, phone numbers and mail addresses"] = False
    audio: Annotated[bool, "both sides' sound (needs the extra capture)"] = False
    share: Annotated[float, msgspec.Meta(ge=0, le=1), "share of sessions of which something is kept"] = 0.05
    keep_days: Annotated[int, msgspec.Meta(ge=1, le=3_650), "then it is deleted"] = 14
    names: Annotated[tuple[str, ...], "words that are replaced before anything is kept"] = ()
    presidio: Annotated[str, "spaCy model with which Presidio replaces names and places too (needs the extra presidio)"] = ""

    @property
    def on(self) -> bool:
        return (self.text or self.audio) and self.share > 0


class PhraseRules(msgspec.Struct, frozen=True, kw_only=True):
    """Texts whose speech a project keeps in memory (docs/phrase-cache.md)."""

    takes: Annotated[int, msgspec.Meta(ge=1, le=16), "recordings of each text, made before one is repeated and then used in turn"] = 1
    longest: Annotated[int, msgspec.Meta(ge=1, le=5_000), "characters of the longest text whose speech is kept"] = 300
    sentences: Annotated[bool, "sentences within longer live speech come from the cache, too; false: only a complete text"] = True


class Project(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="project", omit_defaults=True):
    """A project as gw.yaml, the database and the catalog have it. The texts say what gw.yaml.example says of a field."""

    id: str
    source: Source = "yaml"
    name: Annotated[str, "default: the id"] = ""
    description: str = ""
    daily_budget_nusd: Annotated[int, "USD per UTC day; 0 = no budget"] = 0
    weekly_budget_nusd: Annotated[int, "USD per week from Monday, UTC"] = 0
    monthly_budget_nusd: Annotated[int, "USD per calendar month, UTC"] = 0
    total_budget_nusd: Annotated[int, "USD in all; never resets"] = 0
    budget_action: Annotated[BudgetAction, "warn (default) or block"] = "warn"
    max_concurrent: Annotated[Count | None, "concurrent requests; more wait for a second, then get 429. Default: unlimited"] = None
    weight: Annotated[
        int, msgspec.Meta(ge=1, le=100), "share of the places that become free while requests wait, beside other projects'"
    ] = 1
    default_stack: str = ""
    tags: tuple[str, ...] = ()
    accent: Annotated[str, "colour in the dashboard; default: derived from the id"] = ""
    regions: Annotated[
        tuple[str, ...], "regions whose providers may answer; local: providers on own machines that name none. Default: all"
    ] = ()
    fallbacks: Annotated[Mapping[Modality, tuple[str, ...]], "replaces the chain of a modality for this project"] = {}
    provider_keys: Annotated[Mapping[str, Secret], "the project's own keys, by provider id"] = {}
    phrase_cache: Annotated[
        PhraseRules | None, "speech of texts that are said again; {}: with these defaults. Default: none is kept"
    ] = None
    pronunciations: Annotated[
        tuple[Pronunciation, ...], "words that voices mispronounce, and how they are spoken (docs/pronunciation.md)"
    ] = ()
    capture: Annotated[Capture | None, "words and sound to keep; needs GW_SECRET. Default: nothing is kept"] = None

    @property
    def daily_budget(self) -> float:
        """USD."""
        return self.daily_budget_nusd / NANO

    @property
    def weekly_budget(self) -> float:
        """USD."""
        return self.weekly_budget_nusd / NANO

    @property
    def monthly_budget(self) -> float:
        """USD."""
        return self.monthly_budget_nusd / NANO

    @property
    def total_budget(self) -> float:
        """USD."""
        return self.total_budget_nusd / NANO


def nano_usd(usd: float) -> int:
    """Convert a budget in USD; a positive one never becomes 0, which means no budget."""
    return max(round(usd * NANO), 1) if usd else 0


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Rates in nano-USD per one million units (tokens, characters, seconds of audio). None = not billed by that unit.

    `source` names the origin of the rates; `valid_from` is a UTC day number (days since 1970-01-01).
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cached_audio_tokens: int | None = None
    cached_image_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    output_tokens: int | None = None
    input_audio_tokens: int | None = None
    image_tokens: int | None = None
    output_audio_tokens: int | None = None
    audio_seconds: int | None = None
    characters: int | None = None
    searches: int | None = None
    """For web searches, beside the tokens."""
    text_messages: int | None = None
    """For messages of text in a conversation, beside its duration."""
    requests: int = 0
    """For requests, beside the tokens."""
    min_audio_seconds: float = 0.0
    """Shortest duration that is billed."""
    step_audio_seconds: float = 0.0
    """Audio is billed in steps of this duration, the last one whole; 0.0 = exactly."""
    tiers: Mapping[str, Price] = {}
    """Service tier → the price there."""
    above: tuple[tuple[int, Price], ...] = ()
    """The price of requests with more input tokens than that, the highest number first."""
    regions: Mapping[str, int] = {}
    """Region → factor for all tokens, in millionths."""
    addons: Mapping[str, int] = {}
    """Option → rate that is added to that of `audio_seconds`."""
    min_seconds_with: Mapping[str, float] = {}
    """Option → shortest duration that is billed of a request with it."""
    inherited: frozenset[str] = frozenset()
    """In a price of `tiers` or `above`: rates that are those of the price around it, for want of their own."""
    source: str = ""
    valid_from: int = 0


EntityType = Literal["provider", "model", "project", "key", "fallbacks", "capture", "token", "login", "person", "alerts"]
Action = Literal["create", "update", "delete", "read", "test"]
ActorSource = Literal["api", "mcp", "cli"]


_REGIONAL_HOST = re.compile(r"https?://([a-z]{2})\.api\.openai\.com(?:[:/].*)?")


def region_of(base_url: str | None) -> str:
    """Return the region to which a vendor's address restricts the processing, where that has its own prices; else ""."""
    match = _REGIONAL_HOST.fullmatch(base_url or "")
    return match[1] if match is not None else ""


@attrs.frozen(kw_only=True)
class Provider:
    """One configured provider."""

    id: str
    type: Annotated[str, "default: the id"]
    location: Location
    source: Source = "yaml"
    base_url: Annotated[str | None, "root as that vendor's own SDK takes it; default: the vendor's"] = None
    api_key: Secret = Secret("")
    enabled: Annotated[bool, "false: keep the entry, but do not use it"] = True
    key_error: str = ""
    """Why a stored key could not be read; such a provider counts as not configured."""
    options: Mapping[str, object] = attrs.field(factory=dict)
    """Options of the provider's type (`gw.config.settings.ProviderOptions`)."""
    requests_per_minute: int | None = None
    max_concurrent: int | None = None
    public_only: bool = False
    """Refuse addresses outside the public internet: the base URL came through the API."""
    region: Annotated[
        str, "region where it processes, such as us, for prices and `regions` of projects; default: by the address"
    ] = attrs.field(default=attrs.Factory(lambda self: region_of(self.base_url), takes_self=True))

    @property
    def residency(self) -> str:
        """Return the region where it processes, in lower case: `local` for a local provider that names none, "" if none is known."""
        return self.region.lower() or (LOCAL if self.location == "local" else "")

    @property
    def configured(self) -> bool:
        """Enabled, and either local or with a usable key."""
        return self.enabled and not self.key_error and (self.location == "local" or bool(self.api_key))


class Model(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="model", omit_defaults=True):
    modality: Modality
    provider: Annotated[str, "… unless provider and model are set"]
    name: str
    """The vendor's name for it."""
    id: str = ""
    """Default: `<provider>/<name>`."""
    source: Source = "yaml"
    display_name: str = ""
    default_language: str | None = None
    default_voice: str | None = None
    prices: Annotated[tuple[Price, ...], "overrides the shipped table; USD"] = ()
    """Oldest first, at most one for each day."""
    aliases: Annotated[tuple[str, ...], "other names a client may use"] = ()

    def __post_init__(self) -> None:
        if not self.id:
            msgspec.structs.force_setattr(self, "id", f"{self.provider}/{self.name}")

    @property
    def is_wildcard(self) -> bool:
        """Return whether the entry stands for any name of its provider."""
        return self.name == ANY_NAME

    def price(self, day: int) -> Price | None:
        """Return the price set for this model that holds on a UTC day (since 1970-01-01)."""
        holding = None
        for price in self.prices:
            if price.valid_from <= day:
                holding = price
        return holding


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A name for one model of each modality."""

    name: str
    stt: str | None = None
    llm: str | None = None
    tts: str | None = None

    def model(self, modality: Modality) -> str | None:
        return {"stt": self.stt, "llm": self.llm, "tts": self.tts}[modality]


class StoredProvider(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="provider"):
    """A provider created through the API. `key` is its encrypted API key, "" without one; `masked` may be shown."""

    id: str
    type: str
    base_url: str | None = None
    key: str = ""
    masked: str = ""


class StoredKey(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """A credential of this gateway. `digest`: SHA-256 of the key, in hex; `masked` may be shown."""

    id: str
    digest: str
    masked: str
    name: str = ""
    project: str = "default"
    created_at: float = 0.0
    expires_at: float | None = None
    """Unix seconds."""
    limits: KeyLimits | None = None


class StoredToken(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="token"):
    """A service token: a credential of the control plane with a role. `digest`: SHA-256 of the token, in hex."""

    id: str
    digest: str
    masked: str
    access: Access
    name: str = ""
    created_at: float = 0.0
    created_by: str = ""
    expires_at: float | None = None
    """Unix seconds."""


class StoredPerson(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="person"):
    """Somebody who has signed in with an OpenID provider. `claims`: those that decided their role the last time."""

    id: str
    issuer: str
    subject: str
    name: str
    created_at: float
    signed_in_at: float
    claims: Mapping[str, tuple[str, ...]] = {}
    blocked: bool = False


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="login"):
    """A session of the dashboard, of a person or of a service token. `digest`: SHA-256 of its cookie, in hex.

    `provider_session` is its id at the provider (`sid`); `address` and `agent` are the browser's. Times in Unix seconds.
    """

    id: str
    digest: str
    name: str
    created_at: float
    seen_at: float
    expires_at: float
    issuer: str = ""
    subject: str = ""
    provider_session: str = ""
    claims: Mapping[str, tuple[str, ...]] = {}
    token_id: str = ""
    address: str = ""
    agent: str = ""


class StoredChain(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fallbacks"):
    """A fallback chain set through the API, which overrides that of gw.yaml."""

    modality: Modality
    models: tuple[str, ...] = ()


Stored: TypeAlias = StoredProvider | Model | Project | StoredKey | StoredToken | StoredPerson | StoredLogin | StoredChain
Name: TypeAlias = tuple[EntityType, str]
"""Primary key of an entity in the database: its type and an id that is unique within the type."""


def name_of(entity: Stored) -> Name:
    match entity:
        case StoredProvider():
            return "provider", entity.id
        case Model():
            return "model", f"{entity.modality}:{entity.id}"
        case Project():
            return "project", entity.id
        case StoredKey():
            return "key", entity.id
        case StoredToken():
            return "token", entity.id
        case StoredPerson():
            return "person", entity.id
        case StoredLogin():
            return "login", entity.id
        case StoredChain():
            return "fallbacks", entity.modality


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `changes`: field → value, or for an update `{"from": …, "to": …}`; keys are redacted."""

    timestamp: float
    entity_type: EntityType
    entity_id: str
    action: Action
    changes: Mapping[str, Any]
    source: ActorSource
    actor: str
    id: int = 0
    """Assigned by the database, in the order of the changes."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a change: the interface it came through, and a person, a service token, a key id, `admin` or `anyone`."""

    source: ActorSource
    name: str
