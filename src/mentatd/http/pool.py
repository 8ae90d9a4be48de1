"""Idle upstream connections by origin.  (Contract; see the module's owner.)"""

from __future__ import annotations

from mentatd.http.upstream import Origin, Upstream


class Pool:
    """Owns every upstream connection. The decision which idle connection may be reused is synchronous."""

    def take(self, origin: Origin) -> Upstream | None:
        """An idle connection that is safe to reuse now (newest first), or None."""
        raise NotImplementedError

    async def connect(self, origin: Origin, *, timeout: float) -> Upstream:
        """A new connection within `timeout` seconds. Raises ConnectFailed with what was tried and what came back.

        A cancelled connect leaves nothing behind."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection, idle or not."""
        raise NotImplementedError
