"""Lists of all groups: fetched at once, kept, paged, and never held up by one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

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
    serving,
)
from tests.support.clock import Clock
from tests.support.deadlines import within
from tests.support.ports import free_port

from mentatd.cluster.groups import Group
from mentatd.http.client import Client
from mentatd.serve.mcp import catalogue as module
from mentatd.serve.mcp.catalogue import Catalogue
from mentatd.serve.mcp.offers import PROMPTS, RESOURCES, TOOLS, Kind
from mentatd.serve.mcp.servers import Servers
from mentatd.tasks import Tasks

TTL_S = 60.0


class World:
    """A catalogue over groups that a test changes, on a clock that it moves."""

    def __init__(self, client: Client, seconds: float, *groups: Group) -> None:
        self.groups: tuple[Group, ...] = groups
        self.clock = Clock()
        self.servers = Servers(self.newest, client, seconds=seconds)
        self.catalogue = Catalogue(self.newest, self.servers, ttl_s=TTL_S, clock=self.clock)

    def newest(self) -> Mapping[str, Group]:
        return groups_of(*self.groups)()

    async def names(self, kind: Kind = TOOLS) -> list[str]:
        async with within():
            return [offer.public for offer in await self.catalogue.offers(kind)]


@asynccontextmanager
async def world(client: Client, *groups: Group, seconds: float = 10.0) -> AsyncIterator[World]:
    made = World(client, seconds, *groups)
    yield made
    await made.catalogue.close()
    await made.servers.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was logged since the last look."""
    return capsys.readouterr().err.splitlines()


async def test_the_lists_of_all_groups_in_the_order_of_their_names(client: Client) -> None:
    async with (
        serving(plain(["b", "a"])) as (_, one),
        serving(Stateful()) as (_, two),
        world(client, group_at("qwen", one.url), group_at("glm", two.url), group_at("none")) as w,
    ):
        assert await w.names() == ["glm__status", "qwen__b", "qwen__a"]


async def test_all_groups_are_asked_at_once(client: Client) -> None:
    everyone = asyncio.Barrier(3)

    async def together(asked: Asked) -> bytes:
        await everyone.wait()
        return result(asked, {"tools": [{"name": "a"}]})

    def answer(asked: Asked) -> Any:
        return together(asked) if asked.rpc == "tools/list" else error(asked, -32601)

    async with (
        serving(answer) as (_, server),
        world(client, *(group_at(name, server.url) for name in ("a", "b", "c"))) as w,
    ):
        assert await w.names() == ["a__a", "b__a", "c__a"]


async def test_a_list_is_kept_for_its_time(client: Client) -> None:
    async with (
        serving(plain(["a"])) as (stub, server),
        world(client, group_at("glm", server.url)) as w,
    ):
        for _ in range(3):
            assert await w.names() == ["glm__a"]
        assert stub.calls.count("tools/list") == 1
        stub.answer = plain(["b"])
        w.clock.now += TTL_S - 0.1
        assert await w.names() == ["glm__a"]
        w.clock.now += 0.2
        assert await w.names() == ["glm__b"]
    assert stub.calls.count("tools/list") == 2


async def test_a_list_is_kept_by_address(client: Client) -> None:
    async with (
        serving(plain(["a"])) as (_, one),
        serving(plain(["b"])) as (_, two),
        world(client, group_at("glm", one.url)) as w,
    ):
        assert await w.names() == ["glm__a"]
        w.groups = (group_at("glm", two.url),)
        assert await w.names() == ["glm__b"]


async def test_a_list_is_kept_while_its_address_is_among_the_candidates(client: Client) -> None:
    async with serving(plain(["a"])) as (stub, server):
        refusing = f"http://127.0.0.1:{free_port()}/mcp"
        async with world(client, group_at("glm", refusing, server.url)) as w:
            assert await w.names() == ["glm__a"]
            w.groups = (group_at("glm", server.url, refusing),)
            assert await w.names() == ["glm__a"]
    assert stub.calls.count("tools/list") == 1


async def test_each_kind_and_group_has_its_own_list(client: Client) -> None:
    def answer(asked: Asked) -> bytes:
        entries = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}
        if asked.rpc not in entries:
            return error(asked, -32601)
        return result(asked, {entries[asked.rpc]: [{"name": asked.rpc[0], "uri": "log:x"}]})

    async with (
        serving(answer) as (_, server),
        world(client, group_at("a", server.url), group_at("b", server.url)) as w,
    ):
        for _ in range(2):
            assert await w.names() == ["a__t", "b__t"]
            assert await w.names(RESOURCES) == ["mentat://a/log%3Ax", "mentat://b/log%3Ax"]
            assert await w.names(PROMPTS) == ["a__p", "b__p"]


async def test_an_empty_list_is_not_kept(client: Client) -> None:
    async with serving(plain([])) as (stub, server), world(client, group_at("glm", server.url)) as w:
        assert await w.names() == []
        stub.answer = plain(["a"])
        assert await w.names() == ["glm__a"]


async def test_a_failed_list_is_not_kept_and_logged_once(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        serving(plain(["a"])) as (_, good),
        serving(plain([])) as (bad, server),
        world(client, group_at("glm", server.url), group_at("qwen", good.url)) as w,
    ):
        bad.answer = lambda asked: http(500, b"no", "text/plain")
        for _ in range(3):
            assert await w.names() == ["qwen__a"]
        (line,) = lines(capsys)
        assert "event=mcp_tools_fetch_failed group=glm method=tools/list" in line
        assert "HTTP 500" in line
        bad.answer = plain(["b"])
        assert await w.names() == ["glm__b", "qwen__a"]
        w.clock.now += TTL_S
        bad.answer = lambda asked: http(503, b"no", "text/plain")
        assert await w.names() == ["qwen__a"]
        assert len(lines(capsys)) == 1


async def test_a_group_that_is_gone_is_logged_once_for_all_its_lists(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world(client, group_at("glm", f"http://127.0.0.1:{free_port()}/mcp")) as w:
        for kind in (TOOLS, RESOURCES, PROMPTS) * 2:
            assert await w.names(kind) == []
        (line,) = lines(capsys)
        assert "connection refused" in line
        w.groups = ()
        await w.names()
        w.groups = (group_at("glm", f"http://127.0.0.1:{free_port()}/mcp"),)
        await w.names()
        assert len(lines(capsys)) == 1


async def test_failing_tools_are_logged_whatever_else_fails(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = Stateful()
    sessions.capabilities = {"tools": {}, "prompts": {}}
    async with serving(sessions) as (stub, server), world(client, group_at("glm", server.url)) as w:
        stub.answer = lambda asked: error(asked, -5) if asked.rpc == "prompts/list" else sessions(asked)
        assert await w.names(PROMPTS) == []
        assert await w.names() == ["glm__status"]
        w.clock.now += TTL_S
        stub.answer = lambda asked: error(asked, -6, "broken")
        assert await w.names() == []
    first, second = lines(capsys)
    assert "method=prompts/list" in first
    assert "method=tools/list" in second
    assert "broken" in second


@pytest.mark.parametrize(
    "answer", [never, lambda asked: never(asked) if asked.rpc == "tools/list" else error(asked, -1)]
)
async def test_a_slow_group_leaves_the_others_on_time(
    client: Client,
    answer: Callable[[Asked], Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "FETCH_S", 0.2)
    async with (
        serving(answer) as (stub, slow),
        serving(plain(["a"])) as (_, good),
        world(client, group_at("glm", slow.url), group_at("qwen", good.url), seconds=100) as w,
        within(5),
    ):
        assert await w.names() == ["qwen__a"]
        await stub.left.wait()
    (line,) = lines(capsys)
    assert "no answer within 0.2 s" in line


async def test_a_fetch_takes_no_longer_than_a_call_may(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(never) as (_, slow), world(client, group_at("glm", slow.url), seconds=0.1) as w:
        assert await w.names() == []
    assert "no answer within 0.1 s" in lines(capsys)[0]


async def test_two_callers_share_a_fetch_and_one_may_leave(client: Client) -> None:
    go_on, callers, staying = asyncio.Event(), Tasks("callers"), Tasks("staying")

    async def slow(asked: Asked) -> bytes:
        await go_on.wait()
        return result(asked, {"tools": [{"name": "a"}]})

    def answer(asked: Asked) -> Any:
        return slow(asked) if asked.rpc == "tools/list" else error(asked, -32601)

    async with serving(answer) as (stub, server), world(client, group_at("glm", server.url)) as w:
        callers.start(w.names(), "first")
        second = staying.start(w.names(), "second")
        while "tools/list" not in stub.calls:
            stub.arrived.clear()
            await stub.arrived.wait()
        await callers.close()
        go_on.set()
        assert await second == ["glm__a"]
    assert stub.calls.count("tools/list") == 1


async def test_a_group_that_moves_does_not_wait_for_where_it_was(client: Client) -> None:
    callers = Tasks("callers")
    async with (
        serving(never) as (stub, old),
        serving(plain(["a"])) as (_, new),
        world(client, group_at("glm", old.url)) as w,
    ):
        callers.start(w.names(), "list")
        await stub.arrived.wait()
        w.groups = (group_at("glm", new.url),)
        assert await w.names() == ["glm__a"]
        await callers.close()


async def test_closing_ends_a_fetch(client: Client) -> None:
    callers = Tasks("callers")
    async with serving(never) as (stub, server), world(client, group_at("glm", server.url)) as w:
        callers.start(w.names(), "list")
        await stub.arrived.wait()
        async with within():
            await w.catalogue.close()
            await stub.left.wait()
        await callers.close()


# -- pages


def paged(pages: Mapping[str | None, tuple[list[str], Any]]) -> Callable[[Asked], bytes]:
    """A responder whose page at a cursor holds these tools and names the next cursor."""

    def answer(asked: Asked) -> bytes:
        if asked.rpc != "tools/list":
            return error(asked, -32601)
        names, cursor = pages[asked.message["params"].get("cursor")]
        return result(asked, {"tools": [{"name": name} for name in names], "nextCursor": cursor})

    return answer


async def test_a_list_in_pages_is_read_whole(client: Client) -> None:
    pages = {None: (["a", "b"], "é 2"), "é 2": (["c", "a"], "3"), "3": (["d"], None)}
    async with serving(paged(pages)) as (_, server), world(client, group_at("glm", server.url)) as w:
        assert await w.names() == ["glm__a", "glm__b", "glm__c", "glm__d"]


async def test_of_two_entries_with_one_name_the_first_counts(client: Client) -> None:
    tools = [{"name": "a", "title": "first"}, {"name": "a", "title": "second"}]

    def answer(asked: Asked) -> bytes:
        return result(asked, {"tools": tools}) if asked.rpc == "tools/list" else error(asked, -32601)

    async with serving(answer) as (_, server), world(client, group_at("glm", server.url)) as w:
        (offer,) = await w.catalogue.offers(TOOLS)
    assert b'"first"' in offer.json


async def test_pages_come_from_one_address(client: Client) -> None:
    async with (
        serving(paged({None: (["a"], "2"), "2": (["b"], None)})) as (_, one),
        serving(paged({None: (["x"], None)})) as (other, two),
        world(client, group_at("glm", one.url, two.url)) as w,
    ):
        assert await w.names() == ["glm__a", "glm__b"]
    assert not other.asked


async def test_a_list_without_end_is_cut_off(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "MAX_PAGES", 3)
    pages: dict[str | None, tuple[list[str], Any]] = {None: (["a"], "again"), "again": (["b"], "again")}
    async with serving(paged(pages)) as (stub, server), world(client, group_at("glm", server.url)) as w:
        assert await w.names() == ["glm__a", "glm__b"]
    assert stub.calls.count("tools/list") == 3
    assert "event=mcp_entry_skipped group=glm" in lines(capsys)[0]


async def test_a_list_is_bounded_over_all_its_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "MAX_LIST", 200)
    pages: dict[str | None, tuple[list[str], Any]] = {None: (["a" * 60], "2"), "2": (["b" * 60], "2")}
    async with serving(paged(pages)) as (_, server), world(client, group_at("glm", server.url)) as w:
        assert await w.names() == []
    assert "a list of over 200 bytes" in lines(capsys)[0]


# -- what servers of other kinds answer


async def test_an_entry_that_is_left_out_is_logged_once(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    entries: list[Any] = [{"name": "a"}, {"name": 5}, 7]

    def answer(asked: Asked) -> bytes:
        return result(asked, {"tools": entries}) if asked.rpc == "tools/list" else error(asked, -32601)

    async with serving(answer) as (_, server), world(client, group_at("glm", server.url)) as w:
        for _ in range(2):
            assert await w.names() == ["glm__a"]
            w.clock.now += TTL_S
        (line,) = lines(capsys)
        assert "event=mcp_entry_skipped group=glm" in line
        assert "tools[1]" in line
        entries.insert(0, 8)
        assert await w.names() == ["glm__a"]
        assert len(lines(capsys)) == 1


async def test_a_server_is_not_asked_for_what_it_says_it_has_not(client: Client) -> None:
    async with serving(Stateful()) as (stub, server), world(client, group_at("glm", server.url)) as w:
        assert await w.names(PROMPTS) == []
        assert "prompts/list" not in stub.calls


async def test_tools_are_asked_for_whatever_was_said(client: Client) -> None:
    sessions = Stateful()
    sessions.capabilities = {}
    async with serving(sessions) as (_, server), world(client, group_at("glm", server.url)) as w:
        assert await w.names() == ["glm__status"]


@pytest.mark.parametrize(
    "unknown", [http(404, b"no", "text/plain"), http(200, b'{"error":"unknown method"}')]
)
async def test_a_responder_that_said_nothing_has_no_more_than_it_answers(
    client: Client, unknown: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(plain([])) as (stub, server), world(client, group_at("glm", server.url)) as w:
        stub.answer = lambda asked: unknown
        assert await w.names(PROMPTS) == []
        assert await w.names(RESOURCES) == []
        assert not lines(capsys)


@pytest.mark.parametrize("garbage", [[], "tools", {"tools": {"a": 1}}, {"tools": None}])
async def test_garbage_costs_one_group_its_list(
    client: Client, garbage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(asked: Asked) -> bytes:
        return result(asked, garbage) if asked.rpc == "tools/list" else error(asked, -32601)

    async with (
        serving(answer) as (_, bad),
        serving(plain(["a"])) as (_, good),
        world(client, group_at("glm", bad.url), group_at("qwen", good.url)) as w,
    ):
        assert await w.names() == ["qwen__a"]
    assert len(lines(capsys)) == 1


async def test_a_crash_costs_one_group_its_list(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        serving(plain(["a"])) as (_, server),
        world(client, group_at("glm", server.url), group_at("qwen", server.url)) as w,
    ):
        use = w.servers.use

        async def crash(group: Group, *args: Any, **more: Any) -> Any:
            if group.name == "glm":
                raise ZeroDivisionError
            return await use(group, *args, **more)

        monkeypatch.setattr(w.servers, "use", crash)
        assert await w.names() == ["qwen__a"]
    assert "ZeroDivisionError" in lines(capsys)[0]


# -- coded names


async def test_a_coded_name_is_found_again(client: Client) -> None:
    async with (
        serving(plain(["gpu temp", "gpu_temp"])) as (stub, server),
        serving(never) as (hanging, slow),
        world(client, group_at("glm", server.url), group_at("qwen", slow.url)) as w,
    ):
        w.groups = w.groups[:1]
        coded, plain_name = await w.names()
        assert plain_name == "glm__gpu_temp"
        async with world(client, *w.groups, group_at("qwen", slow.url)) as fresh:
            assert await fresh.catalogue.find(TOOLS, coded) == ("glm", "gpu temp")
            assert await fresh.catalogue.find(PROMPTS, coded) is None
            assert await fresh.catalogue.find(TOOLS, "glm__x-0123456789ab") is None
        w.clock.now += TTL_S
        stub.answer = lambda asked: http(500)
        assert await w.catalogue.find(TOOLS, coded) == ("glm", "gpu temp")
        w.groups = ()
        await w.names()
        assert await w.catalogue.find(TOOLS, coded) is None
    assert not hanging.asked
