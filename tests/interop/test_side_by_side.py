"""The published router and ours in front of one cluster: what they agree on; docs/compatibility.md has the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from tests.interop.driver import driving
from tests.interop.mixed import Mixed
from tests.support.cluster import JSON, Answer, Router
from tests.support.engine import Engine, Exchange, running

AGENT_LOOKS_S = 30.0
"""Within this an agent has looked at where its engine listens."""

REASONS = {
    "placed": None,
    "url": None,
    "ended": "no running actors",
    "silent": "no announced OpenAI endpoint",
    "elsewhere": "announced port 8000/v1 on node 203.0.113.9, and no address of that node passes ALLOWED_SOURCES",
    "dead": "endpoint probe failed",
    "narrow": "endpoint probe failed, bound to 127.0.0.2 only",
}
"""Each group of the cluster, and why it is not admitted, as `_gate` says it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both routers, and the engine that they share."""

    ours: Router
    theirs: Router
    engine: Engine

    def ask(
        self, method: str, path: str, body: bytes | None = None, content_type: str = ""
    ) -> list[tuple[Answer, object]]:
        """Our answer and theirs, each with what the engine saw of the request."""
        answers: list[tuple[Answer, object]] = []
        fields = {"Content-Type": content_type} if content_type else {}
        for router in (self.ours, self.theirs):
            self.engine.received.clear()
            answer = router.ask(method, path, body, fields)
            saw = [(r.target, r.body, r.fields("content-type")) for r in self.engine.posts()]
            answers.append((answer, saw))
        return answers


@pytest.fixture(scope="module")
def pair(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A cluster in which every group has placed an actor, so that both releases' gates ask for one."""
    with ExitStack() as stack:
        mixed = stack.enter_context(Mixed(tmp_path_factory.mktemp("pair"), release))
        engine = stack.enter_context(running("tiny", "org/x:y"))
        other = stack.enter_context(running("other"))
        narrow = stack.enter_context(running("narrow", host="127.0.0.2"))
        engine.play("/mcp", _tools)
        daemon = mixed.mentatd()
        openai = {
            "placed": f"{engine.port}/v1",
            "url": f"http://127.0.0.1:{other.port}/v1",
            "ended": f"{engine.port}/v1",
            "dead": "1/v1",
            "narrow": f"{narrow.port}/v1",
        }
        announced = {"MENTAT_MODEL_PROVIDER": "vllm", "MENTAT_MCP_API": f"{engine.port}/mcp"}
        agents = {}
        for group, endpoint in openai.items():
            told = announced if group == "placed" else {}
            agents[group] = mixed.agent(daemon, group, endpoint, gpus=1, **told)
            driver = stack.enter_context(driving(daemon, group))
            actor = driver.place("w0")
            if group == "ended":
                driver.kill(actor)
        mixed.agent(daemon, "silent", MENTAT_MCP_API="http://127.0.0.1:1/mcp")
        mixed.agent(daemon, "elsewhere", "8000/v1", MENTAT_NODE_IP="203.0.113.9")
        agents["narrow"].event("service_bind_narrow", within_s=AGENT_LOOKS_S)
        told = {"POLL_INTERVAL_S": "0.5", "MODEL_WAIT_S": "0.1"}
        pair = Pair(mixed.router(daemon, **told), mixed.mentatd_serve(daemon, **told), engine)
        for router in (pair.ours, pair.theirs):
            router.wait(lambda status: _gates(status) == REASONS)
        yield pair


async def _tools(exchange: Exchange) -> None:
    """A management server with one tool."""
    asked = json.loads(exchange.request.body)
    results = {
        "initialize": {
            "protocolVersion": "2025-03-26",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "group", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "load", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "42"}], "isError": False},
    }
    if "id" not in asked:
        await exchange.answer(b"", "202 Accepted")
        return
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
    await exchange.answer(json.dumps(answer).encode())


def _gate(why: str | None) -> str | None:
    """A reason without the errors of either router's HTTP client."""
    if why is None:
        return None
    note = re.search(r"\(agent reports: (.*)\)$", why)
    return why.partition(": ")[0] + (f", {note[1]}" if note else "")


def _gates(status: Any) -> dict[str, str | None]:
    return {name: _gate(group["why_not"]) for name, group in status["groups"].items()}


def test_the_same_models(pair: Pair) -> None:
    for path in ("/v1/models", "/v1", "/v1/models/"):
        (ours, _), (theirs, _) = pair.ask("GET", path)
        listings = [sorted(answer.json["data"], key=lambda entry: entry["id"]) for answer in (ours, theirs)]
        assert listings[0] == listings[1]
        assert [entry["owned_by"] for entry in listings[0]] == ["placed", "url", "placed"]


def test_the_same_groups(pair: Pair) -> None:
    ours, theirs = pair.ours.status()["groups"], pair.theirs.status()["groups"]
    same = (
        "daemon",
        "agents_alive",
        "actors_running",
        "openai",
        "openai_note",
        "provider",
        "mcp",
        "healthy",
        "models",
    )
    for name in REASONS:
        for field in same:
            assert ours[name][field] == theirs[name][field], (name, field)
        # no endpoint: an empty list here, null there
        assert ours[name]["openai_candidates"] == (theirs[name]["openai_candidates"] or [])


def test_the_same_route_table(pair: Pair) -> None:
    ours, theirs = pair.ours.status()["models"], pair.theirs.status()["models"]
    assert {m: (r["group"], r["url"]) for m, r in ours.items()} == {
        m: (r["group"], r["url"]) for m, r in theirs.items()
    }


CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", CHAT | {"stream": True}),
        ("/v1/chat/completions", CHAT | {"model": "org/x:y"}),
        ("/v1/messages", CHAT),
        ("/tokenize", {"model": "tiny", "prompt": "x"}),
        ("/v1/embeddings?a=b", {"model": "tiny", "input": "x"}),
        ("/v1/responses/", {"model": "tiny", "input": "x"}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_same_request_forwarded_and_its_answer_passed_on(
    pair: Pair, path: str, document: dict[str, Any]
) -> None:
    (ours, ours_saw), (theirs, theirs_saw) = pair.ask(
        "POST", path, json.dumps(document).encode(), "application/json"
    )
    assert ours_saw == theirs_saw == [(path, json.dumps(document).encode(), ["application/json"])]
    assert (ours.status, ours.body) == (theirs.status, theirs.body)
    assert ours.fields["content-type"] == theirs.fields["content-type"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/chat/completions", b'{"messages":[]}', 400),
        ("POST", "/v1/chat/completions", b'{"model":3}', 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b"{", 400),
        ("POST", "/v1/chat/completions", b"", 400),
        ("POST", "/v1/chat/completions", b'{"model":"nobody"}', 404),
        ("POST", "/v1/chat/completions", b'{"model":"dead"}', 503),
        ("POST", "/tokenize", b'{"model":"ended"}', 503),
        ("POST", "/v1/responses/input_tokens", b'{"model":"nobody","input":"x"}', 404),
        ("POST", "/v1/responses/input_tokens", b'{"model":"other","input":"x"}', 400),
        ("GET", "/v1/chat/completions", None, 404),
        ("GET", "/nothing", None, 404),
    ],
)
def test_the_same_refusal(pair: Pair, method: str, path: str, body: bytes | None, status: int) -> None:
    (ours, ours_saw), (theirs, theirs_saw) = pair.ask(method, path, body, "application/json" if body else "")
    assert (ours.status, theirs.status) == (status, status)
    assert ours_saw == theirs_saw == []
    # what is wrong is text there and OpenAI's object here; the members beside it are the same
    assert theirs.json["error"]
    assert ours.json["error"]["message"]
    if "nobody" in str(body) and "input_tokens" not in path:
        assert ours.json["available"] == theirs.json["available"] == ["org/x:y", "other", "tiny"]
        assert list(ours.json["not_ready"]) == list(theirs.json["not_ready"])


def test_the_same_count_of_tokens(pair: Pair) -> None:
    body = json.dumps({"model": "tiny", "input": "hello", "instructions": "be brief"}).encode()
    (ours, _), (theirs, _) = pair.ask("POST", "/v1/responses/input_tokens", body, "application/json")
    assert ours.json == theirs.json == {"object": "response.input_tokens", "input_tokens": 13}


def test_the_same_tools(pair: Pair) -> None:
    def call(router: Router, method: str, **params: Any) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        fields = JSON | {"Accept": "application/json, text/event-stream"}
        return router.ask("POST", "/mcp", json.dumps(asked).encode(), fields).json["result"]

    for router in (pair.ours, pair.theirs):
        names = {tool["name"] for tool in call(router, "tools/list")["tools"]}
        assert names == {"placed__load", "serve_status"}
        told = call(router, "tools/call", name="placed__load", arguments={})
        assert told["content"] == [{"type": "text", "text": "42"}]
        status = json.loads(
            call(router, "tools/call", name="serve_status", arguments={})["content"][0]["text"]
        )
        assert set(status["groups"]) == set(REASONS)


def test_the_same_rows_of_figures(pair: Pair) -> None:
    tables = [router.ask("GET", "/stats.json").json["models"] for router in (pair.ours, pair.theirs)]
    shown = [
        {(row["model"], row["group"], row["provider"], row["healthy"]) for row in table} for table in tables
    ]
    assert shown[0] == shown[1]
