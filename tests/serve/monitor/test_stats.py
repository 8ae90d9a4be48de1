"""`/stats.json`: its rows, its additions, and that a long list leaves the loop to others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.serve.monitor.recorder import Recorder
from tests.serve.monitor.rows import GLM, Published, row, table
from tests.support.clock import Clock
from tests.support.deadlines import until

from mentatd import __version__
from mentatd.http.connection import Connection
from mentatd.http.request import Head, Request
from mentatd.serve.answering import Answering
from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.monitor.engines import UNREAD, Engines, Reading
from mentatd.serve.monitor.rendering import ROWS_A_TURN, encode_rows
from mentatd.serve.monitor.stats import Stats, carried, model_rows, request_row
from mentatd.serve.monitor.traffic import PATH_LIMIT
from mentatd.wire.enginemetrics import Figures

NOTHING = dict.fromkeys(
    (
        *("running", "waiting", "kv", "prompt_tokens", "generation_tokens", "preemptions"),
        *("ttft_s", "queue_s", "itl_s", "finished", "engine_error"),
    )
)


class Readings:
    """Engines that have been read already."""

    def __init__(self, **groups: Reading) -> None:
        self.groups = groups
        self.looks = 0

    def reading(self, group: str) -> Reading:
        return self.groups.get(group, UNREAD)

    async def looked(self) -> None:
        self.looks += 1


def rows(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    return list(model_rows(*args, **kwargs))


def test_a_model_of_a_group_that_serves() -> None:
    figures = Figures(2, 1, 0.5, 72, 24, 0, 0.1, 0.2, 0.3, {"stop": 4})
    readings = Readings(glm=Reading(0.0, {"glm-5": figures}))
    assert rows(table({"glm": ["glm-5"]}), readings.reading, {("glm-5", "glm"): 3}, now=1.0) == [
        {
            "model": "glm-5",
            "group": "glm",
            "provider": "",
            "healthy": True,
            "why_not": None,
            "url": GLM,
            "inflight": 3,
            "running": 2,
            "waiting": 1,
            "kv": 0.5,
            "prompt_tokens": 72,
            "generation_tokens": 24,
            "preemptions": 0,
            "ttft_s": 0.1,
            "queue_s": 0.2,
            "itl_s": 0.3,
            "finished": {"stop": 4},
            "engine_error": None,
        }
    ]


def test_a_group_that_cannot_serve_keeps_one_row() -> None:
    """What it still carries counts, whatever model was named."""
    failing = table({}, failing=["glm"])
    (found,) = rows(
        failing, Readings().reading, {("glm-5", "glm"): 2, ("x", "glm"): 1, ("y", "o"): 7}, now=1.0
    )
    assert found == {
        "model": "glm",
        "group": "glm",
        "provider": "",
        "healthy": False,
        "why_not": f"endpoint probe failed: {GLM}: connection refused",
        "url": None,
        "inflight": 3,
        **NOTHING,
    }


def test_a_stale_group_cannot_serve_though_the_table_has_its_route() -> None:
    readings = Readings(glm=Reading(0.0, {"glm-5": Figures(running=1)}))
    (found,) = rows(table({"glm": ["glm-5", "b"]}), readings.reading, {}, now=61.0)
    assert (found["model"], found["why_not"], found["running"]) == ("glm", "endpoint probe stale", None)


def test_a_model_that_two_groups_serve_has_a_row_for_each() -> None:
    both = table({"a": ["m", "only-a", "m"], "b": ["m"]})
    readings = Readings(a=Reading(0.0, {"m": Figures(running=1)}), b=Reading(0.0, {}, "HTTP 404"))
    found = rows(both, readings.reading, {("m", "b"): 4}, now=1.0)
    assert [(r["model"], r["group"], r["inflight"], r["running"], r["engine_error"]) for r in found] == [
        ("m", "a", 0, 1, None),
        ("only-a", "a", 0, None, None),
        ("m", "b", 4, None, "HTTP 404"),
    ]


def test_a_request_that_waits_and_one_that_streams() -> None:
    waiting = row(started=10.0)
    assert request_row(waiting, 12.5) == {
        "id": "1",
        "model": "glm-5",
        "group": "glm",
        "address": GLM,
        "client": "192.168.1.9",
        "path": "/v1/chat/completions",
        "prompt_bytes": 17,
        "stream": True,
        "age_s": 2.5,
        "state": "waiting",
        "ttfb_s": None,
        "out_bytes": 0,
    }
    streaming = request_row(row(started=10.0, first=11.25, out=99, path="/" + "x" * 9000), 12.5)
    assert (streaming["state"], streaming["ttfb_s"], streaming["out_bytes"]) == ("streaming", 1.25, 99)
    assert len(streaming["path"]) == PATH_LIMIT


def test_what_is_carried() -> None:
    assert carried([row("1"), row("2"), row("3", model="b")]) == {("glm-5", "glm"): 2, ("b", "glm"): 1}


class Carrier:
    def deadline_passed(self) -> None:
        raise AssertionError

    def keep_waiting(self, now: float, interval_s: float) -> None:
        raise AssertionError


def enter(inflight: Inflight, number: int) -> list[Row]:
    rows = [row(started=asyncio.get_running_loop().time()) for _ in range(number)]
    for entered in rows:
        inflight.enter(entered, Carrier())
    return rows


class World:
    def __init__(self) -> None:
        self.inflight = Inflight(60.0)
        self.readings = Readings()
        self.answering = Answering()
        self.clock = Clock()
        self.stats = Stats(
            Published(table({"glm": ["glm-5"]}, now=self.clock())),
            self.inflight,
            cast("Engines", self.readings),
            self.answering,
            clock=self.clock,
            wall_clock=lambda: 1_800_000_000.0,
        )

    async def get(self) -> dict[str, Any]:
        connection = Recorder()
        self.stats.handle(Request(Head("GET", b"/stats.json")), cast("Connection", connection))
        await until(lambda: connection.answered)
        assert connection.answered is not None
        status, body, content_type = connection.answered
        assert (status, content_type) == (200, b"application/json")
        document: dict[str, Any] = json.loads(body)
        return document


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    w = World()
    yield w
    await w.answering.close()
    w.inflight.close()


async def test_the_document() -> None:
    async with world() as w:
        first, second = enter(w.inflight, 2)
        w.clock.now += 1.5
        document = await w.get()
        assert w.readings.looks == 1
        assert [r["id"] for r in document.pop("requests")] == [first.id, second.id]
        assert [(r["model"], r["inflight"]) for r in document.pop("models")] == [("glm-5", 2)]
        assert document == {
            "uptime_s": 1.5,
            "at": 1_800_000_000.0,
            "version": __version__,
            "in_flight": 2,
        }
        w.inflight.leave(first, 200, None)
        w.inflight.leave(second, 499, "the client left")
        assert (await w.get())["requests"] == []


async def test_a_limit_leaves_out_the_youngest_and_the_count_stays() -> None:
    async with world() as w:
        oldest = enter(w.inflight, 5)[:2]
        rendered = await w.stats.render(2)
        assert [r["id"] for r in json.loads(bytes(rendered.requests))] == [r.id for r in oldest]
        assert rendered.in_flight == 5


async def test_thousands_of_rows_leave_the_loop_to_others() -> None:
    async with world() as w:
        enter(w.inflight, 5000)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        document = await w.get()
        other.cancel()
        assert len(document["requests"]) == document["in_flight"] == 5000
        assert turns >= 5000 // ROWS_A_TURN


async def test_rows_are_made_only_as_they_are_written() -> None:
    assert bytes(await encode_rows([])) == b"[]"
    assert bytes(await encode_rows(iter([{"a": 1}]))) == b'[{"a":1}]'
    assert json.loads(bytes(await encode_rows(range(7), a_turn=3))) == list(range(7))
