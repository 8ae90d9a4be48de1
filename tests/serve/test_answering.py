"""Answers that take time: written whole, ended when the client leaves, and a crash is nobody else's."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.support.deadlines import until, within

from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.refusals import origin_not_allowed


class Client:
    """A connection as far as an answer knows it."""

    def __init__(self) -> None:
        self.flow: Any = None
        self.answers: list[Any] = []

    def answer(self, *answer: Any) -> None:
        self.answers.append(answer)

    def refuse(self, refusal: Refusal) -> None:
        self.answers.append(refusal)

    async def answered(self) -> Any:
        async with within():
            await until(lambda: self.answers)
        (answer,) = self.answers
        return answer


def later(answering: Answering, work: Any) -> Client:
    client = Client()
    answering.later(cast(Connection, client), work, "test")
    return client


async def test_a_reply_is_written_whole() -> None:
    async def work() -> Reply:
        return Reply(207, b"body", b"text/plain", ((b"A", b"b"),))

    answering = Answering()
    assert await later(answering, work()).answered() == (207, b"body", b"text/plain", ((b"A", b"b"),))
    await answering.close()


async def test_a_refusal_is_refused() -> None:
    async def work() -> Refusal:
        return origin_not_allowed()

    answering = Answering()
    assert await later(answering, work()).answered() == origin_not_allowed()
    await answering.close()


async def test_a_crash_is_a_500_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    go_on = asyncio.Event()

    async def crash() -> Reply:
        raise KeyError("x")

    async def work() -> Reply:
        await go_on.wait()
        return Reply(200, b"")

    answering = Answering()
    other = later(answering, work())
    assert (await later(answering, crash()).answered()).status == 500
    (line,) = capsys.readouterr().err.splitlines()
    assert "event=request_crashed" in line
    assert "KeyError" in line
    go_on.set()
    assert (await other.answered())[0] == 200
    await answering.close()


async def test_a_client_that_leaves_ends_its_answer_and_no_other() -> None:
    ended: list[str] = []

    async def work(name: str) -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        raise AssertionError("unreachable")

    answering = Answering()
    first, second = later(answering, work("first")), later(answering, work("second"))
    await asyncio.sleep(0)
    first.flow.client_paused()
    first.flow.client_resumed()
    first.flow.client_lost()
    async with within():
        await until(lambda: ended)
    assert ended == ["first"]
    await answering.close()
    assert ended == ["first", "second"]
    assert first.answers == second.answers == []
