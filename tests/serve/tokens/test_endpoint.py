"""The two counting routes: what reaches the engine, what comes back, and every way in which no count does."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from tests.serve.tokens.counting import (
    NOT_FOUND,
    Counting,
    Engine,
    answer,
    counting,
)
from tests.support.deadlines import within
from tests.support.ports import free_port
from tests.support.recorded import recorded
from tests.support.scripted import Line
from tests.support.views import group

from mentatd.cluster.routes import EMPTY, build
from mentatd.serve.tokens.endpoint import ANTHROPIC_PATH, BODY_LIMIT, RESPONSES_PATH

BODY = b'{"model":"m","input":"hi"}'
COUNT = answer({"count": 14})
HI = [{"role": "user", "content": "hi"}]


# -- bodies


@pytest.mark.parametrize(
    "fields",
    [
        "",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json; charset=utf-8\r\n",
    ],
)
async def test_the_type_of_the_body_does_not_matter(router: Counting, fields: str) -> None:
    engine = Engine(tokenize=COUNT)
    await router.engine(engine)
    given = await router.post(RESPONSES_PATH, BODY, fields)
    assert given.json["input_tokens"] == 14
    assert engine.asked[0].get("content-type") == ["application/json"]


@pytest.mark.parametrize("path", [RESPONSES_PATH, ANTHROPIC_PATH])
async def test_compressed_bodies_are_taken(router: Counting, path: str) -> None:
    engine = Engine(tokenize=COUNT)
    await router.engine(engine)
    body = b'{"model":"m","input":"hi","messages":[{"role":"user","content":"hi"}]}'
    given = await router.post(path, gzip.compress(body), "Content-Encoding: gzip\r\n")
    assert given.json["input_tokens"] == 14
    assert engine.asked[-1].json["messages"] == HI
    assert all(asked.get("content-encoding") == [] for asked in engine.asked)


async def test_a_large_body_is_counted_whole(router: Counting) -> None:
    engine = Engine(tokenize=COUNT)
    await router.engine(engine)
    text = "x, " * 500_000
    assert (await router.responses(input=text)).json["input_tokens"] == 14
    assert engine.asked[0].json["messages"] == [{"role": "user", "content": text}]
    bad = await router.responses(input=[text])
    assert (bad.status, bad.error["code"]) == (400, "invalid_prompt")


async def test_a_byte_order_mark_is_no_fault(router: Counting) -> None:
    await router.engine(Engine(tokenize=COUNT))
    assert (await router.post(RESPONSES_PATH, b"\xef\xbb\xbf" + BODY)).status == 200


@pytest.mark.parametrize(
    ("body", "fields", "status", "code"),
    [
        (b"", "", 400, "invalid_body"),
        (b"model=m&input=hi", "", 400, "invalid_body"),
        (b'{"input":"hi"}', "", 400, "missing_model"),
        (b'{"model":7,"input":"hi"}', "", 400, "invalid_model"),
        (b'{"model":"m"}', "", 400, "invalid_prompt"),
        (b'{"model":"m","input":7}', "", 400, "invalid_prompt"),
        (b'{"model":"m","input":"\\ud83d"}', "", 400, "invalid_prompt"),
        (b'{"model":"m","input":"hi","x":NaN}', "", 400, "invalid_prompt"),
        (BODY, "Content-Encoding: compress\r\n", 415, "unknown_encoding"),
        (BODY, "Content-Encoding: gzip\r\n", 400, "invalid_encoding"),
        (gzip.compress(b" " * (BODY_LIMIT + 1)), "Content-Encoding: gzip\r\n", 413, "body_too_large"),
    ],
)
async def test_a_bad_body_is_refused(
    router: Counting, body: bytes, fields: str, status: int, code: str
) -> None:
    engine = Engine(tokenize=COUNT)
    await router.engine(engine)
    given = await router.post(RESPONSES_PATH, body, fields)
    assert (given.status, given.error["code"]) == (status, code)
    assert given.error["type"] == "invalid_request_error"
    assert engine.asked == []


# -- models and providers


@pytest.mark.parametrize("path", [RESPONSES_PATH, ANTHROPIC_PATH])
async def test_a_model_that_nothing_serves_is_a_404(router: Counting, path: str) -> None:
    await router.engine(Engine(tokenize=COUNT))
    given = await router.post(path, b'{"model":"nope","input":"hi"}')
    assert (given.status, given.error["code"], given.error["param"]) == (404, "model_not_found", "model")
    assert given.json["available"] == ["m"]
    assert given.json["not_ready"] == {}


@pytest.mark.parametrize("path", [RESPONSES_PATH, ANTHROPIC_PATH])
async def test_a_group_that_is_not_admitted_is_a_503_with_the_reason(router: Counting, path: str) -> None:
    down = {"down": group("down", running=0)}
    router.cluster.table = build(down, {}, previous=EMPTY, now=0.0, fresh_s=10.0)
    given = await router.post(path, b'{"model":"down","input":"hi"}')
    assert (given.status, given.error["code"]) == (503, "model_not_ready")
    assert "no running actors" in given.error["message"]


@pytest.mark.parametrize(
    ("provider", "said"), [("", "announced no provider"), ("ollama", "announced the provider 'ollama'")]
)
async def test_a_provider_that_is_not_known_is_a_400_that_names_it(
    router: Counting, provider: str, said: str
) -> None:
    engine = Engine()
    await router.engine(engine, provider)
    for given in await router.responses(input="hi"), await router.messages(messages=HI):
        assert (given.status, given.error["code"]) == (400, "unknown_provider")
        message = given.error["message"]
        assert message.startswith(f"group glm {said}")
        assert "vllm, llamacpp, llama.cpp, sglang" in message
        assert "MENTAT_MODEL_PROVIDER" in message
    assert engine.paths == [ANTHROPIC_PATH]


# -- what holds no conversation


@pytest.mark.parametrize("provider", ["vllm", "llamacpp", "llama.cpp", "sglang"])
async def test_media_alone_need_no_engine(router: Counting, provider: str) -> None:
    engine = Engine()
    await router.engine(engine, provider)
    given = await router.responses(input=[{"type": "input_image"}, {"type": "input_video"}])
    assert given.json == {"object": "response.input_tokens", "input_tokens": 44000}
    assert engine.asked == []


async def test_what_no_conversation_carries_is_named(router: Counting) -> None:
    engine = Engine()
    await router.engine(engine)
    given = await router.responses(
        previous_response_id="resp_1", tools=[{"type": "function", "name": "f"}, {"type": "mcp"}]
    )
    assert given.json == {
        "object": "response.input_tokens",
        "input_tokens": 0,
        "uncounted": ["previous_response_id", "mcp", "tools"],
    }
    assert engine.asked == []


# -- what goes with a question


async def test_end_to_end_fields_go_with_every_question(router: Counting) -> None:
    engine = Engine(tokenize=COUNT)
    await router.engine(engine)
    await router.post(
        ANTHROPIC_PATH + "?beta=true&x=%C3%A4",
        b'{"model":"m","messages":[{"role":"user","content":"hi"}]}',
        "Authorization: Bearer k\r\nX-Api-Key: k\r\nanthropic-version: 2023-06-01\r\nX-Two: 1\r\nX-Two: 2\r\n"
        "User-Agent: sdk\r\nAccept-Encoding: gzip, br\r\nContent-Type: text/plain\r\nX-Hop: 1\r\nTE: trailers\r\n"
        "Connection: x-hop\r\n",
    )
    assert engine.paths == [ANTHROPIC_PATH + "?beta=true&x=%C3%A4", "/tokenize"]
    for asked in engine.asked:
        assert asked.get("authorization") == ["Bearer k"]
        assert asked.get("x-api-key") == ["k"]
        assert asked.get("anthropic-version") == ["2023-06-01"]
        assert asked.get("x-two") == ["1, 2"]
        assert asked.get("content-type") == ["application/json"]
        assert asked.get("accept-encoding") == ["identity"]
        assert asked.get("user-agent") != ["sdk"]
        assert asked.get("x-hop") == asked.get("te") == asked.get("connection") == []


# -- Anthropic's route


async def test_the_engines_own_answer_passes_whole(router: Counting) -> None:
    engine = Engine(messages=recorded("vllm-0.32/count_tokens").whole)
    await router.engine(engine, "")
    given = await router.messages(messages=HI)
    assert given.body == b'{"input_tokens":13,"context_management":{"original_input_tokens":13}}'
    head = given.head.lower().split(b"\r\n")
    assert {b"server: uvicorn", b"vary: origin", b"content-type: application/json"} <= set(head)
    assert sum(line.startswith((b"date:", b"content-length:")) for line in head) == 2


@pytest.mark.parametrize("status", [200, 201, 400, 413, 429, 500, 501, 503, 529])
async def test_every_other_status_passes_too(router: Counting, status: int) -> None:
    sent = (
        b"HTTP/1.1 %d X\r\nContent-Type: application/problem+json\r\nRetry-After: 7\r\nX-Hop: 1\r\n"
        b"Connection: close, x-hop\r\nProxy-Authenticate: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n\r\n" % status
    )
    await router.engine(Engine(messages=sent))
    given = await router.messages(messages=HI)
    assert (given.status, given.body) == (status, b"{}")
    head = given.head.lower()
    assert b"\r\nretry-after: 7" in head
    assert b"\r\ncontent-type: application/problem+json" in head
    assert b"x-hop" not in head
    assert b"proxy-" not in head
    assert b"chunked" not in head


async def test_an_answer_without_a_type_gets_the_plainest(router: Counting) -> None:
    await router.engine(Engine(messages=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
    given = await router.messages(messages=HI)
    assert b"Content-Type: application/octet-stream" in given.head


@pytest.mark.parametrize("own", [NOT_FOUND, answer({"detail": "Method Not Allowed"}, 405)])
async def test_where_the_engine_has_no_such_route_its_tokenizer_counts(router: Counting, own: bytes) -> None:
    engine = Engine(messages=own, tokenize=COUNT)
    await router.engine(engine)
    image = {"type": "image", "source": {"type": "url", "url": "x"}}
    given = await router.messages(
        system="be brief",
        messages=[{"role": "user", "content": [image, {"type": "thinking", "thinking": "x"}]}],
        tools=[{"name": "f", "input_schema": {"type": "object"}}],
    )
    assert given.json == {"input_tokens": 4014, "uncounted": ["thinking"]}
    assert engine.paths == [ANTHROPIC_PATH, "/tokenize"]
    assert engine.asked[1].json["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": ""},
    ]
    assert engine.asked[1].json["tools"] == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    ]


async def test_our_own_refusals_of_anthropics_route_are_openais(router: Counting) -> None:
    await router.engine(Engine(tokenize=answer({"detail": "no"}, 400)))
    refused = await router.messages(messages=HI)
    assert (refused.status, refused.error["code"]) == (400, "invalid_prompt")
    bad = await router.messages(messages=7)
    assert (bad.status, bad.error["code"]) == (400, "invalid_prompt")


# -- engines that fail


@pytest.mark.parametrize(
    "sent",
    [
        answer({"error": {"message": "broken"}}, 500),
        answer({"detail": "broken"}, 503),
        b"HTTP/1.1 302 Found\r\nLocation: /broken\r\nContent-Length: 6\r\n\r\nbroken",
        answer({"broken": 1}),
        answer({"count": "14", "broken": 1}),
        answer({"count": -1, "broken": 1}),
        answer({"count": 1.5, "broken": 1}),
        answer([14]),
        answer(b"broken"),
        answer(b""),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"broken\r\n\r\n",
    ],
)
async def test_an_engine_that_fails_or_does_not_count_is_a_502(router: Counting, sent: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(sent)

    engine = await router.engine(script)
    given = await router.responses(input="hi")
    assert (given.status, given.error["code"]) == (502, "engine_failed")
    assert given.error["type"] == "server_error"
    assert f"group glm at {engine.url}/v1: " in given.error["message"]


async def test_an_engines_failure_is_in_the_log_and_a_clients_is_not(
    router: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    await router.engine(Engine(tokenize=[answer({}, 500), answer({}, 400)]))
    assert [(await router.responses(input="hi")).status for _ in range(2)] == [502, 400]
    (line,) = capsys.readouterr().err.splitlines()
    assert " event=count_failed model=m group=glm error=" in line
    assert "HTTP 500" in line


async def test_a_huge_answer_is_a_502(router: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mentatd.serve.tokens.engine.ANSWER_LIMIT", 1000)
    await router.engine(Engine(tokenize=answer({"count": 14, "tokens": [1] * 1000})))
    assert (await router.responses(input="hi")).status == 502


async def test_a_question_is_sent_once(router: Counting) -> None:
    questions: list[bytes] = []

    async def script(line: Line) -> None:
        questions.append(await line.request())

    await router.engine(script)
    assert (await router.responses(input="hi")).status == 502
    assert len(questions) == 1


async def test_an_address_that_takes_no_connection_is_passed_over(router: Counting) -> None:
    dead = f"http://127.0.0.1:{free_port()}/v1"
    engine = Engine(apply_template=answer({"prompt": "hi"}), tokenize=answer({"tokens": [1, 2]}))
    await router.engine(engine, "llamacpp", dead)
    assert (await router.responses(input="hi")).json["input_tokens"] == 2
    assert engine.paths == [RESPONSES_PATH, "/apply-template", "/tokenize"]
    assert router.cluster.suspects == [("glm", dead)]


@pytest.mark.parametrize("path", [RESPONSES_PATH, ANTHROPIC_PATH])
async def test_where_no_address_takes_one_it_is_a_502_that_names_them(router: Counting, path: str) -> None:
    dead = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    router.route("vllm", *(f"{url}/v1" for url in dead))
    given = await router.post(path, BODY)
    assert (given.status, given.error["code"]) == (502, "engine_unreachable")
    assert all(f"{url}: connection refused" in given.error["message"] for url in dead)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"])
async def test_an_engine_that_takes_too_long_is_a_504(begun: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(begun)
        await line.closed()

    async with counting(timeout_s=0.05) as router:
        await router.engine(script)
        for given in await router.responses(input="hi"), await router.messages(messages=HI):
            assert (given.status, given.error["code"]) == (504, "engine_timeout")
            assert "within 0.05 s" in given.error["message"]


async def test_a_connect_that_outlasts_the_deadline_is_a_504() -> None:
    async with counting(timeout_s=0.05) as router:
        engine = await router.engine(Line.closed)
        # a TLS handshake that nobody answers
        silent = f"https://127.0.0.1:{engine.port}/v1"
        router.route("vllm", silent)
        given = await router.responses(input="hi")
        assert (given.status, given.error["code"]) == (504, "engine_timeout")
        assert router.cluster.suspects == [("glm", silent)]


async def test_a_client_that_leaves_ends_the_question(router: Counting) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        asked.set()
        await line.closed()
        closed.set()

    await router.engine(script)
    _, writer = await asyncio.open_connection("127.0.0.1", router.server.port)
    head = f"POST {RESPONSES_PATH} HTTP/1.1\r\nHost: r\r\nContent-Length: {len(BODY)}\r\n\r\n"
    writer.write(head.encode() + BODY)
    async with within():
        await asked.wait()
        writer.close()
        await closed.wait()


async def test_one_connection_carries_many_counts(router: Counting) -> None:
    await router.engine(Engine(tokenize=[answer({"count": 1}), answer({"count": 2})]))
    reader, writer = await asyncio.open_connection("127.0.0.1", router.server.port)
    head = f"POST {RESPONSES_PATH} HTTP/1.1\r\nHost: r\r\nContent-Length: {len(BODY)}\r\n\r\n"
    writer.write((head.encode() + BODY) * 2)
    counts = []
    async with within():
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            counts.append(json.loads(await reader.readuntil(b"}"))["input_tokens"])
    writer.close()
    assert counts == [1, 2]
