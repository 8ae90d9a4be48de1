"""The single owner of views and probes; publishes the `RouteTable`.  (Contract; see the module's owner.)"""

from __future__ import annotations

from mentatd.cluster.routes import RouteTable


class Cluster:
    table: RouteTable
    """The newest table; replaced as a whole, never changed. A request reads it once."""

    def suspect(self, group: str, url: str) -> None:
        """A request could not connect to this candidate: the prober looks at the group at once."""
        raise NotImplementedError
