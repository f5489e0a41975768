"""Loopback addresses, which only this machine can reach."""

from __future__ import annotations

from ipaddress import ip_address

from gw.config.settings import Auth


def is_loopback(host: str) -> bool:
    """Return True for `localhost`, 127.0.0.0/8 and ::1. Other names are not looked up: they count as reachable."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def bind_refused(host: str, auth: Auth) -> bool:
    """Return whether listening on `host` would open the gateway to others without credentials, against `allow_open`."""
    return not is_loopback(host) and not auth.on and not auth.allow_open
