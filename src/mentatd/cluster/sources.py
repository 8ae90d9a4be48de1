"""ALLOWED_SOURCES: which addresses this router may act on, and this box's own networks."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class LocalNetworks:
    """The networks that this box has an interface on, loopback included."""

    networks: frozenset[Network]

    def __contains__(self, host: str) -> bool:
        """Whether the literal address `host` is on one of them. A name is on none."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AllowedSources:
    """Address prefixes, CIDR blocks and the word `local` (every network of this box)."""

    entries: tuple[str, ...]
    """As configured, for the log."""

    def allows(self, host: str, local: LocalNetworks) -> bool:
        """Whether `host` (a literal address, `::ffff:` forms count as their IPv4 address) matches an entry."""
        raise NotImplementedError
