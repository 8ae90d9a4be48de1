"""`/history.json`, and what is new in it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.serve.monitor.recorder import Recorder
from tests.serve.monitor.rows import GLM, row, table
from tests.serve.monitor.test_series import World as SeriesWorld
from tests.serve.monitor.test_timeline import Followed
from tests.support.deadlines import until

from mentatd.http.connection import Connection
from mentatd.http.request import Head, Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answering
from mentatd.serve.monitor.history import History, Mark
from mentatd.serve.monitor.traffic import FINISHED_KEPT, UNKNOWN


class World:
    """A history whose sources the test feeds."""

    def __init__(self) -> None:
        self.points = SeriesWorld()
        self.traffic = self.points.traffic
        self.followed = Followed()
        self.answering = Answering()
        self.wall = self.points.wall
        self.history = History(
            self.traffic, self.followed.timeline, self.points.series, self.answering, wall_clock=self.wall
        )
        self.now = self.points.series._since

    def finish(self, id_: str = "1", status: int = 200, failure: str | None = None) -> None:
        done = row(id_, started=self.now - 3.0, first=self.now - 2.5, ended=self.now, out=99)
        done.status, done.failure = status, failure
        self.traffic.finished(done)

    async def get(self) -> dict[str, Any]:
        connection = Recorder()
        self.history.handle(Request(Head("GET", b"/history.json")), cast("Connection", connection))
        await until(lambda: connection.answered)
        assert connection.answered is not None
        assert connection.answered[0] == 200
        document: dict[str, Any] = json.loads(connection.answered[1])
        return document

    def recent(self, since: Mark) -> dict[str, Any] | None:
        found = self.history.recent(since)
        return None if found is None else json.loads(found)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    w = World()
    yield w
    await w.answering.close()


async def test_an_empty_history() -> None:
    async with world() as w:
        assert await w.get() == {
            "at": w.wall.now,
            "finished": [],
            "refused": [],
            "changes": [],
            "series": {"step_s": 2.0, "at": [], "models": []},
        }


async def test_the_rows_of_a_history() -> None:
    async with world() as w:
        w.finish("a", 504, "no complete answer")
        w.traffic.refused(
            refusals.model_not_found("gpt-4", [], {}),
            Request(Head("POST", b"/v1/x"), peer="192.168.1.9"),
            True,
        )
        w.followed.cluster.table = table({"glm": ["glm-5"]})
        w.followed.timeline.look()
        w.points.take()
        document = await w.get()
        (finished,) = document["finished"]
        assert abs(finished.pop("at") - w.wall.now) < 5
        assert finished == {
            "id": "a",
            "model": "glm-5",
            "group": "glm",
            "address": GLM,
            "client": "192.168.1.9",
            "path": "/v1/chat/completions",
            "prompt_bytes": 17,
            "stream": True,
            "status": 504,
            "outcome": "timeout",
            "failure": "no complete answer",
            "ttfb_s": 0.5,
            "duration_s": 3.0,
            "out_bytes": 99,
        }
        (refused,) = document["refused"]
        assert abs(refused.pop("at") - w.wall.now) < 1e9
        assert refused == {
            "id": "r1",
            "status": 404,
            "outcome": "model_not_found",
            "failure": "nothing here serves the model 'gpt-4'",
            "client": "192.168.1.9",
            "path": "/v1/x",
            "model": UNKNOWN,
            "group": "",
        }
        assert document["changes"] == [
            {"id": "c1", "at": 1_800_000_000.0, "kind": "group_admitted", "subject": "glm", "detail": GLM}
        ]
        (model,) = document["series"]["models"]
        assert document["series"]["at"] == [w.wall.now]
        assert (model["model"], model["group"], model["proxied"], model["kv"]) == (
            "glm-5",
            "glm",
            [0.0],
            None,
        )


async def test_a_request_without_a_byte_has_no_time_to_it() -> None:
    async with world() as w:
        w.traffic.finished(row(started=w.now, ended=w.now + 1, status=502, failure="refused"))
        (finished,) = (await w.get())["finished"]
        assert (finished["ttfb_s"], finished["duration_s"]) == (None, 1.0)


async def test_what_is_new_since_a_mark() -> None:
    async with world() as w:
        mark = w.history.mark()
        assert w.recent(mark) is None
        w.finish("a")
        w.finish("b")
        first = w.recent(mark)
        assert first is not None
        assert [r["id"] for r in first["finished"]] == ["a", "b"]
        assert (first["refused"], first["changes"], first["point"]) == ([], [], None)
        mark = w.history.mark()
        w.points.take()
        second = w.recent(mark)
        assert second is not None
        assert second["finished"] == []
        assert second["point"]["at"] == w.wall.now
        assert [(m["model"], m["proxied"], m["kv"]) for m in second["point"]["models"]] == [
            ("glm-5", 0.0, None)
        ]


async def test_of_more_than_is_kept_the_newest_are_new() -> None:
    async with world() as w:
        mark = w.history.mark()
        for n in range(FINISHED_KEPT + 5):
            w.finish(str(n))
        found = w.recent(mark)
        assert found is not None
        assert [r["id"] for r in found["finished"]] == [str(n) for n in range(5, FINISHED_KEPT + 5)]
