"""The router's settings: environment to one frozen value.  (Contract; see the module's owner.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mentatd.cluster.sources import AllowedSources


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the router is told from outside. Durations in seconds, sizes in bytes."""

    serve_port: int
    seeds: tuple[tuple[str, int], ...]
    """MENTAT_DAEMONS as (host, port)."""
    announce_port: int
    """0: no listener."""
    allowed_sources: AllowedSources
    discover_peers: bool
    poll_interval_s: float
    probe_interval_s: float
    probe_timeout_s: float
    probe_fresh_s: float
    probe_promote_s: float
    serving_timeout_s: float
    mcp_timeout_s: float
    tools_ttl_s: float
    secret: bytes | None
    universe: str
    drain_s: float
    client_timeout_s: float
    """A request head must be whole within it; a body must make progress within each (CLIENT_TIMEOUT_S, 60)."""
    max_connections: int
    """MAX_CONNECTIONS, 4096."""


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Parse the environment. Raises SettingsError for what stops the process (MENTAT_SECRET_FILE)."""
    raise NotImplementedError
