"""From a request to a connection that will carry it: the addresses of its group, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mentatd.cluster.targets import Target
from mentatd.errors import ConnectFailed, Refusal
from mentatd.http.pool import Pool
from mentatd.http.upstream import Upstream
from mentatd.serve import refusals
from mentatd.serve.inflight import Inflight, Row
from mentatd.tasks import Tasks

CONNECT_TIMEOUT_S = 5.0
"""For one address. A connect takes milliseconds on any link that can carry inference; a longer wait would
keep the client from the next address."""


@dataclass(frozen=True, slots=True)
class Means:
    """What exchanges share."""

    pool: Pool
    inflight: Inflight
    tasks: Tasks
    """Owns the connects."""
    suspect: Callable[[str, str], None]
    """Told of the group and the base URL that did not take a connection."""
    now: Callable[[], float]
    """Loop time."""


async def connect_first(
    means: Means,
    row: Row,
    targets: tuple[Target, ...],
    connected: Callable[[Upstream, Target], None],
    failed: Callable[[Refusal], None],
) -> None:
    """Call `connected` with the first address that takes a connection, or `failed`, also when this is cancelled.

    The prober is told of those that took none.
    """
    failures: list[str] = []
    try:
        for target in targets:
            row.address = target.url
            try:
                upstream = means.pool.take(target.origin) or await means.pool.connect(
                    target.origin, timeout=CONNECT_TIMEOUT_S
                )
            except ConnectFailed as error:
                failures.append(str(error))
                means.suspect(row.group, target.url)
            else:
                connected(upstream, target)
                return
        failed(refusals.engine_unreachable(row.group, failures))
    except BaseException:
        # the router stops, or a fault of ours: the client must not wait for a task that is gone
        failed(refusals.engine_unreachable(row.group, [*failures, "given up"]))
        raise
