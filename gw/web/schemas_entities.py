"""The shapes of the dashboard's session."""

from __future__ import annotations

from typing import Literal

import msgspec

from gw.admin.schemas import Schema


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


class ErrorDetail(Schema):
    """Further members carry the facts of the error, such as `provider`, `retry_after_s` or `available`."""

    type: str
    code: str
    message: str
    param: str | None
    request_id: str


class Error(Schema):
    """The one error body everywhere outside vendors' dialects."""

    error: ErrorDetail
