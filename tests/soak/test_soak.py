"""A minute of good and bad traffic on 200 connections leaves the router as it was."""

from __future__ import annotations

import os

from tests.soak.conftest import Bench

SECONDS = int(os.environ.get("SOAK_S", "60"))
GROWTH = 8 * 1024 * 1024
"""Bytes of memory that the allocator may keep."""


async def test_mixed_traffic_leaves_nothing_behind(bench: Bench) -> None:
    await bench.clients("mixed", max(SECONDS // 4, 5))
    before = await bench.at_rest()
    told = await bench.clients("mixed", SECONDS)
    after = await bench.at_rest()
    # bad engines and bad clients cost good ones nothing
    assert told["wrong"] == {}
    assert min(told["done"].values()) > SECONDS
    assert after == before
    assert after.resident - before.resident < GROWTH, (before, after)


async def test_ten_thousand_clients_that_leave_leave_nothing_behind(bench: Bench) -> None:
    await bench.clients("leaving", 2_000)
    before = await bench.at_rest()
    await bench.clients("leaving", 10_000)
    after = await bench.at_rest()
    assert after == before
    assert after.resident - before.resident < GROWTH, (before, after)


async def test_engines_that_close_idle_connections_cost_no_request(bench: Bench) -> None:
    told = await bench.clients("trickling", 500)
    assert set(told["done"].values()) == {500}
    # one that says nothing and closes after a second may cost one, before it is known
    unannounced = told["wrong"].pop("shuts-1", 0)
    assert unannounced <= 1
    assert told["wrong"] == {}
    assert max((await bench.engines_told()).values()) == 1
