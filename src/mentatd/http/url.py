"""URLs of other servers, taken apart strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

from mentatd.origin import Origin

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][\x21\x22\x24-\x7e]*)?",
    re.ASCII | re.IGNORECASE,
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Location:
    """Where a request goes and what it asks for."""

    origin: Origin
    authority: str
    """For the Host field: the port left out where it is the scheme's own."""
    target: str
    """Path and query, starting with `/`."""


def parse_url(url: str) -> Location:
    """Take an http or https URL apart (RFC 9110 section 4.2).

    Raises ValueError for every other scheme, user information, a fragment, anything but printable ASCII, a
    port outside 1 to 65535, and brackets that hold no IPv6 address.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("not an http or https URL that can be asked")
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port = int(found["port"] or _PORTS[scheme])
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} is not between 1 and 65535")
    if host.startswith("["):
        try:
            IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError("not an IPv6 address in brackets") from None
    authority = host if port == _PORTS[scheme] else f"{host}:{port}"
    target = found["target"] or "/"
    if target.startswith("?"):
        target = f"/{target}"
    return Location(Origin(host.strip("[]"), port, scheme == "https"), authority, target)
