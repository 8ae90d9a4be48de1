"""The merged server, call by call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.mcp.stub import (
    Asked,
    Stateful,
    Stub,
    error,
    group_at,
    groups_of,
    http,
    never,
    plain,
    result,
    serving,
)
from tests.support.deadlines import within
from tests.support.ports import free_port

from mentatd import __version__
from mentatd.cluster.groups import Group
from mentatd.http.client import Client
from mentatd.serve.mcp.catalogue import Catalogue
from mentatd.serve.mcp.merge import NATIVE, VERSIONS, Merge
from mentatd.serve.mcp.servers import Servers
from mentatd.wire.jsonrpc import Call

STATUS = {"groups": {"glm": {"why_not": 'no "running" actors é'}}}


class Endpoint:
    """The merge, asked as a client asks it."""

    def __init__(self, merge: Merge) -> None:
        self.merge = merge

    async def message(self, method: str, params: str = "{}", id_: str = "1") -> dict[str, Any]:
        """The whole answer."""
        async with within():
            answer = await self.merge.answer(Call(id_.encode(), method, params.encode()))
        decoded = json.loads(answer)
        assert isinstance(decoded, dict)
        return decoded

    async def result(self, method: str, **params: Any) -> Any:
        return (await self.message(method, json.dumps(params)))["result"]

    async def error(self, method: str, **params: Any) -> Any:
        return (await self.message(method, json.dumps(params)))["error"]

    async def failed(self, name: str, **params: Any) -> str:
        """The text of a tool's failed result."""
        failed = await self.result("tools/call", name=name, **params)
        assert failed["isError"] is True
        (content,) = failed["content"]
        assert content["type"] == "text"
        return str(content["text"])


@asynccontextmanager
async def merged(client: Client, *groups: Group, seconds: float = 10.0) -> AsyncIterator[Endpoint]:
    known = groups_of(*groups)
    servers = Servers(known, client, seconds=seconds)
    catalogue = Catalogue(known, servers, ttl_s=60)
    status = json.dumps(STATUS, ensure_ascii=False).encode()
    yield Endpoint(Merge(known, servers, catalogue, lambda: status))
    await catalogue.close()
    await servers.close()


@asynccontextmanager
async def one_group(client: Client, answer: Any, name: str = "glm") -> AsyncIterator[tuple[Endpoint, Stub]]:
    async with serving(answer) as (stub, server), merged(client, group_at(name, server.url)) as endpoint:
        yield endpoint, stub


# -- the protocol


@pytest.mark.parametrize("asked", VERSIONS)
async def test_each_version_is_spoken(client: Client, asked: str) -> None:
    async with merged(client) as endpoint:
        hello = await endpoint.result("initialize", protocolVersion=asked, capabilities={}, clientInfo={})
    assert hello["protocolVersion"] == asked
    assert hello["capabilities"] == {"tools": {}, "resources": {}, "prompts": {}}
    assert hello["serverInfo"]["name"] == "mentatd-serve"
    assert hello["serverInfo"]["version"] == __version__
    assert NATIVE in hello["instructions"]


@pytest.mark.parametrize("asked", ["2024-10-07", "2026-07-28", "", None, 5])
async def test_another_version_is_answered_with_the_newest(client: Client, asked: Any) -> None:
    async with merged(client) as endpoint:
        hello = await endpoint.result("initialize", protocolVersion=asked)
    assert VERSIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    assert hello["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("id_", ["0", "-1", "1.50", '"a"', "null", "[1]", '{"a":1}', "true", "9" * 30])
async def test_an_answer_has_the_id_of_its_call(client: Client, id_: str) -> None:
    async with merged(client) as endpoint:
        for method in "ping", "no/method":
            answer = await endpoint.merge.answer(Call(id_.encode(), method, b"{}"))
            assert answer.startswith(b'{"jsonrpc":"2.0","id":%b,' % id_.encode())


async def test_ping(client: Client) -> None:
    async with merged(client) as endpoint:
        assert await endpoint.message("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    "method", ["server/discover", "logging/setLevel", "", "tools", "resources/subscribe"]
)
async def test_unknown_methods(client: Client, method: str) -> None:
    async with merged(client) as endpoint:
        assert (await endpoint.error(method))["code"] == -32601


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", "{}"),
        ("tools/call", '{"name":5}'),
        ("tools/call", '{"name":""}'),
        ("tools/call", '{"name":"glm__status","arguments":[]}'),
        ("tools/call", '{"name":"glm__status","arguments":"a"}'),
        ("tools/call", '{"name":"glm__status","arguments":null}'),
        ("tools/call", '{"name":"serve_status","arguments":5}'),
        ("resources/read", "{}"),
        ("prompts/get", '{"name":[]}'),
        ("tools/list", '{"a":"%s"}' % ("x" * 70_000)),
    ],
)
async def test_bad_parameters(client: Client, method: str, params: str) -> None:
    async with one_group(client, plain(["status"])) as (endpoint, stub):
        answer = await endpoint.message(method, params)
    assert answer["error"]["code"] == -32602
    assert not stub.asked


# -- tools


async def test_tools_are_listed_with_their_groups_name(client: Client) -> None:
    tool = {
        "name": "status",
        "title": "Status",
        "description": "d",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "data:,"}],
    }

    def answer(asked: Asked) -> bytes:
        return result(asked, {"tools": [tool]}) if asked.rpc == "tools/list" else error(asked, -32601)

    async with (
        serving(answer) as (_, one),
        serving(Stateful()) as (_, two),
        merged(client, group_at("qwen", one.url), group_at("glm", two.url)) as endpoint,
    ):
        native, glm, qwen = (await endpoint.result("tools/list"))["tools"]
    assert native["name"] == NATIVE
    assert native["inputSchema"]["type"] == "object"
    assert glm["name"] == "glm__status"
    assert qwen == {**tool, "name": "qwen__status"}


async def test_a_call_goes_to_its_group_without_the_prefix(client: Client) -> None:
    params = {
        "name": "glm__status",
        "arguments": {"a": [1, None]},
        "_meta": {"progressToken": 7, "x/y": 1},
        "task": {},
    }
    async with one_group(client, plain(["status"])) as (endpoint, stub):
        called = await endpoint.result("tools/call", **params)
    assert called["content"] == [{"type": "text", "text": "status"}]
    (call,) = (asked for asked in stub.asked if asked.rpc == "tools/call")
    assert call.message["params"] == {**params, "name": "status"}


async def test_a_call_needs_no_arguments(client: Client) -> None:
    async with one_group(client, plain(["status"])) as (endpoint, stub):
        await endpoint.result("tools/call", name="glm__status")
    assert stub.asked[-1].message["params"] == {"name": "status"}


@pytest.mark.parametrize(
    ("group", "tool"),
    [
        ("a", "b__c"),
        ("a__b", "c"),
        ("a", "_b"),
        ("a_", "b"),
        ("modèle x", "température"),
        ("g" * 80, "t" * 80),
        ("glm", "x-0123456789ab"),
    ],
)
async def test_every_listed_name_is_mapped_back(client: Client, group: str, tool: str) -> None:
    async with one_group(client, plain([tool]), group) as (endpoint, _):
        _, listed = (await endpoint.result("tools/list"))["tools"]
        called = await endpoint.result("tools/call", name=listed["name"])
    async with one_group(client, plain([tool]), group) as (endpoint, _):
        assert await endpoint.result("tools/call", name=listed["name"]) == called
    assert called["content"][0]["text"] == tool


async def test_groups_and_tools_with_the_separator_do_not_meet(client: Client) -> None:
    async with (
        serving(plain(["b__c"])) as (_, one),
        serving(plain(["c"])) as (_, two),
        merged(client, group_at("a", one.url), group_at("a__b", two.url)) as endpoint,
    ):
        _, first, second = (await endpoint.result("tools/list"))["tools"]
        assert first["name"] != second["name"]
        texts = [
            (await endpoint.result("tools/call", name=tool["name"]))["content"][0]["text"]
            for tool in (first, second)
        ]
    assert texts == ["b__c", "c"]


@pytest.mark.parametrize(
    "value",
    [
        {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
        {"content": [], "structuredContent": {"a": [1, None]}, "_meta": {"x": 1}, "isError": False},
        {"content": [{"type": "text", "text": "broken"}], "isError": True},
        {"content": [{"type": "resource", "resource": {"uri": "log://x", "text": "é"}}]},
    ],
)
async def test_results_pass_whole(client: Client, value: dict[str, Any]) -> None:
    async with one_group(client, plain([], lambda asked: result(asked, value))) as (endpoint, _):
        assert await endpoint.result("tools/call", name="glm__status") == value


async def test_errors_pass_whole(client: Client) -> None:
    body = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"bad","data":{"a":1}}}'
    async with one_group(client, plain([], lambda asked: http(200, body % asked.id))) as (endpoint, _):
        failed = await endpoint.error("tools/call", name="glm__status")
    assert failed == {"code": -32602, "message": "bad", "data": {"a": 1}}


@pytest.mark.parametrize("name", ["status", "qwen__status", "glm__", "__status", "none__x-0123456789ab"])
async def test_an_unknown_tool_is_a_failed_result(client: Client, name: str) -> None:
    async with one_group(client, plain(["status"])) as (endpoint, stub):
        assert name in await endpoint.failed(name)
    assert "tools/call" not in stub.calls


async def test_a_group_without_mcp_has_no_tools(client: Client) -> None:
    async with merged(client, group_at("glm")) as endpoint:
        assert "unknown tool" in await endpoint.failed("glm__status")


async def test_a_group_that_cannot_be_reached_is_a_failed_result(client: Client) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with merged(client, group_at("glm", url)) as endpoint:
        assert await endpoint.failed("glm__status") == f"group glm: {url}: connection refused"


async def test_a_group_that_is_too_slow_is_a_failed_result(client: Client) -> None:
    async with (
        serving(plain([], never)) as (_, server),
        merged(client, group_at("glm", server.url), seconds=0.2) as endpoint,
    ):
        assert await endpoint.failed("glm__status") == f"group glm: {server.url}: no answer within 0.2 s"


@pytest.mark.parametrize(
    "garbage",
    [
        http(200, b"<html>", "text/html"),
        http(500, b"no", "text/plain"),
        http(200, b'{"jsonrpc":"2.0","id":2,"result":{}}'),
        http(200, b'{"jsonrpc":"2.0","id":2,"result":{"content":"text"}}'),
        http(200, b'{"jsonrpc":"2.0","id":2,"result":[]}'),
        http(200, b'{"jsonrpc":"2.0","id":2,"result":{"content":[NaN]}}'),
    ],
)
async def test_garbage_is_a_failed_result(client: Client, garbage: bytes) -> None:
    async with one_group(client, plain([], lambda asked: garbage)) as (endpoint, stub):
        assert (await endpoint.failed("glm__status")).startswith("group glm: ")
    assert stub.calls.count("tools/call") == 1


async def test_the_routers_own_tool(client: Client) -> None:
    async with merged(client) as endpoint:
        status = await endpoint.result("tools/call", name=NATIVE, arguments={})
    assert status["structuredContent"] == STATUS
    assert json.loads(status["content"][0]["text"]) == STATUS
    assert status["isError"] is False


# -- resources and prompts


def full(asked: Asked) -> bytes:
    """A responder with one of each."""
    match asked.rpc:
        case "resources/list":
            return result(asked, {"resources": [{"uri": "log://a/b c", "name": "log"}]})
        case "resources/read":
            uri = asked.message["params"]["uri"]
            return result(asked, {"contents": [{"uri": uri, "text": "hello"}]})
        case "prompts/list":
            return result(asked, {"prompts": [{"name": "ask", "arguments": [{"name": "a"}]}]})
        case "prompts/get":
            text = json.dumps(asked.message["params"])
            return result(asked, {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
    return error(asked, -32601)


async def test_resources(client: Client) -> None:
    async with one_group(client, full) as (endpoint, _):
        (listed,) = (await endpoint.result("resources/list"))["resources"]
        assert listed == {"uri": "mentat://glm/log%3A%2F%2Fa%2Fb%20c", "name": "log"}
        read = await endpoint.result("resources/read", uri=listed["uri"])
        assert read == {"contents": [{"uri": listed["uri"], "text": "hello"}]}
        assert await endpoint.result("resources/templates/list") == {"resourceTemplates": []}


async def test_prompts(client: Client) -> None:
    async with one_group(client, full) as (endpoint, _):
        (listed,) = (await endpoint.result("prompts/list"))["prompts"]
        assert listed == {"name": "glm__ask", "arguments": [{"name": "a"}]}
        got = await endpoint.result("prompts/get", name="glm__ask", arguments={"a": "1"})
        assert json.loads(got["messages"][0]["content"]["text"]) == {"name": "ask", "arguments": {"a": "1"}}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/read", {"uri": "log://a"}, -32002),
        ("resources/read", {"uri": "mentat://qwen/log"}, -32002),
        ("prompts/get", {"name": "ask"}, -32602),
        ("prompts/get", {"name": "qwen__ask"}, -32602),
    ],
)
async def test_what_no_group_has(client: Client, method: str, params: dict[str, Any], code: int) -> None:
    async with one_group(client, full) as (endpoint, stub):
        assert (await endpoint.error(method, **params))["code"] == code
    assert not stub.asked


@pytest.mark.parametrize(
    ("method", "params"),
    [("resources/read", {"uri": "mentat://glm/x"}), ("prompts/get", {"name": "glm__ask"})],
)
async def test_a_group_that_fails(client: Client, method: str, params: dict[str, Any]) -> None:
    async with merged(client, group_at("glm", f"http://127.0.0.1:{free_port()}")) as endpoint:
        failed = await endpoint.error(method, **params)
    assert failed["code"] == -32603
    assert "connection refused" in failed["message"]
    async with one_group(client, lambda asked: error(asked, -32002, "gone")) as (endpoint, _):
        assert await endpoint.error(method, **params) == {"code": -32002, "message": "gone"}


# -- anything


@given(
    st.sampled_from(("initialize", "ping", "tools/list", "tools/call", "resources/read", "prompts/get", "x")),
    st.dictionaries(
        st.sampled_from(("name", "uri", "arguments", "_meta", "cursor", "protocolVersion", "x")),
        st.recursive(
            st.none()
            | st.integers()
            | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
            | st.sampled_from(
                ("glm__x", NATIVE, "glm__x-0123456789ab", "mentat://glm/x", "mentat://%ff/%ff")
            ),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)
            ),
            max_leaves=4,
        ),
    ),
)
async def test_any_call_has_an_answer(method: str, params: dict[str, Any]) -> None:
    def unused(*_: object, **__: object) -> Any:
        raise AssertionError("nobody is there to be asked")

    known = groups_of(group_at("glm"))
    servers = Servers(known, cast(Client, unused), seconds=1)
    catalogue = Catalogue(known, servers, ttl_s=60)
    endpoint = Endpoint(Merge(known, servers, catalogue, lambda: b"{}"))
    answer = await endpoint.message(method, json.dumps(params), '"id"')
    assert answer["id"] == "id"
    assert ("result" in answer) != ("error" in answer)
    await catalogue.close()
    await servers.close()
