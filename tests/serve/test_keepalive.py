"""Who is told that another interval is over, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.deadlines import until, within

from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.keepalive import Keepalives


class Carrier:
    """Counts how often it was told."""

    def __init__(self, row: Row) -> None:
        self.told: list[tuple[float, float]] = []
        self.row = row

    def deadline_passed(self) -> None: ...

    def keep_waiting(self, now: float, interval_s: float) -> None:
        self.told.append((now, interval_s))


@pytest.fixture
async def inflight() -> AsyncIterator[Inflight]:
    inflight = Inflight(100.0)
    yield inflight
    inflight.close()


def enter(inflight: Inflight, *, age: float = 0.0, stream: bool = True) -> Carrier:
    started = asyncio.get_running_loop().time() - age
    row = Row("m", "g", "http://e/v1", "10.0.0.9", "/v1/x", prompt_bytes=7, stream=stream, started=started)
    carrier = Carrier(row)
    inflight.enter(row, carrier)
    return carrier


async def test_silent_streams_are_told_once_an_interval_is_over(inflight: Inflight) -> None:
    keepalives = Keepalives(inflight, 0.05)
    keepalives.start()
    carrier = enter(inflight)
    await until(lambda: len(carrier.told) > 2)
    keepalives.close()
    now, interval = carrier.told[0]
    assert interval == 0.05
    assert now >= carrier.row.started + interval


async def test_others_are_not(inflight: Inflight) -> None:
    old, plain, begun = (
        enter(inflight, age=60),
        enter(inflight, age=60, stream=False),
        enter(inflight, age=60),
    )
    young = enter(inflight)
    begun.row.first_byte = 1.0
    keepalives = Keepalives(inflight, 30.0)
    keepalives._tick_s = 0.01
    keepalives.start()
    await until(lambda: old.told)
    keepalives.close()
    assert not plain.told + begun.told + young.told


async def test_zero_is_off(inflight: Inflight) -> None:
    carrier = enter(inflight, age=1e6)
    keepalives = Keepalives(inflight, 0.0)
    keepalives.start()
    async with within():
        await asyncio.sleep(0.05)
    assert not carrier.told
    keepalives.close()


async def test_closed_it_tells_nobody(inflight: Inflight) -> None:
    keepalives = Keepalives(inflight, 0.02)
    keepalives.start()
    carrier = enter(inflight, age=1.0)
    await until(lambda: carrier.told)
    keepalives.close()
    keepalives.close()
    told = len(carrier.told)
    await asyncio.sleep(0.05)
    assert len(carrier.told) == told
