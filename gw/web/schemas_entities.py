"""The shapes of the answers to writing, and of what only the gateway itself has: keys, chains, the session."""

from __future__ import annotations

from typing import Literal

import msgspec

from gw.types.ids import Modality, Source
from gw.web.schemas import Schema


class KeyEntry(Schema):
    """`created_at` is null for a key of gw.yaml, `expires_at` for one that does not expire."""

    key_id: str
    name: str
    project: str
    key_masked: str
    created_at: float | None
    expires_at: float | None
    source: Source


class Keys(Schema):
    keys: list[KeyEntry]


class MadeKey(KeyEntry):
    """The only answer that shows the key."""

    key: str


class Chain(Schema):
    models: list[str]
    source: Source


class SetChainAnswer(Chain):
    modality: Modality


class Chains(Schema):
    fallbacks: dict[Modality, Chain]


class ProviderCreated(Schema):
    provider_id: str
    source: Source
    api_key_masked: str


class ProviderUpdated(Schema):
    provider_id: str
    updated: bool


class ModelCreated(Schema):
    model_id: str
    source: Source
    created: bool


class ModelUpdated(Schema):
    model_id: str
    updated: bool


class ProjectCreated(Schema):
    project_id: str
    source: Source
    created: bool


class ProjectUpdated(Schema):
    project_id: str
    updated: bool


class ProviderPreviewed(Schema):
    provider_id: str
    models: list[str]
    projects: list[str]


class ModelPreviewed(Schema):
    model_id: str


class ProjectPreviewed(Schema):
    project_id: str


class KeyPreviewed(Schema):
    key_id: str
    name: str
    project: str


class ProviderPreview(Schema):
    would_delete: ProviderPreviewed


class ModelPreview(Schema):
    would_delete: ModelPreviewed


class ProjectPreview(Schema):
    would_delete: ProjectPreviewed


class KeyPreview(Schema):
    would_delete: KeyPreviewed


class Deleted(Schema):
    deleted: str


class SessionState(Schema):
    """`principal` is null where a credential is asked for and none, or a wrong one, was sent."""

    auth_on: bool
    authenticated: bool
    principal: Literal["anyone", "admin", "key"] | None
    project: str | None
    expires_at: float | None


class LoginAnswer(Schema):
    """`open`: the gateway asks for no credential, so there is no session."""

    status: Literal["logged_in", "open"]
    expires_at: float | None


class LogoutAnswer(Schema):
    status: Literal["logged_out"]


class Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str
