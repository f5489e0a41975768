"""Names of OpenTelemetry's conventions, and of ours.

`gen_ai.*`: opentelemetry-semantic-conventions 0.66b2 (2026), module `_incubating.attributes.gen_ai_attributes`. These conventions have
moved to a repository of their own and have no operations for speech yet; `speech_to_text` and `text_to_speech` are the names that are
proposed there (open-telemetry/semantic-conventions-genai, pull request 390). `gw.*` is ours, `gw.speech.*` for speech.
"""

from __future__ import annotations

from gw.types.ids import Modality

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"
SCOPE = "gw"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
OUTPUT_TYPE = "gen_ai.output.type"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
ERROR_TYPE = "error.type"
UPSTREAM_STATUS = "http.response.status_code"

DURATION_METRIC = "gen_ai.client.operation.duration"
FIRST_CHUNK_METRIC = "gen_ai.client.operation.time_to_first_chunk"
TOKENS_METRIC = "gen_ai.client.token.usage"

OPERATIONS: dict[Modality, str] = {"stt": "speech_to_text", "llm": "chat", "tts": "text_to_speech"}
EMBEDDINGS = "embeddings"
OUTPUTS: dict[Modality, str] = {"stt": "text", "llm": "text", "tts": "speech"}

_PROVIDERS = {"azure": "azure.ai.openai", "gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Ids of providers that the conventions name in another way."""


def provider_name(provider_id: str) -> str:
    """Return the value of `gen_ai.provider.name` for a provider of gw.yaml."""
    return _PROVIDERS.get(provider_id, provider_id)


def operation_name(modality: Modality, endpoint: str) -> str:
    """Return the value of `gen_ai.operation.name`."""
    return EMBEDDINGS if endpoint.endswith("/embeddings") else OPERATIONS[modality]
