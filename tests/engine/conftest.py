"""A real engine behind the real commands (`make test-engine`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI
from tests.support.cluster import Cluster, Router
from tests.support.commands import Command
from tests.support.ports import free_port

CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
"""Of the user: the weights are joined there once."""
MODEL = "gemma-3-270m"
PATIENCE_S = 240.0
"""For a load or an answer on a machine that has other work."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("engine")
            item.add_marker(pytest.mark.timeout(2 * PATIENCE_S))


@dataclass(frozen=True, slots=True)
class Served:
    """A llama.cpp server and the router that found it."""

    router: Router
    port: int
    folder: Path

    @contextmanager
    def engine(self) -> Iterator[Command]:
        """A server process that has loaded its model."""
        argv = [sys.executable, "-m", "mentatd.demo.llama", "--port", str(self.port), "--model", MODEL]
        process = Command(argv, {"XDG_CACHE_HOME": CACHE}, self.folder / "engine.log")
        try:
            process.event("engine_up", within_s=PATIENCE_S)
            self.router.wait_models(MODEL)
            yield process
        finally:
            process.close()


@contextmanager
def registered(folder: Path) -> Iterator[Served]:
    """The router, and an engine's port on which nothing listens yet."""
    port = free_port()
    with Cluster(folder) as cluster:
        daemon = cluster.daemon()
        cluster.register(daemon, "gemma", f"{port}/v1", "--provider llamacpp")
        yield Served(cluster.router(daemon, PROBE_TIMEOUT_S="10"), port, folder)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A running engine that the tests share."""
    with registered(tmp_path_factory.mktemp("served")) as served, served.engine():
        yield served


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Served]:
    """An engine of the test's own, to be started and killed."""
    with registered(tmp_path) as idle:
        yield idle


@contextmanager
def sdk(served: Served) -> Iterator[OpenAI]:
    url = f"{served.router.base}/v1"
    with OpenAI(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture
def client(served: Served) -> Iterator[OpenAI]:
    with sdk(served) as client:
        yield client
