"""A lite daemon put together."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.lite.samples import SETTINGS, agent
from tests.support.deadlines import DEADLINE_S, until
from tests.support.leaks import leaked_sockets, open_sockets

from mentatd.errors import SettingsError
from mentatd.link import dial
from mentatd.lite import app
from mentatd.lite.interfaces import Interface
from mentatd.lite.settings import Lifetimes, LiteSettings, Pattern
from mentatd.lite.state import Address
from mentatd.wire.messages import AgentRegisterOk

QUIET = replace(SETTINGS, announce_port=0, announce_interval_s=0.01)


@asynccontextmanager
async def running(settings: LiteSettings, capfd: pytest.CaptureFixture[str]) -> AsyncIterator[dict[str, str]]:
    """The fields of its `lite_up` line."""
    task = asyncio.get_running_loop().create_task(app.run(settings))
    said = ""

    def up() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "event=lite_up" in said or task.done()

    try:
        await until(up)
        (line,) = [line for line in said.splitlines() if "event=lite_up" in line]
        yield dict(re.findall(r"(\w+)=(\S+)", line))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def status(port: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    writer.write(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    await writer.wait_closed()
    document = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert isinstance(document, dict)
    return document


async def test_on_one_address(capfd: pytest.CaptureFixture[str]) -> None:
    async with running(QUIET, capfd) as up:
        assert up["node_ip"] == "127.0.0.1"
        document = await status(up["http"])
        assert document["node_id"] == up["node"]
        assert document["gcs_address"] == f"127.0.0.1:{up['control']}"


async def test_on_every_address_it_announces_those_of_its_interfaces(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wired = [Interface("eth0", "10.0.0.1", ""), Interface("eth1", "192.168.1.11", "")]
    monkeypatch.setattr(app, "read_interfaces", lambda _patterns: tuple(wired))
    monkeypatch.setattr(app, "default_address", lambda: "10.0.0.1")
    async with running(replace(QUIET, bind=""), capfd) as up:
        assert up["node_ip"] == "10.0.0.1"
        assert (await status(up["http"]))["addrs"] == ["10.0.0.1", "192.168.1.11"]
        wired.pop(0)
        seen = ""
        async with asyncio.timeout(DEADLINE_S):
            while "event=addrs_changed why=192.168.1.11" not in seen:
                await asyncio.sleep(0.005)
                seen += capfd.readouterr().err
        assert (await status(up["http"]))["addrs"] == ["192.168.1.11"]


WIRED = [Interface("eth0", "10.0.0.1", "", ("rdma",)), Interface("eth1", "192.168.1.11", "")]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, [Address("10.0.0.1", "eth0", ("rdma",)), Address("192.168.1.11", "eth1")]),
        ({"bind": "10.0.0.1"}, [Address("10.0.0.1", "eth0", ("rdma",))]),
        ({"bind": "127.0.0.2"}, [Address("127.0.0.2")]),
        ({"bind": "10.0.0.1", "addrs": (Address("9.9.9.9"),)}, [Address("9.9.9.9")]),
    ],
)
def test_which_addresses_are_announced(changed: dict[str, Any], found: list[Address]) -> None:
    assert list(app.addresses(replace(SETTINGS, **({"bind": ""} | changed)), WIRED)) == found


async def test_the_operators_patterns_reach_the_interfaces(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(patterns: Sequence[Pattern]) -> tuple[Interface, ...]:
        return tuple(Interface("lo", "127.0.0.1", "", pattern.tags) for pattern in patterns)

    monkeypatch.setattr(app, "read_interfaces", read)
    async with running(replace(QUIET, ifaces=(Pattern("lo", ("fast",)),)), capfd) as up:
        assert (await status(up["http"]))["addr_tags"] == {"127.0.0.1": ["fast"]}


async def test_two_of_them_join(capfd: pytest.CaptureFixture[str]) -> None:
    async with running(replace(QUIET, node_ip="127.0.0.2"), capfd) as first:
        seeded = replace(QUIET, peers=(("127.0.0.1", int(first["control"])),))
        async with running(seeded, capfd) as second:
            async with asyncio.timeout(DEADLINE_S):
                while not (await status(first["http"]))["peers"]:
                    await asyncio.sleep(0.005)
            assert set(await peers(first["http"])) == {second["node"]}
            assert set(await peers(second["http"])) == {first["node"]}
        (left,) = (await peers(first["http"])).values()
        assert not left["alive"]


async def peers(port: str) -> dict[str, Any]:
    found: dict[str, Any] = (await status(port))["peers"]
    return found


async def test_no_published_daemon_makes_it_its_head(capfd: pytest.CaptureFixture[str]) -> None:
    """Theirs are hexadecimal, and the lowest is the head, unless a snapshot names another."""
    async with running(QUIET, capfd) as up:
        assert up["node"] > "f" * 56
        assert (await status(up["http"]))["head_node_id"] == ""


async def test_a_lost_agent_is_forgotten_after_its_time(capfd: pytest.CaptureFixture[str]) -> None:
    async with running(replace(QUIET, lifetimes=Lifetimes(history_keep_ms=1)), capfd) as up:
        link = await dial("127.0.0.1", int(up["control"]), DEADLINE_S)
        await link.send(agent())
        assert isinstance(await link.receive(DEADLINE_S), AgentRegisterOk)
        await link.close()
        seen = ""
        async with asyncio.timeout(DEADLINE_S):
            while "event=agent_swept group=glm" not in seen:
                await asyncio.sleep(0.005)
                seen += capfd.readouterr().err
        assert (await status(up["http"]))["groups"] == {}


@pytest.mark.parametrize("taken", ["port", "http_port"])
async def test_a_port_in_use_leaves_nothing_open(taken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        before = open_sockets()
        with pytest.raises(SettingsError, match="cannot listen on port"):
            await app.run(replace(QUIET, **{taken: other.getsockname()[1]}))
        assert leaked_sockets(before) == []
