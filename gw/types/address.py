"""Addresses of upstreams: their syntax, for the configuration and the network, and the hosts that are never called.

An address is `http(s)://host[:port][/path]`, or `tcp://host:port` for local servers of the Wyoming protocol. Link-local
addresses and the metadata services of clouds are never called, since they give credentials to any program on this machine.
"""

from __future__ import annotations

import ipaddress
import re
from ipaddress import ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"(?!.{{254}}){_LABEL}(?:\.{_LABEL})*\.?")
"""A name valid in the DNS (RFC 1035 §2.3.4), or with `_`, which container names have."""
_NOT_PRINTABLE = re.compile(r"[^\x21-\x7e]|\\")


def split_address(address: str, *, tcp: bool = False) -> SplitResult:
    """Return the parts of an address; `port` is None or 1 to 65535. `tcp` also allows `tcp://host:port`.

    Raises ValueError with a message that does not repeat the address, which may contain a password. Names in other
    alphabets are refused, not encoded: their owner knows the `xn--` form.
    """
    if _NOT_PRINTABLE.search(address):
        raise ValueError("an address may contain printable ASCII only, without spaces and backslashes")
    try:
        parts = urlsplit(address)
        port_is_good = parts.port != 0
    except ValueError:
        raise ValueError("an address needs a host, and its port is a number from 1 to 65535") from None
    if parts.scheme not in (("http", "https", "tcp") if tcp else ("http", "https")):
        raise ValueError(f"an address begins with http:// or https://{', or tcp://' if tcp else ''}")
    if parts.scheme == "tcp" and (parts.path.strip("/") or not parts.port):
        raise ValueError("a tcp:// address has a port and no path")
    if "@" in parts.netloc:
        raise ValueError("an address may not contain a user name or password")
    if "?" in address or "#" in address:
        raise ValueError("an address may not have a query or fragment")
    host = parts.hostname or ""
    if not host or (":" not in host and not _HOST_NAME.fullmatch(host)):
        raise ValueError("an address needs a host name that is valid in the DNS")
    if not port_is_good:
        raise ValueError("a port is a number from 1 to 65535")
    return parts


def host_of(address: str, *, tcp: bool = False) -> str:
    """Return the host in lower case, without a trailing dot. Raises ValueError like `split_address`."""
    return (split_address(address, tcp=tcp).hostname or "").lower().rstrip(".")


_REFUSED_NETWORKS: Final = (
    ip_network("169.254.0.0/16"),  # link-local, and the metadata service of most clouds
    ip_network("100.100.100.200/32"),  # Alibaba Cloud metadata
    ip_network("168.63.129.16/32"),  # Azure host agent
    ip_network("192.0.0.192/32"),  # Oracle Cloud metadata
    ip_network("fe80::/10"),
    ip_network("fd00:ec2::/32"),  # AWS metadata and credential endpoints
    ip_network("fd20:ce::254/128"),  # Google Cloud metadata
)
_REFUSED_NAMES: Final = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_NOT_PUBLIC: Final = (ip_network("fec0::/10"), ip_network("64:ff9b:1::/48"))
"""Site-local (RFC 3879) and local-use translation (RFC 8215), which the standard library considers global."""
_NAT64: Final = 0x64_FF9B << 64  # 64:ff9b::/96, the upper 96 bits
_IPV4_INSIDE: Final = frozenset({0, 0xFFFF, _NAT64})  # upper 96 bits of IPv6 addresses that embed an IPv4 one


def is_public(address: str) -> bool:
    """Return whether a numeric address is in the public internet. Raises ValueError for anything but a numeric address."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address) and (inside := _ipv4_inside(ip)) is not None:
        return is_public(str(inside))
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOT_PUBLIC)


def is_refused(address: str) -> bool:
    """Return whether a numeric address, or the IPv4 address inside it, is link-local or a cloud's metadata service.

    Raises ValueError for anything but a numeric address.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address) and (inside := _ipv4_inside(ip)) is not None and is_refused(str(inside)):
        return True
    return any(ip in network for network in _REFUSED_NETWORKS)


def is_never_called(host: str) -> bool:
    """Return `is_refused` for the host of an address, and True for names of metadata services. No name is looked up."""
    try:
        return is_refused(host)
    except ValueError:
        return host.rstrip(".").lower() in _REFUSED_NAMES


def _ipv4_inside(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address embedded in this one (6to4, IPv4-mapped, IPv4-compatible, NAT64)."""
    if int(ip) >> 32 in _IPV4_INSIDE:
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.sixtofour


def is_loopback(host: str) -> bool:
    """Return True for `localhost`, 127.0.0.0/8 and ::1. Other names are not looked up: they count as reachable."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
