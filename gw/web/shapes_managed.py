"""The shapes of the answers to writing, and of what only the gateway itself has: keys, chains, the session."""

from __future__ import annotations

from typing import Literal

import msgspec

from gw.types.ids import Modality, Source
from gw.web.shapes import Shape


class KeyEntry(Shape):
    """`created_at` is null for a key of gw.yaml, `expires_at` for one that does not expire."""

    key_id: str
    name: str
    project: str
    key_masked: str
    created_at: float | None
    expires_at: float | None
    source: Source


class Keys(Shape):
    keys: list[KeyEntry]


class MadeKey(KeyEntry):
    """The only answer that shows the key."""

    key: str


class Chain(Shape):
    models: list[str]
    source: Source


class SetChainAnswer(Chain):
    modality: Modality


class Chains(Shape):
    fallbacks: dict[Modality, Chain]


class ProviderCreated(Shape):
    provider_id: str
    source: Source
    api_key_masked: str


class ProviderUpdated(Shape):
    provider_id: str
    updated: bool


class ModelCreated(Shape):
    model_id: str
    source: Source
    created: bool


class ModelUpdated(Shape):
    model_id: str
    updated: bool


class ProjectCreated(Shape):
    project_id: str
    source: Source
    created: bool


class ProjectUpdated(Shape):
    project_id: str
    updated: bool


class ProviderPreviewed(Shape):
    provider_id: str
    models: list[str]
    projects: list[str]


class ModelPreviewed(Shape):
    model_id: str


class ProjectPreviewed(Shape):
    project_id: str


class KeyPreviewed(Shape):
    key_id: str
    name: str
    project: str


class ProviderPreview(Shape):
    would_delete: ProviderPreviewed


class ModelPreview(Shape):
    would_delete: ModelPreviewed


class ProjectPreview(Shape):
    would_delete: ProjectPreviewed


class KeyPreview(Shape):
    would_delete: KeyPreviewed


class Deleted(Shape):
    deleted: str


class SessionState(Shape):
    """`principal` is null where a credential is asked for and none, or a wrong one, was sent."""

    auth_on: bool
    authenticated: bool
    principal: Literal["anyone", "admin", "key"] | None
    project: str | None
    expires_at: float | None


class LoginAnswer(Shape):
    """`open`: the gateway asks for no credential, so there is no session."""

    status: Literal["logged_in", "open"]
    expires_at: float | None


class LogoutAnswer(Shape):
    status: Literal["logged_out"]


class Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str
