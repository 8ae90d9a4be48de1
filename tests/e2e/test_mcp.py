"""The merged MCP endpoint as the official SDK's client sees it, over the SDK's servers and a plain responder."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import TextContent, TextResourceContents
from tests.e2e import mcpserver
from tests.support.cluster import Cluster, Router
from tests.support.commands import Command
from tests.support.deadlines import wait_until, within
from tests.support.engine import Engine, Exchange, running
from tests.support.ports import free_port

SERVER = Path(mcpserver.__file__)
TOOLS = ["load", "plot", "broken", "sample", "ask", "count"]


def listening(port: int) -> bool:
    with closing(socket.socket()) as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def start(folder: Path, port: int, kind: str) -> Command:
    """One server of the SDK's, once it listens."""
    started = Command([sys.executable, str(SERVER), str(port), kind], {}, folder / f"mcp-{port}.log")
    wait_until(lambda: listening(port), 30)
    return started


async def plain(exchange: Exchange) -> None:
    """A status server that answers JSON-RPC calls and has not heard of `initialize`."""
    call = json.loads(exchange.request.body)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call.get("id")}
    match call["method"]:
        case "tools/list":
            answer["result"] = {"tools": [{"name": "status", "description": "d"}, {"name": "gpu temp (°C)"}]}
        case "tools/call":
            name = call["params"]["name"]
            answer["result"] = {"content": [{"type": "text", "text": f"plain {name}"}], "isError": False}
        case _:
            answer["error"] = {"code": -32601, "message": "unknown method"}
    await exchange.answer(json.dumps(answer).encode())


class World:
    """A router over three groups, one for each kind of server; a fourth one's server is down."""

    def __init__(self, router: Router, stateful: int, stateless: int) -> None:
        self.router = router
        self.stateful = stateful
        """Its port."""
        self.stateless = stateless
        """Its port."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("mcp")
    stateful, stateless = free_port(), free_port()
    with Cluster(folder) as cluster, running("tiny") as engine:
        engine.play("/mcp", plain)
        servers = [start(folder, stateful, "stateful"), start(folder, stateless, "stateless")]
        try:
            daemon = cluster.daemon()
            announce(cluster, daemon.control, "glm", stateful)
            announce(cluster, daemon.control, "qwen", stateless)
            announce(cluster, daemon.control, "spark", engine.port)
            announce(cluster, daemon.control, "wedged", free_port())
            router = cluster.router(daemon)
            router.wait(lambda status: len(status["groups"]) == 4)
            yield World(router, stateful, stateless)
        finally:
            for server in servers:
                server.close()


def announce(cluster: Cluster, control: str, group: str, port: int) -> None:
    """Register a container that serves nothing but MCP."""
    cluster.run(f"mentatd-register --group {group} --address {control}", MENTAT_MCP_API=f"{port}/mcp").event(
        "register_up"
    )


@asynccontextmanager
async def connected(router: Router) -> AsyncIterator[Client]:
    """The SDK's client; not a fixture, since it must be left by the task that entered it."""
    # a server of the SDK's takes seconds to start where the machine has other work
    async with within(90), Client(f"{router.base}/mcp") as client:
        yield client


def text(result: Any) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_the_sdk_falls_back_to_the_newest_handshake(world: World) -> None:
    async with connected(world.router) as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_info is not None
        assert client.server_info.name == "mentatd-serve"


async def test_all_tools_are_listed(world: World) -> None:
    async with connected(world.router) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        coded = [name for name in tools if name.startswith("spark__gpu_temp__") and name != "spark__status"]
        assert list(tools) == [
            "serve_status",
            *(f"glm__{name}" for name in TOOLS),
            *(f"qwen__{name}" for name in TOOLS),
            "spark__status",
            *coded,
        ]
        assert len(coded) == 1
        load = tools["glm__load"]
        assert load.title == "Load of the engine"
        assert load.description == "How much the engine has to do."
        assert load.input_schema["properties"]["running"]["default"] == 1
        assert load.output_schema is not None
        assert load.annotations is not None
        assert load.annotations.read_only_hint is True


async def test_a_group_that_is_down_is_named_in_the_log_once(world: World) -> None:
    async with connected(world.router) as client:
        for _ in range(3):
            await client.list_tools()
        assert len(world.router.command.events("mcp_tools_fetch_failed", group="wedged")) == 1
        assert not world.router.command.events("mcp_tools_fetch_failed", group="glm")


@pytest.mark.parametrize("group", ["glm", "qwen"])
async def test_the_sdks_servers_are_called_through(world: World, group: str) -> None:
    async with connected(world.router) as client:
        await client.list_tools()  # after which the SDK holds results against their schema
        load = await client.call_tool(f"{group}__load", {"running": 7})
        assert load.structured_content == {"running": 7, "waiting": ["é"]}
        (image,) = (await client.call_tool(f"{group}__plot")).content
        assert image.type == "image"
        broken = await client.call_tool(f"{group}__broken")
        assert broken.is_error
        assert text(broken) == "Error executing tool broken"
        unknown = await client.call_tool(f"{group}__unknown")
        assert unknown.is_error


@pytest.mark.parametrize("group", ["glm", "qwen"])
async def test_progress_tokens_pass(world: World, group: str) -> None:
    async with connected(world.router) as client:

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            pass

        sampled = await client.call_tool(f"{group}__sample", {"seconds": 3}, progress_callback=progress)
        assert text(sampled) == "sampled 3"


@pytest.mark.parametrize("group", ["glm", "qwen"])
async def test_a_server_that_asks_its_user_is_told_that_nobody_is_there(world: World, group: str) -> None:
    async with connected(world.router) as client:
        with pytest.raises(MCPError, match="elicitation/create"):
            await client.call_tool(f"{group}__ask")


async def test_a_plain_responder_is_called_through(world: World) -> None:
    async with connected(world.router) as client:
        assert text(await client.call_tool("spark__status")) == "plain status"
        tools = [tool.name for tool in (await client.list_tools()).tools]
        (coded,) = (name for name in tools if name.startswith("spark__gpu"))
        assert text(await client.call_tool(coded)) == "plain gpu temp (°C)"


async def test_what_cannot_be_called_is_a_failed_result(world: World) -> None:
    async with connected(world.router) as client:
        wedged = await client.call_tool("wedged__status")
        assert wedged.is_error
        assert "connection refused" in text(wedged)
        unknown = await client.call_tool("nobody__status")
        assert unknown.is_error
        assert "unknown tool" in text(unknown)


async def test_the_routers_own_status(world: World) -> None:
    async with connected(world.router) as client:
        status = await client.call_tool("serve_status")
        assert status.structured_content == json.loads(text(status))
        assert sorted(status.structured_content["groups"]) == sorted(world.router.status()["groups"])


async def test_resources_and_prompts(world: World) -> None:
    async with connected(world.router) as client:
        resources = (await client.list_resources()).resources
        assert [str(resource.uri) for resource in resources] == [
            "mentat://glm/log%3A%2F%2Fengine%2Flast%20lines",
            "mentat://qwen/log%3A%2F%2Fengine%2Flast%20lines",
        ]
        assert (await client.list_resource_templates()).resource_templates == []
        (content,) = (await client.read_resource(str(resources[0].uri))).contents
        assert isinstance(content, TextResourceContents)
        assert (content.text, str(content.uri)) == ("it is hot", str(resources[0].uri))
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [
            "glm__explain",
            "qwen__explain",
        ]
        (message,) = (await client.get_prompt("qwen__explain", {"topic": "heat"})).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Explain heat."


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["stateful", "stateless"])
async def test_a_server_that_restarts_is_called_again(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    port = free_port()
    daemon = cluster.daemon()
    announce(cluster, daemon.control, "glm", port)
    router = cluster.router(daemon)
    router.wait(lambda status: "glm" in status["groups"])
    async with connected(router) as client:
        assert "connection refused" in text(await client.call_tool("glm__count"))
        for _ in range(2):
            with closing(start(tmp_path, port, kind)):
                assert text(await client.call_tool("glm__count")) == "1"
                assert text(await client.call_tool("glm__count")) == "2"
            assert (await client.call_tool("glm__count")).is_error


def test_sessions_end_with_the_router(cluster: Cluster, engine: Engine) -> None:
    """A server that hands out sessions hears of their end."""

    async def stateful(exchange: Exchange) -> None:
        call = json.loads(exchange.request.body)
        hello: dict[str, object] = {"protocolVersion": "2025-06-18"}
        result = {"content": []} if call["method"] == "tools/call" else hello
        body = json.dumps({"jsonrpc": "2.0", "id": call.get("id"), "result": result}).encode()
        fields = f"Mcp-Session-Id: s1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        await exchange.send(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)

    engine.play("/mcp", stateful)
    daemon = cluster.daemon()
    announce(cluster, daemon.control, "glm", engine.port)
    router = cluster.router(daemon)
    router.wait(lambda status: "glm" in status["groups"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "glm__status"}}
    assert router.post("/mcp", **call).json["result"] == {"content": []}
    router.command.close()
    (ended,) = (request for request in engine.received if request.method == "DELETE")
    assert ended.fields("mcp-session-id") == ["s1"]
