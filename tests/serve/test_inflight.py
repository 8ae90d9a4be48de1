"""The rows, the load of each group, and the deadlines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.support.deadlines import within

from mentatd.serve.inflight import Inflight, Row


@dataclass
class Carrier:
    inflight: Inflight
    row: Row | None = None
    late: asyncio.Event = field(default_factory=asyncio.Event)

    def deadline_passed(self) -> None:
        assert self.row is not None
        self.inflight.leave(self.row, 504, "late")
        self.late.set()

    def keep_waiting(self, now: float, interval_s: float) -> None: ...


@dataclass
class Meter:
    payload_bytes: int = 0


def enter(inflight: Inflight, group: str = "g", *, now: float | None = None) -> Carrier:
    started = asyncio.get_running_loop().time() if now is None else now
    row = Row("m", group, "http://e/v1", "10.0.0.9", "/v1/x", prompt_bytes=7, stream=True, started=started)
    carrier = Carrier(inflight, row)
    inflight.enter(row, carrier)
    return carrier


def leave(carrier: Carrier, status: int = 200, failure: str | None = None) -> None:
    assert carrier.row is not None
    carrier.inflight.leave(carrier.row, status, failure)


@pytest.fixture
async def inflight() -> Inflight:
    return Inflight(100.0)


async def test_rows_are_listed_oldest_first(inflight: Inflight) -> None:
    first, second = enter(inflight), enter(inflight)
    assert list(inflight.rows()) == [first.row, second.row]
    assert len(inflight) == 2
    leave(first)
    assert list(inflight.rows()) == [second.row]
    inflight.close()


async def test_a_row_says_what_it_carries(inflight: Inflight) -> None:
    row = enter(inflight, now=3.0).row
    assert row is not None
    assert (row.model, row.group, row.address, row.client) == ("m", "g", "http://e/v1", "10.0.0.9")
    assert (row.path, row.prompt_bytes, row.stream, row.started) == ("/v1/x", 7, True, 3.0)
    assert (row.first_byte, row.ended, row.out_bytes) == (None, None, 0)
    assert (row.status, row.failure, row.sent) == (0, None, False)
    inflight.close()


async def test_ids_are_unique(inflight: Inflight) -> None:
    ids = [carrier.row.id for carrier in [enter(inflight) for _ in range(50)] if carrier.row]
    assert len(set(ids)) == 50
    inflight.close()


async def test_the_load_of_each_group_is_counted(inflight: Inflight) -> None:
    carriers = [enter(inflight, "a"), enter(inflight, "a"), enter(inflight, "b")]
    assert [inflight.count(group) for group in ("a", "b", "c")] == [2, 1, 0]
    for carrier in carriers:
        leave(carrier)
    assert [inflight.count(group) for group in ("a", "b", "c")] == [0, 0, 0]
    inflight.close()


async def test_bytes_are_read_from_the_meter_while_it_counts(inflight: Inflight) -> None:
    carrier, meter = enter(inflight), Meter(5)
    assert carrier.row is not None
    carrier.row.meter = meter
    assert carrier.row.out_bytes == 5
    meter.payload_bytes = 9
    leave(carrier)
    meter.payload_bytes = 100
    assert carrier.row.out_bytes == 9
    inflight.close()


async def test_observers_hear_of_every_end_once(inflight: Inflight) -> None:
    heard: list[tuple[str, int, str | None, bool]] = []
    inflight.on_finished(lambda row: heard.append((row.id, row.status, row.failure, row.ended is not None)))
    carrier = enter(inflight)
    leave(carrier, 499, "the client left")
    leave(carrier)
    assert carrier.row is not None
    assert heard == [(carrier.row.id, 499, "the client left", True)]
    inflight.close()


async def test_a_failing_observer_harms_nothing(
    inflight: Inflight, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(row: Row) -> None:
        raise RuntimeError("no")

    heard: list[int] = []
    inflight.on_finished(fail)
    inflight.on_finished(lambda row: heard.append(row.status))
    leave(enter(inflight))
    assert heard == [200]
    assert "event=observer_failed" in capsys.readouterr().err
    assert inflight.count("g") == 0
    inflight.close()


async def test_a_deadline_ends_its_request_and_no_younger_one() -> None:
    inflight = Inflight(100.0)
    now = asyncio.get_running_loop().time()
    late, young = enter(inflight, now=now - 200), enter(inflight)
    async with within():
        await late.late.wait()
    assert list(inflight.rows()) == [young.row]
    assert not young.late.is_set()
    inflight.close()


async def test_each_deadline_is_met_in_turn() -> None:
    inflight = Inflight(0.01)
    async with within():
        await enter(inflight).late.wait()
        first, second = enter(inflight), enter(inflight)
        await first.late.wait()
        await second.late.wait()
    assert len(inflight) == 0


async def test_one_that_left_is_not_told(inflight: Inflight) -> None:
    now = asyncio.get_running_loop().time()
    gone, late = enter(inflight, now=now - 200), enter(inflight, now=now - 200)
    leave(gone)
    async with within():
        await late.late.wait()
    assert not gone.late.is_set()


async def test_a_request_that_ends_another_one_meanwhile() -> None:
    inflight = Inflight(100.0)
    now = asyncio.get_running_loop().time()
    first, second = enter(inflight, now=now - 200), enter(inflight, now=now - 200)
    inflight.on_finished(lambda row: leave(second))
    async with within():
        await first.late.wait()
    assert len(inflight) == 0
    assert not second.late.is_set()


async def test_a_failing_carrier_does_not_stop_the_watch() -> None:
    inflight = Inflight(0.01)
    loop = asyncio.get_running_loop()
    crashes: list[object] = []
    loop.set_exception_handler(lambda _, context: crashes.append(context["exception"]))
    broken = enter(inflight)
    row, broken.row = broken.row, None
    async with within():
        while not crashes:
            await asyncio.sleep(0)
        assert row is not None
        inflight.leave(row, 500, "broken")
        await enter(inflight).late.wait()
    inflight.close()


async def test_closed_it_watches_no_longer() -> None:
    inflight = Inflight(100.0)
    late = enter(inflight, now=asyncio.get_running_loop().time() - 200)
    inflight.close()
    inflight.close()
    await asyncio.sleep(0.15)  # longer than the coarsest look
    assert not late.late.is_set()
