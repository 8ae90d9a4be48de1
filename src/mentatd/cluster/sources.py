"""ALLOWED_SOURCES: which addresses this router may act on, and this box's own networks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

LOCAL = "local"
"""The entry that stands for every network that this box has an interface on."""

_PREFIX = re.compile(r"[0-9a-f.:]+")
_MAPPED_BITS = 96


def parse_address(host: str) -> Address | None:
    """The literal address `host`, or None for a name and for anything else.

    A scope id is dropped (it names an interface of the box that wrote it) and `::ffff:10.0.0.1` is
    `10.0.0.1`, so that `str()` of the result is the one text by which an address is compared.
    """
    try:
        address = ip_address(host.partition("%")[0] if ":" in host else host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@dataclass(frozen=True, slots=True)
class LocalNetworks:
    """The networks that this box has an interface on; loopback is one, listed or not (wire.md section 3)."""

    networks: frozenset[Network]
    """With the interface's own netmask; host bits cleared."""

    def has(self, address: Address) -> bool:
        """Whether `address` is on one of them."""
        return address.is_loopback or any(address in network for network in self.networks)

    def __contains__(self, host: str) -> bool:
        """Whether the literal address `host` is on one of them. A name is on none."""
        address = parse_address(host)
        return address is not None and self.has(address)


def parse_entry(entry: str) -> Network | str:
    """One entry of ALLOWED_SOURCES: a CIDR block as its network, a prefix as lower-case text, or `LOCAL`.

    A whole address is a prefix too (`10.0.0.1` matches `10.0.0.12`, as the manual's prefixes do).
    Raises ValueError for what could match no address.
    """
    text = entry.strip().lower()
    if text == LOCAL:
        return LOCAL
    if "/" in text:
        network = ip_network(text, strict=False)
        mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
        if mapped is not None and network.prefixlen >= _MAPPED_BITS:
            return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
        return network
    address = parse_address(text)
    if address is not None:
        return str(address)
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"{entry!r} is no address prefix, no CIDR block and not the word {LOCAL!r}")
    return text


@dataclass(frozen=True, slots=True)
class AllowedSources:
    """Address prefixes, CIDR blocks and the word `local`; an empty entry matches nothing.

    Raises ValueError for an entry that `parse_entry` refuses.
    """

    entries: tuple[str, ...]
    """As configured, for the log."""
    _prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _networks: tuple[Network, ...] = field(init=False, repr=False, compare=False)
    _local: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = [parse_entry(entry) for entry in self.entries if entry.strip()]
        prefixes = tuple(rule for rule in rules if isinstance(rule, str) and rule != LOCAL)
        object.__setattr__(self, "_prefixes", prefixes)
        object.__setattr__(self, "_networks", tuple(rule for rule in rules if not isinstance(rule, str)))
        object.__setattr__(self, "_local", LOCAL in rules)

    def allows(self, host: str, local: LocalNetworks) -> bool:
        """Whether `host`, a literal address as `parse_address` reads it, matches an entry; no name does."""
        address = parse_address(host)
        if address is None:
            return False
        return (
            str(address).startswith(self._prefixes)
            or any(address in network for network in self._networks)
            or (self._local and local.has(address))
        )
