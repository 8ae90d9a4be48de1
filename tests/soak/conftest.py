"""A router in this process, which is measured, between engines and clients in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import within
from tests.support.views import agent, group_view, view

from mentatd.serve.app import Router
from mentatd.settings import read_settings
from mentatd.wire.service import PortService

REST_S = 8.0
ROOT = Path(__file__).parent.parent.parent
SETTINGS = {
    "SERVE_PORT": "0", "MENTAT_ANNOUNCE_PORT": "0", "PROBE_INTERVAL_S": "3600", "PROBE_TIMEOUT_S": "5",
    "PROBE_FRESH_S": "7200", "SSE_KEEPALIVE_S": "0.5", "SERVING_TIMEOUT_S": "10", "CLIENT_TIMEOUT_S": "10",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("soak")
            item.add_marker(pytest.mark.timeout(600))


@dataclass(frozen=True, slots=True)
class Measure:
    """What a router holds at one moment."""

    tasks: int
    descriptors: int
    """Of both sides' connections too."""
    resident: int = field(compare=False)
    """Bytes of memory."""


class Bench:
    """The running router."""

    def __init__(self, router: Router, engines: asyncio.subprocess.Process) -> None:
        self.router = router
        self._engines = engines

    async def clients(self, manner: str, amount: int) -> Any:
        """Let clients do their work; what they tell of it."""
        process = await _run("tests.soak.clients", manner, str(self.router.port), str(amount))
        told, _ = await process.communicate(b"")
        assert process.returncode == 0
        return json.loads(told)

    async def engines_told(self) -> Any:
        """How often each engine got the same request at most; ends the engines."""
        told, _ = await self._engines.communicate(b"")
        return json.loads(told)

    async def get(self, path: str) -> Any:
        """One of the router's documents."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.router.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    def measure(self) -> Measure:
        return Measure(
            tasks=len(asyncio.all_tasks()),
            descriptors=len(os.listdir("/proc/self/fd")),
            resident=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        )

    async def at_rest(self) -> Measure:
        """Once nothing is under way. A poll of the daemon holds a connection for a moment, so the least is taken."""
        async with within(30.0):
            while (await self.get("/stats.json"))["in_flight"]:
                await asyncio.sleep(0.1)
        # idle connections, and readings of the engines' figures, last for seconds after the last request
        await asyncio.sleep(REST_S)
        seen = []
        for _ in range(50):
            seen.append(self.measure())
            await asyncio.sleep(0.02)
        return min(seen, key=lambda measure: (measure.descriptors, measure.tasks))


async def _run(module: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


@pytest.fixture
async def bench(capfd: pytest.CaptureFixture[str]) -> AsyncIterator[Bench]:
    """A router in front of every engine of `tests.soak.engines`, all of them admitted."""
    engines = await _run("tests.soak.engines")
    assert engines.stdout is not None
    ports: dict[str, int] = json.loads(await engines.stdout.readline())
    groups = {
        name: group_view(agent(f"{name}@c0@127.0.0.1", openai=PortService(port, "/v1")))
        for name, port in ports.items()
    }
    async with ScriptedDaemon(view("127.0.0.1", groups=groups)) as daemon:
        router = Router(read_settings(SETTINGS | {"MENTAT_DAEMONS": daemon.address}))
        await router.start(asyncio.Event())
        try:
            bench = Bench(router, engines)
            async with within():
                while len((await bench.get("/v1/models"))["data"]) < len(ports):
                    await asyncio.sleep(0.1)
            yield bench
        finally:
            await router.close()
            if engines.returncode is None:
                await engines.communicate(b"")
