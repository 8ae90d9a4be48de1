"""With the published mentat (`make test-interop`); `make interop-setup` builds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.mixed import Mixed
from tests.interop.published import CACHE, PROGRAMS, RELEASES, program
from tests.support.engine import Engine, running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("interop")


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Each release in turn."""
    release: str = request.param
    if not all(program(release, name).exists() for name in PROGRAMS):
        pytest.skip(
            f"the published mentat {release} is not in {CACHE}: make interop-setup builds it (needs cargo)"
        )
    return release


@pytest.fixture
def mixed(release: str, tmp_path: Path) -> Iterator[Mixed]:
    """A cluster of our programs and the published ones."""
    with Mixed(tmp_path, release) as mixed:
        yield mixed


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine that lists the model `tiny`."""
    with running("tiny") as engine:
        yield engine
