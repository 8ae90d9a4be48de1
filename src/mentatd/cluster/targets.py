"""A base URL taken apart once, so that a request only joins its path (design.md "Rules of forwarding")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mentatd.cluster.sources import parse_address
from mentatd.origin import Origin

_BASE: Final = re.compile(
    r"(https?)://"
    r"(?:\[([0-9a-f:.]+(?:%[\w.~-]+)?)\]|([\w.~-]+))"  # an IPv6 address, or any other host
    r"(?::([0-9]{0,5}))?"
    r"(/[!\"$->@-~]*)?",  # visible ASCII; no query, no fragment
    re.IGNORECASE | re.ASCII,
)
_SCHEME_PORT: Final = {"http": 80, "https": 443}
_UNDER_V1: Final = (b"/v1/", b"/v1?")


@dataclass(frozen=True, slots=True)
class Target:
    """One base URL, ready for requests."""

    url: str
    """The base exactly as announced or derived: the group's candidate."""
    origin: Origin
    """Where connections to it go."""
    authority: bytes
    """For the Host field: `10.0.0.2:8000`, without the scheme's own port and without a scope id (RFC 6874)."""
    prefix: bytes
    """The base's path without its `/v1`; empty where `whole` is set."""
    whole: bytes | None
    """None where the base's path ends in `/v1`, else the base's whole path."""

    def join(self, target: bytes) -> bytes:
        """The request target to send for `target`, an origin-form target with its query.

        A base that ends in `/v1` takes `/v1/x` as it is, and everything else beside that `/v1`. Any other
        base stands for `/v1` itself: both `/v1/x` and `/x` become `x` below it.
        """
        if self.whole is None:
            return self.prefix + target
        if not target.startswith(_UNDER_V1) and target != b"/v1":
            return self.whole + target
        below = target[3:]
        return self.whole + below if below.startswith(b"/") else (self.whole or b"/") + below


def parse_target(url: str) -> Target:
    """Take a base URL apart. Raises ValueError for what is no http or https URL of host, port and path."""
    match = _BASE.fullmatch(url)
    if match is None:
        raise ValueError("no http:// or https:// base URL")
    scheme, v6, name, port_text, path = match.groups("")
    own_port = _SCHEME_PORT[scheme.lower()]
    port = int(port_text or own_port)
    if not 0 < port < 65536:
        raise ValueError("no valid port")
    if v6 and parse_address(v6) is None:
        raise ValueError("no valid IPv6 address")
    path = path.rstrip("/")
    host = (v6 or name).lower()
    authority = f"[{host.partition('%')[0]}]" if v6 else host
    if port != own_port:
        authority += f":{port}"
    under_v1 = path.endswith("/v1")
    return Target(
        url=url,
        origin=Origin(host, port, own_port == _SCHEME_PORT["https"]),
        authority=authority.encode(),
        prefix=path.removesuffix("/v1").encode() if under_v1 else b"",
        whole=None if under_v1 else path.encode(),
    )
