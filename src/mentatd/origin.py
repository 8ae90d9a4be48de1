"""Where a connection goes."""

from __future__ import annotations

from typing import NamedTuple


class Origin(NamedTuple):
    """A server: the key of the pool (a tuple, because it is hashed for every request)."""

    host: str
    """A name or a literal address, IPv6 without brackets, with its scope id if it has one."""
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"
