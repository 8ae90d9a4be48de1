"""The watch over where the announced ports are bound."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.support.deadlines import until, within

from mentatd.register.bindwatch import BindWatch, read_tables
from mentatd.register.procnet import listening

NOTHING = ""
NARROW = "   0: 0100000A:1F40 00000000:0000 0A x"
WIDE = "   0: 00000000:1F40 00000000:0000 0A x"


class Kernel:
    """Tables that a test sets, and a clock that it moves."""

    def __init__(self) -> None:
        self.table = NOTHING
        self.now = 0.0
        self.looks = 0

    def tables(self) -> list[str]:
        self.looks += 1
        return [self.table]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


async def look_until(watch: BindWatch, notes: dict[str, str]) -> None:
    """Run the watch until it has these notes."""
    done = asyncio.Event()

    async def changed() -> None:
        if watch.notes == notes:
            done.set()

    task = asyncio.get_running_loop().create_task(watch.run(changed))
    async with within():
        await done.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_narrow_bind_is_told_and_taken_back(
    kernel: Kernel, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = BindWatch({"openai": 8000, "mcp": 9000}, tables=kernel.tables, every_s=0.001)
    assert watch.notes == {"openai": "", "mcp": ""}
    kernel.table = NARROW
    await look_until(watch, {"openai": "bound to 10.0.0.1 only", "mcp": ""})
    kernel.table = WIDE
    await look_until(watch, {"openai": "", "mcp": ""})
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert 'event=service_bind_narrow service=openai port=8000 note="bound to 10.0.0.1 only"' in lines[0]
    assert "event=service_bind_widened service=openai port=8000" in lines[1]


async def test_a_port_that_nobody_ever_binds_is_said_once(
    kernel: Kernel, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = BindWatch({"openai": 8000}, tables=kernel.tables, clock=lambda: kernel.now, every_s=0.001)

    async def changed() -> None:
        pytest.fail("nothing listening is not a finding")

    task = asyncio.get_running_loop().create_task(watch.run(changed))
    await until(lambda: kernel.looks >= 3)
    assert capfd.readouterr().err == ""
    kernel.now = 600.0
    seen = kernel.looks
    await until(lambda: kernel.looks >= seen + 4)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    told = capfd.readouterr().err
    assert told.count("event=service_never_listened service=openai port=8000 waited_s=600") == 1
    assert told.count("\n") == 1


async def test_nothing_to_watch_ends_at_once(kernel: Kernel) -> None:
    async def changed() -> None: ...

    async with within():
        await BindWatch({}, tables=kernel.tables).run(changed)
    assert kernel.looks == 0


def test_this_box_has_tables() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert listening(read_tables())[server.getsockname()[1]] == ("127.0.0.1",)
