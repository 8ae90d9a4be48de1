"""Real programs on hosts that are network namespaces (`make test-network`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.network.hosts import Host, Network, lacking
from tests.network.site import Site


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("network")


@pytest.fixture(scope="session")
def permitted() -> None:
    if why := lacking():
        pytest.skip(why)


@pytest.fixture
def hosts(permitted: None) -> Iterator[tuple[Host, ...]]:
    """a, b and c, each on the fabric and on the LAN."""
    with Network() as network:
        yield tuple(network.hosts)


@pytest.fixture
def site(hosts: tuple[Host, ...], tmp_path: Path) -> Iterator[Site]:
    """Starts programs on the hosts, and ends them before their network goes."""
    with Site(tmp_path) as site:
        yield site
