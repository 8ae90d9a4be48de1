"""Where the published router and ours differ in what users see most; docs/compatibility.md says why."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interop.mixed import Mixed
from tests.interop.published import FOLLOWED
from tests.support.cluster import JSON
from tests.support.engine import Engine
from tests.support.ports import free_port


@pytest.mark.parametrize(("gpus", "ours"), [(0, True), (1, False)])
def test_a_group_in_which_nothing_was_placed(mixed: Mixed, engine: Engine, gpus: int, ours: bool) -> None:
    daemon = mixed.mentatd()
    mixed.agent(daemon, "glm", f"{engine.port}/v1", gpus=gpus)
    theirs = mixed.release != FOLLOWED
    for router, expected in ((mixed.router(daemon), ours), (mixed.mentatd_serve(daemon), theirs)):
        group = router.wait(lambda status: _judged(status, "glm"))["groups"]["glm"]
        assert (group["healthy"], group["why_not"]) == (
            (True, None) if expected else (False, "no running actors")
        )


def test_the_published_router_reads_lite(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.daemon()
    mixed.register(daemon, "glm", f"{engine.port}/v1", "--provider vllm")
    router = mixed.mentatd_serve(daemon)
    group = router.wait(lambda status: _judged(status, "glm"))["groups"]["glm"]
    url = f"http://127.0.0.1:{engine.port}/v1"
    assert (group["agents_alive"], group["openai"], group["provider"]) == (1, url, "vllm")
    assert router.models() == ([] if mixed.release == FOLLOWED else ["tiny"])


def test_a_clients_own_fields_reach_the_engine_through_ours_only(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.daemon()
    mixed.register(daemon, "glm", f"{engine.port}/v1")
    fields = JSON | {"Authorization": "Bearer key", "X-Request-Id": "7"}
    for router, passed in ((mixed.router(daemon), ["Bearer key"]), (mixed.mentatd_serve(daemon), [])):
        router.wait(lambda status: _judged(status, "glm"))
        if router.models():
            router.ask("POST", "/tokenize", b'{"model":"tiny","prompt":"x"}', fields)
            assert engine.posts()[-1].fields("authorization") == passed


def test_the_announce_port_is_not_shared_and_ours_goes_by_its_seeds(mixed: Mixed, engine: Engine) -> None:
    port = str(free_port())
    daemon = mixed.daemon()
    mixed.register(daemon, "glm", f"{engine.port}/v1")
    mixed.mentatd_serve(daemon, MENTAT_ANNOUNCE_PORT=port).command.event("announce_listen")
    router = mixed.router(daemon, MENTAT_ANNOUNCE_PORT=port)
    router.command.event("announce_listen_failed")
    router.wait_models("tiny")


def _judged(status: Any, group: str) -> bool:
    """Whether a router has come to an opinion about the group."""
    why_not: str | None = status["groups"].get(group, {}).get("why_not", "not probed yet")
    return why_not != "not probed yet"
