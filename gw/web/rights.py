"""The right that each route needs, in one table: a role, and the projects for which it is needed.

A role for some projects gets at routes whose answer belongs to a project. `Reach` says where the project is named, and
`gw.web.confinement` keeps every request within it. What belongs to another project is unknown (404), so that nobody learns that
it exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from gw.types.roles import Role

Right = Literal["public", "key", "call", "metrics", "viewer", "operator", "admin"]
"""`public`: no credential. `key`: any valid one. `call`: a project's key, or the role operator. `metrics`: none from this machine, else
the role viewer."""
Reach = Literal["any", "all", "query", "project", "key", "record", "body", "listed"]
"""`any`: the answer belongs to no project. `all`: a role for all projects is needed. `query`: the field `project` of the query.
`project`, `key`, `record`: the parameter of the path. `body`: the member `project` of the body. `listed`: the answer is a list, and its
handler leaves out what belongs to other projects."""
ROLE_OF: Mapping[Right, Role] = {
    "call": "operator", "metrics": "viewer", "viewer": "viewer", "operator": "operator", "admin": "admin",
}  # fmt: skip
"""The role that a right needs; rights that are not listed need none."""


class Need(msgspec.Struct, frozen=True):
    """Condition for a request to a route. `capture`: besides, the right to read captured content."""

    right: Right
    reach: Reach = "any"
    capture: bool = False


STRICTEST = Need("admin", "all")
"""Default for a route that the table lacks; a test keeps it complete."""
_VIEW, _VIEW_ALL = Need("viewer"), Need("viewer", "all")
_REPORT, _LIST = Need("viewer", "query"), Need("viewer", "listed")
_OPERATE_ALL, _ADMIN_ALL = Need("operator", "all"), STRICTEST
_PUBLIC, _CALL = Need("public"), Need("call")

NEEDS: Mapping[str, Need] = {
    # state
    **dict.fromkeys(("front", "health", "ready", "openapi", "login", "logout", "session"), _PUBLIC),
    **dict.fromkeys(("oidc_start", "oidc_callback", "oidc_logout"), _PUBLIC),
    "metrics": Need("metrics", "all"),
    "status": _LIST,
    "fleet": _VIEW_ALL,
    "check_config": _OPERATE_ALL,
    # models, voices, chains
    "list_models": Need("key"),
    "get_model": Need("key"),
    **dict.fromkeys(("list_voices", "list_fallbacks", "dashboard_status", "page_models"), _VIEW),
    **dict.fromkeys(("create_model", "update_model", "delete_model", "set_fallbacks", "reset_fallbacks"), _OPERATE_ALL),
    # projects and their keys
    **dict.fromkeys(("list_projects", "dashboard_projects", "page_projects", "list_keys", "page_keys", "page_playground"), _LIST),
    "get_project": Need("viewer", "project"),
    "create_project": _ADMIN_ALL,
    "update_project": Need("operator", "project"),
    "list_pronunciations": Need("viewer", "project"),
    "replace_pronunciations": Need("operator", "project"),
    "delete_project": _ADMIN_ALL,
    "create_key": Need("operator", "body"),
    "get_key": Need("viewer", "key"),
    "update_key": Need("operator", "key"),
    "revoke_key": Need("operator", "key"),
    # providers
    **dict.fromkeys(("list_providers", "get_provider", "page_providers", "reliability"), _VIEW_ALL),
    **dict.fromkeys(("create_provider", "update_provider", "delete_provider"), _ADMIN_ALL),
    "test_provider": _OPERATE_ALL,
    # reports
    **dict.fromkeys(("costs", "latency", "first_audio", "logs", "sessions", "conversation", "turns", "turn"), _REPORT),
    **dict.fromkeys(("dashboard_costs", "dashboard_latency", "dashboard_logs", "logs_csv", "page_costs", "page_latency"), _REPORT),
    **dict.fromkeys(("overview", "series", "histogram", "forecast", "route"), _REPORT),
    "request": Need("viewer", "record"),
    "live": _LIST,
    "audit_log": _VIEW_ALL,
    "reconcile": _VIEW_ALL,
    "compare": _VIEW_ALL,
    "page_settings": _VIEW_ALL,
    # alerts
    "alerts": _VIEW_ALL,
    **dict.fromkeys(("test_alerts", "mute_alert", "unmute_alert"), _OPERATE_ALL),
    # captured content
    "capture_stats": _VIEW_ALL,
    "read_capture": Need("viewer", "query", capture=True),
    "capture_audio": Need("viewer", "record", capture=True),
    "search_capture": Need("viewer", "body", capture=True),
    "forget_capture": Need("operator", "query", capture=True),
    # phrase cache: its list has texts of conversations
    "phrase_cache": Need("viewer", "all", capture=True),
    "clear_phrase_cache": _OPERATE_ALL,
    "warm_phrase": Need("operator", "body"),
    # service tokens
    "list_tokens": Need("admin", "listed"),
    "create_token": Need("admin", "listed"),
    "get_token": Need("admin", "listed"),
    "revoke_token": Need("admin", "listed"),
    "page_people": Need("admin", "listed"),
    # people and their sessions of the dashboard
    **dict.fromkeys(("list_people", "update_person", "list_logins", "end_login"), _ADMIN_ALL),
    # requests of apps
    **dict.fromkeys(("chat_completions", "create_response", "response", "delete_response", "response_input"), _CALL),
    **dict.fromkeys(("embeddings", "moderations", "speech", "transcriptions", "translations"), _CALL),
}
"""Id of a route → what a request to it needs."""
