"""One MCP server of either kind: handshakes, sessions, answers of every form, and what is never sent twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.serve.mcp.stub import (
    Answer,
    Asked,
    Stateful,
    Stub,
    error,
    events,
    http,
    never,
    plain,
    result,
    said,
    serving,
)
from tests.support.deadlines import until, within
from tests.support.ports import free_port

from mentatd import __version__
from mentatd.errors import AnswerTooLarge, ConnectFailed, UpstreamBroken, UpstreamTimeout
from mentatd.http.client import Client
from mentatd.serve.mcp import reading
from mentatd.serve.mcp.reading import GroupFailed
from mentatd.serve.mcp.session import GroupServer
from mentatd.tasks import Tasks
from mentatd.wire.jsonrpc import Failure, Outcome

CALL = b'{"name":"status","arguments":{"a": [1.50, "\\u00e9"]},"_meta":{"progressToken":"t"}}'


@asynccontextmanager
async def server_for(
    client: Client, answer: Answer, seconds: float = 10.0
) -> AsyncIterator[tuple[Stub, GroupServer]]:
    """A stub and our end of it."""
    tasks = Tasks("test")
    async with serving(answer) as (stub, scripted):
        yield stub, GroupServer(client, f"{scripted.url}/mcp", tasks, seconds=seconds)
        await tasks.close()


async def call(server: GroupServer, method: str = "tools/call") -> Any:
    """The result, decoded, or the failure."""
    async with within():
        answer = (await server.call(method, CALL)).answer
    return answer if isinstance(answer, Failure) else json.loads(answer)


# -- handshakes


async def test_a_plain_responder_is_asked_without_a_session(client: Client) -> None:
    async with server_for(client, plain(["status"])) as (stub, server):
        assert await call(server) == said("status")
        assert await call(server) == said("status")
        assert await server.offers("tools") is None
        await server.close()
    assert stub.calls == ["initialize", "tools/call", "tools/call"]
    first, second, _ = stub.asked
    assert first.message["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "mentatd-serve", "version": __version__},
    }
    assert second.fields["content-type"] == "application/json"
    assert second.fields["accept"] == "application/json, text/event-stream"
    assert "mcp-session-id" not in second.fields
    assert "mcp-protocol-version" not in second.fields
    assert second.message["params"] == json.loads(CALL)


async def test_a_server_with_sessions(client: Client) -> None:
    sessions = Stateful()
    async with server_for(client, sessions) as (stub, server):
        assert await call(server) == said("session-1")
        assert await call(server) == said("session-1")
        assert await server.offers("tools") is True
        assert await server.offers("prompts") is False
        await server.close()
        await server.close()
    assert stub.calls == ["initialize", "notifications/initialized", "tools/call", "tools/call", "DELETE"]
    assert sessions.ended == ["session-1"]
    assert "id" not in stub.asked[1].message
    ids = [asked.id for asked in stub.asked if asked.rpc in ("initialize", "tools/call")]
    assert len(set(ids)) == len(ids)


async def test_a_server_without_sessions_but_with_a_handshake(client: Client) -> None:
    def answer(asked: Asked) -> bytes:
        if asked.rpc == "initialize":
            return result(asked, {"protocolVersion": "2025-06-18", "capabilities": {}})
        return (
            http(202)
            if "id" not in asked.message
            else result(asked, said(asked.fields["mcp-protocol-version"]))
        )

    async with server_for(client, answer) as (stub, server):
        assert await call(server) == said("2025-06-18")
        await server.close()
    assert stub.calls == ["initialize", "notifications/initialized", "tools/call"]


@pytest.mark.parametrize(
    "hello",
    [
        http(404, b"<html>not here</html>", "text/html"),
        http(400, b'{"error":"unknown method"}'),
        http(405),
        http(500, b"oops", "text/plain"),
        http(200, b"ok", "text/plain"),
        http(200, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}'),
    ],
)
async def test_whatever_else_is_no_handshake_is_a_plain_responder(client: Client, hello: bytes) -> None:
    def answer(asked: Asked) -> bytes:
        return hello if asked.rpc == "initialize" else result(asked, said("x"))

    async with server_for(client, answer) as (stub, server):
        assert await call(server) == said("x")
        assert await call(server) == said("x")
    assert stub.calls == ["initialize", "tools/call", "tools/call"]


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_server_that_is_not_there_yet_is_asked_again_next_time(client: Client, status: int) -> None:
    async with server_for(client, lambda asked: http(status, b"starting", "text/plain")) as (stub, server):
        with pytest.raises(GroupFailed, match=f"/mcp: HTTP {status} to initialize: 'starting'"):
            await call(server)
        stub.answer = plain(["status"])
        assert await call(server) == said("status")
    assert stub.calls == ["initialize", "initialize", "tools/call"]


@pytest.mark.parametrize(
    ("hello", "session", "reason"),
    [
        ("text", "s", "unreadable answer to initialize"),
        ({"protocolVersion": 5}, "s", "unreadable answer to initialize"),
        ({"protocolVersion": "2025\n06"}, "s", "cannot be sent back"),
        ({"protocolVersion": "2025-06-18"}, "a b", "cannot be sent back"),
        ({"protocolVersion": "2025-06-18"}, "é", "cannot be sent back"),
    ],
)
async def test_a_handshake_that_cannot_be_used(client: Client, hello: Any, session: str, reason: str) -> None:
    async with server_for(client, lambda asked: result(asked, hello, Mcp_Session_Id=session)) as (
        stub,
        server,
    ):
        with pytest.raises(GroupFailed, match=reason):
            await call(server)
    assert stub.calls == ["initialize"]


async def test_calls_side_by_side_share_one_handshake(client: Client) -> None:
    async with server_for(client, Stateful()) as (stub, server):
        assert await asyncio.gather(*(call(server) for _ in range(5))) == [said("session-1")] * 5
    assert stub.calls.count("initialize") == 1


async def test_a_responder_that_never_answers_notifications_is_used_all_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mentatd.serve.mcp.session._TELL_S", 0.05)

    def answer(asked: Asked) -> Any:
        if asked.rpc == "notifications/initialized":
            return never(asked)
        return result(asked, said("x") if asked.rpc == "tools/call" else {})

    async with server_for(client, answer) as (_, server):
        assert await call(server) == said("x")


# -- sessions that are gone


@pytest.mark.parametrize("lost_status", [404, 400])
async def test_a_forgotten_session_is_begun_again_once(client: Client, lost_status: int) -> None:
    sessions = Stateful(lost_status=lost_status)
    async with server_for(client, sessions) as (stub, server):
        await call(server)
        sessions.forget()
        assert await call(server) == said("session-2")
        assert await call(server) == said("session-2")
    assert stub.calls == [
        *("initialize", "notifications/initialized", "tools/call"),
        *("tools/call", "initialize", "notifications/initialized", "tools/call", "tools/call"),
    ]


async def test_a_session_may_be_refused_in_any_words(client: Client) -> None:
    sessions = Stateful()

    def answer(asked: Asked) -> Any:
        known = asked.rpc == "initialize" or asked.fields.get("mcp-session-id") in sessions.sessions
        return sessions(asked) if known else http(404, b"no such session", "text/plain")

    async with server_for(client, answer) as (_, server):
        await call(server)
        sessions.forget()
        assert await call(server) == said("session-2")


async def test_many_calls_that_meet_a_forgotten_session_share_the_next(client: Client) -> None:
    sessions = Stateful()
    async with server_for(client, sessions) as (stub, server):
        await call(server)
        sessions.forget()
        assert await asyncio.gather(*(call(server) for _ in range(5))) == [said("session-2")] * 5
    assert stub.calls.count("initialize") == 2


async def test_a_server_that_forgets_at_once_is_not_asked_for_ever(client: Client) -> None:
    sessions = Stateful()

    def answer(asked: Asked) -> Any:
        sessions.forget()
        return sessions(asked)

    async with server_for(client, answer) as (stub, server):
        with pytest.raises(GroupFailed, match="refuses the session that it has just begun"):
            await call(server)
    assert stub.calls.count("tools/call") == 2


@pytest.mark.parametrize(
    "refusal",
    [
        lambda asked: error(asked, -32601, "unknown", status=404),
        lambda asked: error(asked, -32602, "bad", status=400),
    ],
)
async def test_a_call_that_was_read_is_not_repeated(client: Client, refusal: Any) -> None:
    async with server_for(client, Stateful(refusal)) as (stub, server):
        assert isinstance(await call(server), Failure)
    assert stub.calls.count("tools/call") == 1


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_a_refused_call_is_not_repeated_and_the_next_begins_anew(client: Client, status: int) -> None:
    async with server_for(client, Stateful(lambda asked: http(status, b"no", "text/plain"))) as (
        stub,
        server,
    ):
        with pytest.raises(GroupFailed, match=f"HTTP {status} and no JSON-RPC answer: 'no'"):
            await call(server)
        assert stub.calls.count("tools/call") == 1
        stub.answer = plain(["status"])
        assert await call(server) == said("status")
    assert stub.calls.count("initialize") == 2


async def test_a_connection_that_dies_during_a_call_does_not_repeat_it(client: Client) -> None:
    def cut(asked: Asked) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{"

    def leave(asked: Asked) -> bytes:
        raise EOFError

    for dying, reason in (cut, r"timed out after 0\.2 s, in the middle"), (leave, "closed before an answer"):
        async with server_for(client, Stateful(dying), seconds=0.2) as (stub, server):
            with pytest.raises((UpstreamBroken, UpstreamTimeout), match=reason):
                await call(server)
        assert stub.calls.count("tools/call") == 1


# -- answers


async def test_progress_and_log_messages_are_passed_by(client: Client) -> None:
    def answer(asked: Asked) -> bytes:
        return events(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
            "no message at all",
            {"jsonrpc": "2.0", "id": 99, "result": {"another": "call's"}},
            {"jsonrpc": "2.0", "id": asked.id, "result": said("mine")},
        )

    async with server_for(client, Stateful(answer)) as (_, server):
        assert await call(server) == said("mine")


async def test_what_a_server_asks_in_its_stream_is_declined(client: Client) -> None:
    answered: list[Any] = []
    both = asyncio.Event()
    sessions = Stateful()

    async def questions(asked: Asked) -> bytes:
        return events(
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            {"jsonrpc": "2.0", "id": [1], "method": "elicitation/create", "params": {}},
            {"jsonrpc": "2.0", "id": asked.id, "result": said("done")},
        )

    def answer(asked: Asked) -> Any:
        if asked.rpc == "answer":
            answered.append(asked.message)
            if len(answered) == 2:
                both.set()
            return http(202)
        return questions(asked) if asked.rpc == "tools/call" else sessions(asked)

    async with server_for(client, answer) as (_, server):
        assert await call(server) == said("done")
        async with within():
            await both.wait()
    ping, elicitation = answered
    assert ping == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert (elicitation["id"], elicitation["error"]["code"]) == ([1], -32601)


async def test_a_whole_result_is_kept_byte_for_byte(client: Client) -> None:
    text = (
        b'{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}],'
        b'"structuredContent":{"a": 1.50},"x":[ ]}'
    )

    def answer(asked: Asked) -> bytes:
        return http(200, b'{"result": %b ,"id":%d,"jsonrpc":"2.0"}' % (text, asked.id))

    async with server_for(client, answer) as (_, server):
        outcome = await server.call("tools/call", CALL)
        assert outcome.answer == text


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_an_error_is_the_groups_own(client: Client, status: int) -> None:
    async with server_for(client, lambda asked: error(asked, -32050, "too hot", status)) as (_, server):
        failure = await call(server)
    assert failure == Failure(-32050, "too hot", b'{"code": -32050, "message": "too hot"}')


async def test_an_error_without_an_id_is_this_calls(client: Client) -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}'
    async with server_for(client, lambda asked: http(400, body)) as (_, server):
        assert (await call(server)).code == -32700


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (
            http(200, b"<html>hello</html>", "text/html"),
            "HTTP 200 and no JSON-RPC answer: '<html>hello</html>'",
        ),
        (http(200, b"\xff\xfe"), "no JSON-RPC answer"),
        (http(200), "no JSON-RPC answer: ''"),
        (http(202), "HTTP 202 and no JSON-RPC answer"),
        (http(302, Location="http://127.0.0.1:1/"), "HTTP 302 and no JSON-RPC answer"),
        (http(200, b'{"jsonrpc":"2.0","id":"other","result":{}}'), "no JSON-RPC answer"),
        (http(200, b'{"jsonrpc":"2.0","result":{}}'), "no JSON-RPC answer"),
        (http(200, b"[" * 100_000), "no JSON-RPC answer"),
        (http(200, b"x" * 5000), f"no JSON-RPC answer: '{'x' * 200}'$"),
        (http(200, b": nothing\n\n", "text/event-stream"), "the event stream ended without an answer"),
        (
            http(200, b"data: {", "text/event-stream; charset=utf-8"),
            "the event stream ended without an answer",
        ),
    ],
)
async def test_garbage(client: Client, garbage: bytes, reason: str) -> None:
    async with server_for(client, plain([], lambda asked: garbage)) as (stub, server):
        with pytest.raises(GroupFailed, match=reason):
            await call(server)
    assert stub.calls.count("tools/call") == 1


@pytest.mark.parametrize("value", [None, 5, "text", [1], True])
async def test_a_result_is_an_object(client: Client, value: Any) -> None:
    async with server_for(client, plain([], lambda asked: result(asked, value))) as (_, server):
        with pytest.raises(GroupFailed, match="a result that is no object"):
            await call(server)


async def test_an_answer_is_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ANSWER_LIMIT", 1000)
    large = said("x" * 1000)
    for answer in (
        lambda asked: result(asked, large),
        lambda asked: events({"jsonrpc": "2.0", "id": asked.id, "result": large}),
    ):
        async with server_for(client, plain([], answer)) as (_, server):
            with pytest.raises(AnswerTooLarge, match="over 1000 bytes"):
                await call(server)


# -- deadlines and leaving


async def test_nobody_there(client: Client) -> None:
    server = GroupServer(client, f"http://127.0.0.1:{free_port()}/mcp", Tasks("test"), seconds=5)
    with pytest.raises(ConnectFailed, match="connection refused"):
        await call(server)


async def test_a_call_that_is_given_up_is_cancelled_at_the_server(client: Client) -> None:
    callers = Tasks("callers")
    async with server_for(client, Stateful(never)) as (stub, server):
        await server.offers("tools")
        stub.arrived.clear()
        callers.start(call(server), "call")
        async with within():
            await stub.arrived.wait()
            stub.left.clear()
            await callers.close()
            await stub.left.wait()
            await until(lambda: "notifications/cancelled" in stub.calls)
        given_up, note = stub.asked[-2:]
        assert note.message["params"] == {"requestId": given_up.id}
        assert note.fields["mcp-session-id"] == "session-1"


async def test_a_server_that_is_too_slow_is_told(client: Client) -> None:
    async with server_for(client, Stateful(never), seconds=0.2) as (stub, server):
        with pytest.raises(UpstreamTimeout, match=r"timed out after 0\.2 s"):
            await call(server)
        await until(lambda: "notifications/cancelled" in stub.calls)


async def test_a_plain_responder_only_sees_the_connection_close(client: Client) -> None:
    async with server_for(client, plain([], never), seconds=0.2) as (stub, server):
        with pytest.raises(UpstreamTimeout):
            await call(server)
        async with within():
            await stub.left.wait()
    assert stub.calls == ["initialize", "tools/call"]


async def test_a_caller_that_leaves_in_the_handshake_leaves_it_to_the_next(client: Client) -> None:
    leaving, staying = Tasks("leaving"), Tasks("staying")
    async with server_for(client, never) as (stub, server):
        leaving.start(call(server), "call")
        async with within():
            await stub.arrived.wait()
        second = staying.start(call(server), "call")
        stub.answer = plain(["status"])
        await leaving.close()
        assert await second == said("status")
    assert stub.calls == ["initialize", "initialize", "tools/call"]


async def test_a_server_that_is_down_when_its_session_ends_is_left_alone(client: Client) -> None:
    async with server_for(client, Stateful()) as (_, server):
        await call(server)
    await server.close()


def test_an_outcome_is_quoted() -> None:
    assert reading.quoted(Outcome(b"1", b'{"a":1}')) == "'{\"a\":1}'"
    assert reading.quoted(Outcome(b"1", Failure(1, "m", b"{}"))) == "'{}'"
