"""Which of a group's addresses takes a call, within which time, and how long a session is kept."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from tests.serve.mcp.stub import (
    Asked,
    Stateful,
    error,
    group_at,
    groups_of,
    http,
    never,
    plain,
    result,
    said,
    serving,
)
from tests.support.deadlines import until, within
from tests.support.ports import free_port

from mentatd.cluster.groups import Group
from mentatd.errors import MentatError, UpstreamBroken
from mentatd.http.client import Client
from mentatd.serve.mcp.reading import GroupFailed
from mentatd.serve.mcp.servers import Servers
from mentatd.tasks import Tasks
from mentatd.wire.jsonrpc import Failure


@asynccontextmanager
async def servers_of(client: Client, *groups: Group, seconds: float = 10.0) -> AsyncIterator[Servers]:
    servers = Servers(groups_of(*groups), client, seconds=seconds)
    yield servers
    await servers.close()


async def call(
    servers: Servers, group: Group, name: str = "status", seconds: float | None = None
) -> bytes | Failure:
    async with within():
        outcome = await servers.use(
            group, lambda server: server.call("tools/call", b'{"name":"%b"}' % name.encode()), seconds=seconds
        )
    return outcome.answer


@contextmanager
def swallowing() -> Iterator[str]:
    """An address that lets nobody in and refuses nobody: its backlog is full."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filling in first, second:
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


def refusing() -> str:
    return f"http://127.0.0.1:{free_port()}/mcp"


async def test_the_best_address_takes_every_call(client: Client) -> None:
    async with serving(plain([])) as (best, one), serving(plain([])) as (other, two):
        group = group_at("glm", one.url, two.url)
        async with servers_of(client, group) as servers:
            for _ in range(3):
                answer = await call(servers, group)
                assert isinstance(answer, bytes)
                assert json.loads(answer) == said("status")
    assert best.calls == ["initialize", "tools/call", "tools/call", "tools/call"]
    assert not other.asked


async def test_an_address_that_refuses_the_connection_is_passed_over(client: Client) -> None:
    async with serving(plain([])) as (stub, server):
        group = group_at("glm", refusing(), server.url)
        async with servers_of(client, group) as servers:
            await call(servers, group)
            await call(servers, group)
    assert stub.calls == ["initialize", "tools/call", "tools/call"]


async def test_an_address_that_swallows_packets_does_not_take_the_whole_deadline(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mentatd.serve.mcp.session.CONNECT_S", 0.1)
    with swallowing() as dead:
        async with serving(plain([])) as (stub, server):
            group = group_at("glm", dead, server.url)
            async with servers_of(client, group, seconds=9) as servers:
                await call(servers, group)
    assert stub.calls == ["initialize", "tools/call"]


async def test_all_addresses_that_were_tried_are_named(client: Client) -> None:
    first, second = refusing(), refusing()
    group = group_at("glm", first, second)
    async with servers_of(client, group) as servers:
        with pytest.raises(GroupFailed) as failed:
            await call(servers, group)
    origins = (url.removesuffix("/mcp") for url in (first, second))
    assert str(failed.value) == "; ".join(f"{origin}: connection refused" for origin in origins)


async def test_a_group_without_an_address(client: Client) -> None:
    group = group_at("glm")
    async with servers_of(client, group) as servers:
        with pytest.raises(GroupFailed, match="no address of its node passes ALLOWED_SOURCES"):
            await call(servers, group)


async def test_an_answer_of_any_kind_is_the_last_word(client: Client) -> None:
    """Whatever was sent may have run: no other address gets it."""

    def cut(asked: object) -> bytes:
        raise EOFError

    for broken, failure in (
        (lambda asked: http(503, b"no", "text/plain"), GroupFailed),
        (cut, UpstreamBroken),
    ):
        async with serving(broken) as (_, one), serving(plain([])) as (other, two):
            group = group_at("glm", one.url, two.url)
            async with servers_of(client, group) as servers:
                with pytest.raises(failure):
                    await call(servers, group)
            assert not other.asked
    async with (
        serving(plain([], lambda asked: error(asked, -5))) as (_, one),
        serving(plain([])) as (other, two),
    ):
        group = group_at("glm", one.url, two.url)
        async with servers_of(client, group) as servers:
            assert isinstance(await call(servers, group), Failure)
        assert not other.asked


@pytest.mark.parametrize(("seconds", "limit"), [(None, "0.2"), (0.1, "0.1"), (9, "0.2")])
async def test_one_deadline_covers_it_all(client: Client, seconds: float | None, limit: str) -> None:
    async with serving(never) as (_, server):
        refused = refusing()
        group = group_at("glm", refused, server.url)
        async with servers_of(client, group, seconds=0.2) as servers:
            with pytest.raises(MentatError) as failed:
                await call(servers, group, seconds=seconds)
        assert str(failed.value).startswith(
            f"{refused.removesuffix('/mcp')}: connection refused; {server.url}: "
        )
        assert str(failed.value).endswith(f"no answer within {limit} s")


async def test_sessions_are_kept_by_group_and_closed_at_the_end(client: Client) -> None:
    one, two = Stateful(), Stateful()
    async with serving(one) as (_, first), serving(two) as (_, second):
        glm, qwen = group_at("glm", first.url), group_at("qwen", second.url)
        twin = group_at("twin", first.url)
        async with servers_of(client, glm, qwen, twin) as servers:
            for group in glm, qwen, twin, glm, qwen, twin:
                await call(servers, group)
            assert (one.sessions, two.sessions) == (["session-1", "session-2"], ["session-1"])
        assert (sorted(one.ended), two.ended) == (["session-1", "session-2"], ["session-1"])


async def test_a_server_that_hangs_does_not_hold_up_the_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mentatd.serve.mcp.session._TELL_S", 0.05)
    sessions = Stateful()
    async with serving(lambda asked: never(asked) if asked.rpc == "DELETE" else sessions(asked)) as (
        _,
        server,
    ):
        group = group_at("glm", server.url)
        servers = Servers(groups_of(group), client, seconds=10)
        await call(servers, group)
        async with within(2):
            await servers.close()


class Moving:
    """Groups that a test changes."""

    def __init__(self, *groups: Group) -> None:
        self.groups = groups

    def __call__(self) -> dict[str, Group]:
        return groups_of(*self.groups)()


async def test_the_session_of_a_group_that_is_gone_is_closed(client: Client) -> None:
    sessions = Stateful()
    async with serving(sessions) as (_, first), serving(plain([])) as (_, second):
        glm, qwen = group_at("glm", first.url), group_at("qwen", second.url)
        groups = Moving(glm)
        servers = Servers(groups, client, seconds=10)
        await call(servers, glm)
        groups.groups = (qwen,)
        await call(servers, qwen)
        await until(lambda: sessions.ended)
        await servers.close()
    assert sessions.ended == ["session-1"]


async def test_a_session_in_use_outlives_its_group(client: Client) -> None:
    go_on = asyncio.Event()

    async def slow(asked: Asked) -> bytes:
        await go_on.wait()
        return result(asked, said("done"))

    sessions, callers = Stateful(slow), Tasks("callers")
    async with serving(sessions) as (stub, first), serving(plain([])) as (_, second):
        glm, qwen = group_at("glm", first.url), group_at("qwen", second.url)
        groups = Moving(glm)
        servers = Servers(groups, client, seconds=10)
        waiting = callers.start(call(servers, glm), "slow")
        await until(lambda: "tools/call" in stub.calls)
        groups.groups = (qwen,)
        await call(servers, qwen)
        assert not sessions.ended
        go_on.set()
        assert json.loads(await waiting) == said("done")
        await servers.close()
    assert sessions.ended == ["session-1"]
