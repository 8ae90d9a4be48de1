"""End to end: the real commands, each a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tests.support.cluster import Cluster, Router
from tests.support.engine import Engine, running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("e2e")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Router, Engine]]:
    """A router that routes `tiny` to an engine of the group `glm`; processes are dear, so that tests share it."""
    with running("tiny") as engine, Cluster(tmp_path_factory.mktemp("standing")) as cluster:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1")
        router = cluster.router(daemon)
        yield router, engine


@pytest.fixture
def engine(standing: tuple[Router, Engine]) -> Engine:
    """An engine that lists the model `tiny`, with no script, and no request received but probes."""
    engine = standing[1]
    engine.forget()
    return engine


@pytest.fixture
def router(standing: tuple[Router, Engine]) -> Router:
    """The router in front of `engine`, for tests that leave it as it is."""
    router = standing[0]
    router.wait_models("tiny")
    return router


@pytest.fixture
def client(router: Router) -> Iterator[OpenAI]:
    """The SDK as its users set it up, without its own retries."""
    with OpenAI(base_url=f"{router.base}/v1", api_key="sk-test", max_retries=0) as client:
        yield client
