"""Conditions for serving MCP: its library is installed, and nobody beyond this machine gets the tools without a credential."""

from __future__ import annotations

from importlib.util import find_spec

from gw.config.settings import Settings
from gw.errors import ConfigError, Problem, install_extra

MCP_EXTRA = "mcp"
TOKEN_HINT = "set GW_MCP_TOKEN, the token that MCP clients send, or serve on loopback"


def mcp_missing() -> str:
    """Return what to install for serving MCP; "" if it is installed."""
    return "" if find_spec("mcp") is not None else install_extra(MCP_EXTRA)


def open_to_all(host: str) -> str:
    """Return the problem of serving MCP on `host` without a token."""
    return f"MCP on {host!r} would let everybody who can reach it administer the gateway: GW_MCP_TOKEN is not set"


def check_mcp(settings: Settings, host: str) -> None:
    """Raise ConfigError if `mcp.enabled` needs what is not installed, or would give others the tools without a credential.

    The library is not looked for when the file is read: most commands do without it.
    """
    if settings.mcp.enabled and (hint := mcp_missing()):
        raise _mcp_error(settings, "mcp.enabled needs a library that is not installed", hint)
    if settings.mcp.enabled:
        check_mcp_bind(settings, host)


def check_mcp_bind(settings: Settings, host: str) -> None:
    """Raise ConfigError if others would get the tools for MCP on `host` without a credential."""
    if settings.mcp_refuses(host):
        raise _mcp_error(settings, open_to_all(host), TOKEN_HINT)


def _mcp_error(settings: Settings, what: str, hint: str) -> ConfigError:
    file, line = str(settings.path or ""), settings.lines.get(("mcp", "enabled"), 0)
    return ConfigError(problems=(Problem(what=what, hint=hint, where="mcp.enabled", file=file, line=line, column=1),))
