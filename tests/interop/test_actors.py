"""A group that offers GPUs is admitted by a running actor: a real one, which the published daemon places."""

from __future__ import annotations

from tests.interop.driver import driving
from tests.interop.mixed import Mixed
from tests.support.engine import Engine


def test_a_running_actor_admits_and_its_end_takes_the_model_away(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.mentatd()
    router = mixed.router(daemon, POLL_INTERVAL_S="3600")
    mixed.agent(daemon, "glm", f"{engine.port}/v1", gpus=1)
    router.wait(lambda status: status["groups"].get("glm", {}).get("why_not") == "no running actors")
    with driving(daemon, "glm") as driver:
        actor = driver.place("w0")
        router.wait_models("tiny")
        assert router.status()["groups"]["glm"]["actors_running"] == 1
        driver.kill(actor)
        status = router.wait(lambda status: not status["models"])
        assert status["groups"]["glm"]["why_not"] == "no running actors"


def test_the_end_of_the_drivers_session_takes_the_model_away(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.mentatd()
    router = mixed.router(daemon, POLL_INTERVAL_S="3600")
    mixed.agent(daemon, "glm", f"{engine.port}/v1", gpus=1)
    with driving(daemon, "glm") as driver:
        driver.place("w0")
        router.wait_models("tiny")
    status = router.wait(lambda status: not status["models"])
    assert status["groups"]["glm"]["why_not"] == "no running actors"
