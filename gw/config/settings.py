"""YAML + environment → one frozen `Settings`, in one function, with every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs

from gw.pricing.book import Price
from gw.types.ids import Modality
from gw.types.project import BudgetAction
from gw.types.secret import Secret


@attrs.frozen(kw_only=True)
class ProviderSettings:
    id: str
    type: str
    api_key: Secret = Secret("")
    base_url: str | None = None
    enabled: bool = True
    options: Mapping[str, object] = attrs.field(factory=dict)
    """Engine options (model_path, device, compute_type, voices_path …) and sim knobs."""


@attrs.frozen(kw_only=True)
class ModelSettings:
    id: str
    modality: Modality
    provider: str
    model: str
    display_name: str = ""
    default_language: str | None = None
    default_voice: str | None = None
    price: Price | None = None
    aliases: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class StackSettings:
    name: str
    stt: str | None = None
    llm: str | None = None
    tts: str | None = None


@attrs.frozen(kw_only=True)
class ProjectSettings:
    id: str
    name: str = ""
    description: str = ""
    daily_budget: float = 0.0
    budget_action: BudgetAction = "warn"
    max_concurrent: int | None = None
    """Requests at once; None = no limit."""
    default_stack: str = ""
    tags: tuple[str, ...] = ()
    accent: str = ""
    fallbacks: Mapping[Modality, tuple[str, ...]] = attrs.field(factory=dict)
    providers: Mapping[str, Secret] = attrs.field(factory=dict)
    """Own keys per provider id."""


@attrs.frozen(kw_only=True)
class RateLimit:
    requests_per_minute: int | None = None
    max_concurrent: int | None = None


@attrs.frozen(kw_only=True)
class CostTracking:
    db_path: Path
    durability: Literal["crash", "power"] = "crash"
    on_unpriced: Literal["flag", "refuse"] = "flag"
    retention_days: int = 90


@attrs.frozen(kw_only=True)
class Serve:
    host: str = "127.0.0.1"
    port: int = 8080
    drain_s: float = 30.0
    max_body_mb: float = 10.0
    """JSON bodies."""
    max_upload_mb: float = 100.0
    """Audio uploads."""
    max_in_flight: int = 2_000
    """Requests in flight on the data plane; more are refused with 503."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    provider_base_url_hosts: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class BreakerSettings:
    failures: int = 5
    """Failures in a row that open it."""
    open_s: float = 10.0
    """Until one trial call is let through."""


@attrs.frozen(kw_only=True)
class Routing:
    first_event_s: Mapping[Modality, float] = attrs.field(factory=lambda: {"stt": 10.0, "llm": 8.0, "tts": 5.0})
    whole_answer_s: float = 60.0
    """Until the whole of an answer that is not streamed (chat without `stream`, a transcript)."""
    idle_s: float = 15.0
    """Longest silence inside a running answer."""
    hedge_after_ms: float | None = None
    keepalive_s: float = 3.0
    """SSE comment lines while candidates are tried."""
    breaker: BreakerSettings = BreakerSettings()


@attrs.frozen(kw_only=True)
class AuthKey:
    key: Secret
    project: str
    name: str = ""


@attrs.frozen(kw_only=True)
class Auth:
    admin_token: Secret = Secret("")
    keys: tuple[AuthKey, ...] = ()
    allow_open: bool = False

    @property
    def on(self) -> bool:
        return bool(self.admin_token) or bool(self.keys)


@attrs.frozen(kw_only=True)
class Mcp:
    enabled: bool = False
    port: int = 8090


@attrs.frozen(kw_only=True)
class Latency:
    ttfb_warning_ms: float = 1_000.0


@attrs.frozen(kw_only=True)
class Settings:
    path: Path | None
    """The file read; None for demo mode."""
    providers: Mapping[str, ProviderSettings]
    models: Mapping[str, ModelSettings]
    cost_tracking: CostTracking
    stacks: Mapping[str, StackSettings] = attrs.field(factory=dict)
    projects: Mapping[str, ProjectSettings] = attrs.field(factory=dict)
    fallbacks: Mapping[Modality, tuple[str, ...]] = attrs.field(factory=dict)
    voices: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    rate_limiting: Mapping[str, RateLimit] = attrs.field(factory=dict)
    serve: Serve = Serve()
    routing: Routing = Routing()
    auth: Auth = Auth()
    mcp: Mcp = Mcp()
    latency: Latency = Latency()
    secret: Secret = Secret("")
    """`GW_SECRET`: encrypts stored API keys; empty = the file `.secret` in `secret_folder`."""
    previous_secret: Secret = Secret("")
    """`GW_SECRET_PREVIOUS`: the one that GW_SECRET replaces."""
    secret_folder: Path = Path()
    mcp_token: Secret = Secret("")
    """`GW_MCP_TOKEN`: what the HTTP transports of the MCP server ask for; empty = nothing."""
    warnings: tuple[str, ...] = ()
    """Things that work but deserve a look, with file:line:column where known."""
    lines: Mapping[tuple[str | int, ...], int] = attrs.field(factory=dict, repr=False, eq=False)
    """Path of a key → its line in the file, from 1; a model of a list also by its id."""
