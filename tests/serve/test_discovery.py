"""Discovery as a whole: one daemon, one engine, one table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import until, within
from tests.support.ports import free_port
from tests.support.scripted import Line, answering, scripted
from tests.support.views import agent, group_view, view

from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.serve import discovery as module
from mentatd.serve.discovery import Discovery
from mentatd.serve.enginekey import EngineKey
from mentatd.settings import read_settings
from mentatd.wire.service import PortService

LISTING = b'{"object":"list","data":[{"id":"glm-5"}]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(LISTING), LISTING)


@asynccontextmanager
async def discovering(announce_port: int = 0, seed: str | None = None) -> AsyncIterator[Discovery]:
    """A daemon whose group `glm` serves `glm-5`, found by its seed, unless that is another."""
    async with scripted(answering(ANSWER)) as engine, ScriptedDaemon() as daemon:
        offered = agent("glm@c0@127.0.0.1", openai=PortService(engine.port, "/v1"))
        daemon.view = view("127.0.0.1", groups={"glm": group_view(offered)})
        seeds = {"MENTAT_DAEMONS": daemon.address if seed is None else seed}
        port = {"MENTAT_ANNOUNCE_PORT": str(announce_port)}
        pool = Pool()
        found = Discovery(read_settings(seeds | port), Client(pool), EngineKey(None))
        found.start()
        try:
            yield found
        finally:
            await found.close()
            await pool.close()


async def test_a_seed_leads_to_a_group_that_routes() -> None:
    async with discovering() as found:
        await until(lambda: found.cluster.table.models)
        assert list(found.groups()) == ["glm"]
        assert [daemon.connected for daemon in found.watches.daemons()] == [True]


async def test_a_change_of_this_boxs_networks_is_taken_in() -> None:
    async with discovering() as found:
        await until(lambda: found.cluster.table.models)
        before = found.cluster.changes.number
        found._networks_changed()
        async with within():
            await found.cluster.changes.after(before)
        assert found.cluster.table.models


async def test_the_first_look_is_over_when_daemons_and_endpoints_have_been_asked_once() -> None:
    async with discovering() as found, within():
        await found.first_look(asyncio.Event())
        assert list(found.cluster.table.models) == ["glm-5"]


async def test_what_cannot_be_reached_has_been_looked_at_too() -> None:
    async with discovering(seed=f"127.0.0.1:{free_port()}") as found, within():
        await found.first_look(asyncio.Event())
        (daemon,) = found.watches.daemons()
        assert daemon.error


async def test_who_answers_too_late_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LOOK_S", 0.05)
    async with (
        scripted(Line.closed) as silent,
        discovering(seed=f"127.0.0.1:{silent.port}") as found,
        within(),
    ):
        await found.first_look(asyncio.Event())
        (daemon,) = found.watches.daemons()
        assert (daemon.view, daemon.error) == (None, None)


async def test_the_first_look_ends_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LOOK_S", 1000.0)
    stop = asyncio.Event()
    async with (
        scripted(Line.closed) as silent,
        discovering(seed=f"127.0.0.1:{silent.port}") as found,
        within(),
    ):
        asyncio.get_running_loop().call_soon(stop.set)
        await found.first_look(stop)
        assert stop.is_set()


async def test_without_a_daemon_there_is_nothing_to_look_at() -> None:
    async with discovering(seed="") as found, within():
        await found.first_look(asyncio.Event())
        assert not found.watches.daemons()


async def test_it_listens_where_it_is_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    async with discovering(port):
        pass
    async with discovering(0):
        pass
    said = [line for line in capsys.readouterr().err.splitlines() if "event=announce_listen" in line]
    assert len(said) == 1
    assert f"port={port} " in said[0]


async def test_the_default_sources_are_those_that_it_allows() -> None:
    async with discovering() as found:
        assert found.allows("127.0.0.1")
        assert not found.allows("8.8.8.8")
