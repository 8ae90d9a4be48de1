"""What a new route table costs: `python -m bench.rebuild` prints one JSON document, group counts to figures.

In process, through the object that the router itself feeds. The time is from a changed view, already read, to the
table that holds it: comparing, merging, admission, building.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import uvloop

from bench.daemons import changed, host, views
from bench.workloads import Fleet
from mentatd.cluster.admission import Attempt, Probe
from mentatd.cluster.groups import SeenView
from mentatd.cluster.sources import AllowedSources
from mentatd.serve.cluster import Cluster
from mentatd.serve.networks import Networks
from mentatd.wire.openai import ModelEntry
from mentatd.wire.snapshot import View

DAEMONS = 20
SIZES = (10, 100, 1_000)
TURNS = 11
DAEMON_PORT, ENGINE_PORT = 6380, 8000
FLOOD_S = 1.0


class Bed:
    """A cluster whose clock is moved by hand, so that no rebuild waits for its turn."""

    def __init__(self, reported: Sequence[View]) -> None:
        self.now = 1_000.0
        self.views = list(reported)
        self.cluster = Cluster(
            Networks(dict),
            AllowedSources(("127.",)),
            stale_after=30.0,
            fresh_s=18.0,
            clock=lambda: self.now,
        )

    async def fill(self) -> None:
        """Views and good probes of every group."""
        self.put(range(len(self.views)))
        await self.settled()
        for name, state in self.cluster.table.groups.items():
            url = state.group.candidates[0]
            entries = (ModelEntry(name, json.dumps({"id": name}).encode()),)
            probe = Probe(
                self.now, url, (Attempt(url, None, 0.001, self.now),), entries, state.group.candidates
            )
            self.cluster.put_probe(name, probe)
        await self.settled()

    def put(self, numbers: Sequence[int]) -> None:
        self.now += 1.0
        for number in numbers:
            self.cluster.put_view(SeenView(host(number), self.views[number], self.now, trusted=True))

    async def settled(self) -> None:
        """Until what was put is in the table."""
        await self.cluster.changes.after(self.cluster.changes.number)

    async def turn(self, turn: int, numbers: Sequence[int]) -> float:
        """Milliseconds for one change of each of these daemons' views."""
        for number in numbers:
            self.views[number] = changed(self.views[number], turn)
        start = time.perf_counter()
        self.put(numbers)
        await self.settled()
        return (time.perf_counter() - start) * 1e3


async def cost(reported: Sequence[View]) -> tuple[float, float]:
    """Milliseconds, the medians, when one daemon's view has changed and when all have."""
    bed = Bed(reported)
    await bed.fill()
    everybody = range(len(reported))
    one = [await bed.turn(turn, [turn % len(reported)]) for turn in range(TURNS)]
    every = [await bed.turn(turn, everybody) for turn in range(TURNS, 2 * TURNS)]
    bed.cluster.close()
    return round(statistics.median(one), 3), round(statistics.median(every), 3)


async def tables_per_s(reported: Sequence[View]) -> float:
    """How many tables are built in a second in which views change all the time."""
    bed = Bed(reported)
    await bed.fill()
    start, before = time.monotonic(), bed.cluster.changes.number
    turn, first = 0, bed.now
    while (passed := time.monotonic() - start) < FLOOD_S:
        bed.now = first + passed
        turn += 1
        number = turn % len(reported)
        bed.views[number] = changed(bed.views[number], turn)
        bed.cluster.put_view(SeenView(host(number), bed.views[number], bed.now, trusted=True))
        await asyncio.sleep(0.001)
    bed.cluster.close()
    return round((bed.cluster.changes.number - before) / passed, 1)


async def measure() -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for groups in SIZES:
        apart = views(Fleet(DAEMONS, groups), DAEMON_PORT, ENGINE_PORT)
        everything = {name: group for view in apart for name, group in view.groups.items()}
        shared = [replace(view, groups=everything) for view in apart]
        # a daemon without a group has nothing to change
        one, every = await cost([view for view in apart if view.groups])
        shared_one, shared_every = await cost(shared)
        found[str(groups)] = {
            "apart_one_ms": one,
            "apart_every_ms": every,
            "shared_one_ms": shared_one,
            "shared_every_ms": shared_every,
            "tables_per_s": await tables_per_s(shared),
        }
    return found


if __name__ == "__main__":
    print(json.dumps(uvloop.run(measure())))
