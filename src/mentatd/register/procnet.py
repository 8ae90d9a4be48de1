"""The kernel's tables of TCP sockets, `/proc/net/tcp` and `/proc/net/tcp6`, as text to values."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
"""Where the kernel keeps them; a box without IPv6 has no second."""

_LISTEN = "0A"
_FIELDS = 4  # sl, local_address, rem_address, st: what follows is of no use here


def listening(tables: Iterable[str]) -> Mapping[int, tuple[str, ...]]:
    """The addresses that something listens on, by port; IPv4 first, each family in numeric order.

    An IPv6 socket that is bound to a mapped address (`::ffff:10.0.0.1`) listens on the IPv4 one. A row that
    does not read as wire.md section 5 describes it, such as the heading, is skipped.
    """
    found: dict[int, set[IPv4Address | IPv6Address]] = {}
    for table in tables:
        for row in table.splitlines():
            fields = row.split(None, _FIELDS)
            if len(fields) < _FIELDS or fields[3] != _LISTEN:
                continue
            if (bound := _read_address(fields[1])) is not None:
                address, port = bound
                found.setdefault(port, set()).add(address)
    return {port: _ordered(addresses) for port, addresses in found.items()}


def _read_address(text: str) -> tuple[IPv4Address | IPv6Address, int] | None:
    """`0100007F:1F90` to 127.0.0.1 and 8080: 32-bit words, each little-endian, then the port as it reads."""
    host, colon, port = text.partition(":")
    if not colon or len(host) not in (8, 32):
        return None
    try:
        raw, number = bytes.fromhex(host), int(port, 16)
    except ValueError:
        return None
    words = len(raw) // 4
    packed = struct.pack(f">{words}I", *struct.unpack(f"<{words}I", raw))
    if words == 1:
        return IPv4Address(packed), number
    address = IPv6Address(packed)
    return address.ipv4_mapped or address, number


def _ordered(addresses: set[IPv4Address | IPv6Address]) -> tuple[str, ...]:
    return tuple(str(a) for a in sorted(addresses, key=lambda a: (a.version, int(a))))
