"""Every setting of gw.yaml, declared once: name, type, bounds, default and meaning.

`gw.config.parse` reads a file by these declarations, and docs/gw.schema.json is made from them. The meaning is
also the comment in gw.yaml.example; a test compares the two. Providers, models, stacks and projects are declared in
`gw.types`, since the database and the catalog have them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import msgspec
from msgspec import Meta

from gw.config.alert_settings import AlertSettings
from gw.config.fields import (
    ByName,
    Choice,
    Integer,
    Number,
    NumberOrOff,
    Required,
    Section,
    boolean,
    by_modality,
    secret,
    text,
)
from gw.config.sign_in_settings import Oidc
from gw.policy.hedge import Hedge
from gw.types.address import is_loopback
from gw.types.entities import DEFAULT_PROJECT, Count, Model, OnFullDisk, Project, Provider, Stack
from gw.types.ids import KeyLimits, Modality
from gw.types.model_routes import ModelRoute
from gw.types.provider_types import SIM_FAULTS
from gw.types.secret import Secret
from gw.types.shadow import ShadowSettings

Port = Annotated[int, Meta(ge=0, le=65_535)]
Seconds = Annotated[float, Meta(gt=0, le=3_600)]
Milliseconds = Annotated[float, Meta(gt=0, le=3_600_000)]
SimDelay = Annotated[float, Meta(ge=0, le=600_000)]

_FIRST_EVENT_S: Mapping[Modality, float] = {"stt": 4.0, "llm": 4.0, "tts": 4.0}


def _first_event_s(**values: float) -> dict[Any, float]:
    """Keep the default of a modality that the file does not mention."""
    return {**_FIRST_EVENT_S, **values}


class ProviderOptions:
    """The options of provider entries; `gw.types.provider_types` says which type takes which. Never instantiated."""

    project: Annotated[str, "of Google Cloud, for transcription with an API key; default: the service account's"]
    model_path: Annotated[Path, "without base_url: gw runs the engine itself (extra whisper); relative to this file"]
    voices_path: Path
    device: str
    compute_type: str
    api: Annotated[Literal["native", "openai"], "or openai: its OpenAI-shaped API, which takes none of the three below"]
    num_ctx: Annotated[
        int, Meta(ge=1, le=100_000_000), "length of the context in tokens; default: the server's own, often 4096"
    ]
    keep_alive: Annotated[str, "how long the model stays loaded after a call; default: the server's own"]
    think: Annotated[
        bool | str, Choice(("low", "medium", "high"), boolean), "true, false, low, medium or high, for models that can"
    ]
    latency_ms: Annotated[SimDelay, "before the first event"]
    token_ms: Annotated[SimDelay, "between two tokens"]
    fail_rate: Annotated[
        float, Meta(ge=0, le=1), "share of calls that fail, 0 to 1; default: the model's own (sim/flaky: 0.3)"
    ]
    fail_with: Annotated[
        int | str, Choice(SIM_FAULTS, Integer(400, 599)), "how: an HTTP status, or reset, malformed, refused, slow"
    ]
    retry_after_s: Annotated[float, Meta(ge=0, le=86_400), "sent with a 429"]
    rate_limit: Annotated[int, Meta(ge=1, le=10_000_000), "calls a minute before it answers 429"]
    refuse: Annotated[bool, "answer every chat with a refusal"]
    cut_after: Annotated[
        int, Meta(ge=0, le=10_000_000), "pieces of an answer after which the connection breaks; default: never"
    ]
    script: Annotated[Mapping[str, str], ByName(text), "sim/scripted: piece of the user's text → reply"]


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    requests_per_minute: Annotated[Count | None, "default: unlimited"] = None
    max_concurrent: Annotated[Count | None, "default: unlimited"] = None


class CostTracking(msgspec.Struct, frozen=True, kw_only=True):
    db_path: Annotated[Path, "default: gw.db in the user's data folder; GW_DB_PATH overrides both"]
    database: Annotated[
        Secret, "instead of db_path: postgresql://[user:password@]host[:port]/database, for one gateway or several (extra: fleet)"
    ] = Secret("")
    durability: Annotated[
        Literal["crash", "power"], "crash: survives a killed process (default); power: survives a power cut, slower"
    ] = "crash"
    on_unpriced: Annotated[
        Literal["flag", "refuse"],
        "flag (default): record cost null, budgets count an estimate; refuse: do not call models without a price",
    ] = "flag"
    on_full_disk: Annotated[
        OnFullDisk,
        "while no record can be written: budgets (default): refuse projects whose budget blocks; refuse: all; "
        "continue: none, and write the records to the log (gw db import)",
    ] = "budgets"
    journal_mb: Annotated[
        int, Meta(ge=10, le=1_000_000),
        "records that wait while the database is away, then on_full_disk decides; 1 MB = 1,000,000 bytes, about 900 requests",
    ] = 256
    retention_days: Annotated[int, Meta(ge=1, le=36_500), "of single records; sums are kept"] = 90

    @property
    def journal_bytes(self) -> int:
        return self.journal_mb * 1_000_000


class CaptureSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_mb: Annotated[
        float, Meta(gt=0, le=10_000_000), "of what projects with `capture` keep; the oldest is deleted first. 1 MB = 1,000,000 bytes"
    ] = 1_000.0


ANY_ORIGIN = "*"
"""In `serve.cors_origins`: pages of every origin."""


class Serve(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[str, "an address beyond loopback needs `auth`"] = "127.0.0.1"
    port: Annotated[Port, "overridden by --port; default: the variable PORT, else 8080"] = 8080
    drain_s: Annotated[float, Meta(ge=0, le=3_600), "how long a stop waits for requests in flight"] = 30.0
    predrain_s: Annotated[float, Meta(ge=0, le=600), "how long before that /ready says so, for load balancers"] = 0.0
    max_body_mb: Annotated[float, Meta(gt=0, le=10_000), "any request body, uploads too; 1 MB = 1,000,000 bytes"] = 50.0
    max_in_flight: Annotated[int, Meta(ge=1, le=1_000_000), "requests of apps at once; more wait a moment, or get 503"] = 2_000
    workers: Annotated[
        int | str, Choice(("auto",), Integer(1, 256)), "processes that serve apps; auto: one for each core. 1: this process does everything"
    ] = 1
    stored_responses_mb: Annotated[
        float, Meta(ge=0, le=100_000), "memory for /v1/responses with `store`, for `previous_response_id`; 0: none are stored"
    ] = 0.0
    tls_cert: Annotated[Path | None, "both or none; relative to this file"] = None
    tls_key: Path | None = None
    allowed_hosts: Annotated[tuple[str, ...], "Host names accepted besides loopback ones"] = ()
    cors_origins: Annotated[tuple[str, ...], "web pages that may call the API from a browser; '*': any, which needs `auth`"] = ()
    provider_base_url_hosts: Annotated[tuple[str, ...], "hosts to which the API may move a stored key"] = ()
    recording_hosts: Annotated[
        tuple[str, ...], "private hosts from which recordings are fetched, and to which callbacks go"
    ] = ()

    def max_body_bytes(self) -> int:
        return int(self.max_body_mb * 1_000_000)


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    failures: Annotated[int, Meta(ge=1, le=10_000), "failures in a row after which a provider is not called …"] = 5
    open_s: Annotated[Seconds, "… for this long; then one call tries it again"] = 10.0


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    first_event_s: Annotated[
        Mapping[Modality, float],
        Section(_first_event_s, by_modality(Number(0, 3_600, above=True))),
        "longest wait for the first event of an answer",
    ] = msgspec.field(default_factory=lambda: _FIRST_EVENT_S)
    whole_answer_s: Annotated[Seconds, "limit for a complete answer that is not streamed (chat, transcript)"] = 60.0
    idle_s: Annotated[Seconds, "longest silence in the middle of an answer"] = 3.0
    silence_ms: Annotated[
        float, Meta(ge=100, le=60_000), "longest silence of a live transcription after speech; then the next candidate"
    ] = 800.0
    hedge: Annotated[
        Hedge, Choice(("off", "auto"), NumberOrOff(0, 3_600_000, above=True)),
        "off, auto, or after how many milliseconds the next candidate starts beside a slow one",
    ] = "auto"  # fmt: skip
    hedge_spend: Annotated[float, Meta(ge=0, le=1), "with auto: share of a project's spend of today that hedges may add"] = 0.05
    phrase_cache_mb: Annotated[
        float, Meta(ge=0, le=100_000), "memory for speech that projects with `phrase_cache` keep; 1 MB = 1,000,000 bytes"
    ] = 64.0
    phrase_cache_disk_mb: Annotated[
        float, Meta(ge=0, le=10_000_000), "the same on the disk, encrypted, beside the database; needs GW_SECRET. 0: none is kept there"
    ] = 0.0
    unlisted_models: Annotated[
        Literal["vendor", "refuse"], "a bare model name that is not listed: the vendor whose protocol the app speaks; or refuse"
    ] = "vendor"
    keepalive_s: Annotated[Seconds, "comment lines on event streams while candidates are tried"] = 3.0
    breaker: BreakerSettings = BreakerSettings()


class AuthKey(msgspec.Struct, frozen=True, kw_only=True):
    key: Annotated[Secret, Required(secret)]
    project: Annotated[str, "default: default"] = DEFAULT_PROJECT
    name: str = ""
    limits: KeyLimits | None = None

    def id(self, number: int) -> str:
        """Return the name under which records and lists have the key; `number` counts the keys of the file from 1."""
        return self.name or f"key-{number}"


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    admin_token: Annotated[Secret, "for the control plane and the dashboard"] = Secret("")
    keys: Annotated[tuple[AuthKey, ...], "for the data plane; `gw keys add` makes more"] = ()
    allow_open: Annotated[bool, "true: listen beyond loopback without any credential"] = False
    oidc: Oidc = msgspec.field(default_factory=Oidc)

    @property
    def on(self) -> bool:
        return bool(self.admin_token) or bool(self.keys) or bool(self.oidc.issuer)

    def refuses(self, host: str) -> bool:
        """Return whether listening on `host` would open the gateway to others without credentials, against `allow_open`."""
        return not is_loopback(host) and not self.on and not self.allow_open


class Mcp(msgspec.Struct, frozen=True, kw_only=True):
    enabled: Annotated[
        bool, "true: tools over HTTP (/mcp, /sse) on a port of their own; GW_MCP_TOKEN guards them"
    ] = False
    port: Annotated[Port, "on serve.host"] = 8090


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    valkey: Annotated[
        Secret, "server that counts for all gateways: valkey://[user:password@]host[:port][/database], valkeys:// with TLS; or Redis 7"
    ] = Secret("")
    name: Annotated[str, "gateways that have it in common share budgets and requests_per_minute"] = "gw"
    instance: Annotated[str, "name of this gateway in the fleet; default: its host name"] = ""
    wait_ms: Annotated[
        float, Meta(ge=1, le=250), "longest wait of a request for the server, where this gateway has nothing left; then it is refused"
    ] = 50.0
    phrase_cache_mb: Annotated[
        float, Meta(ge=0, le=100_000), "memory of the server for speech of projects with `phrase_cache`; 1 MB = 1,000,000 bytes; 0: none"
    ] = 64.0


SIGNALS = ("traces", "metrics", "logs")
"""Kinds of data that OpenTelemetry exports."""
Signal = Literal["traces", "metrics", "logs"]


class Otlp(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: Annotated[
        str, "collector's address, to which /v1/traces and so on are added; default: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318"
    ] = ""
    headers: Annotated[
        Mapping[str, Secret], "sent with each export, such as Authorization; default: OTEL_EXPORTER_OTLP_HEADERS"
    ] = msgspec.field(default_factory=dict)
    signals: Annotated[tuple[Signal, ...], "traces, metrics, logs; default: the first two"] = ("traces", "metrics")
    sample_ratio: Annotated[float, Meta(ge=0, le=1), "share of the traces that is exported; failures and fallbacks always are"] = 1.0
    service_name: Annotated[str, "default: OTEL_SERVICE_NAME, else gw"] = ""


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    otlp: Annotated[Otlp | None, "exports traces and metrics by OTLP over HTTP; {}: with the defaults. Default: nothing is exported"] = None


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    ttfb_warning_ms: Annotated[Milliseconds, "the dashboard marks models whose p95 or p99 to the first byte exceeds it"] = 1_000.0


@attrs.frozen(kw_only=True)
class Settings:
    path: Path | None
    """The file read; None for demo mode."""
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    """`<modality>:<id>` → model: one id may serve two modalities."""
    stacks: Mapping[str, Stack] = attrs.field(factory=dict)
    projects: Mapping[str, Project] = attrs.field(factory=dict)
    fallbacks: Mapping[Modality, tuple[str, ...]] = attrs.field(factory=dict)
    routes: Mapping[Modality, Mapping[str, ModelRoute]] = attrs.field(factory=dict)
    voices: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    rate_limiting: Mapping[str, RateLimit] = attrs.field(factory=dict)
    cost_tracking: CostTracking
    capture: CaptureSettings = attrs.field(factory=CaptureSettings)
    shadow: ShadowSettings | None = None
    """None: no call has a shadow."""
    serve: Serve = attrs.field(factory=Serve)
    routing: Routing = attrs.field(factory=Routing)
    auth: Auth = attrs.field(factory=Auth)
    mcp: Mcp = attrs.field(factory=Mcp)
    fleet: FleetSettings = attrs.field(factory=FleetSettings)
    telemetry: Telemetry = attrs.field(factory=Telemetry)
    latency: Latency = attrs.field(factory=Latency)
    alerts: AlertSettings = attrs.field(factory=AlertSettings)
    secret: Secret = Secret("")
    """`GW_SECRET`: encrypts stored API keys; empty = the file `.secret` in `secret_folder`."""
    previous_secret: Secret = Secret("")
    """`GW_SECRET_PREVIOUS`: the secret that GW_SECRET replaces."""
    secret_folder: Path = Path()
    mcp_token: Secret = Secret("")
    """`GW_MCP_TOKEN`: credential of the MCP server's HTTP transports; empty = none is needed."""
    warnings: tuple[str, ...] = ()
    """Valid but suspicious settings, with file:line:column where known."""
    lines: Mapping[tuple[str | int, ...], int] = attrs.field(factory=dict, repr=False, eq=False)
    """Path of a key → its line in the file, from 1; a model of a list also by its id."""

    def mcp_refuses(self, host: str) -> bool:
        """Return whether serving MCP on `host` would give others, without a credential, what here needs the admin token.

        The tools work with the rights of the admin token, so only `GW_MCP_TOKEN`, or a gateway that is open to everybody on
        purpose, lets them be served beyond loopback.
        """
        wanted_open = self.auth.allow_open and not self.auth.on
        return not is_loopback(host) and not self.mcp_token and not wanted_open
