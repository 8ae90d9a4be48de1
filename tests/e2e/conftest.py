"""End to end: the real commands, each a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.engine import Engine, running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine that lists the model `tiny`."""
    with running("tiny") as engine:
        yield engine
