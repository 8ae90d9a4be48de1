"""The compose file: what it starts, and that every variable reaches its program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.packaging.image import array, one
from tests.support.commands import BIN

from mentatd.lite.settings import OPTIONS
from mentatd.settings import DRAIN_S, VARIABLES

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    import yaml

    document = yaml.safe_load((Path(__file__).parents[2] / "compose.yaml").read_text())
    services: dict[str, Any] = document["services"]
    return services


def test_a_variable_of_the_shell_reaches_its_program(services: dict[str, Any]) -> None:
    """By its name alone, which compose passes on as unset where it is unset."""
    assert services["router"]["environment"] == [variable.name for variable in VARIABLES]
    assert sorted(services["daemon"]["environment"]) == sorted(o.variable for o in OPTIONS if o.variable)


def test_each_is_on_the_hosts_network_and_may_do_little(services: dict[str, Any]) -> None:
    for service in services.values():
        assert service["network_mode"] == "host"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_daemon_is_asked_for(services: dict[str, Any]) -> None:
    """Beside a published daemon a second one would be in its way."""
    assert "profiles" not in services["router"]
    assert services["daemon"]["profiles"] == ["lite"]
    (command,) = services["daemon"]["entrypoint"]
    assert (BIN / command).exists()
    assert services["daemon"]["healthcheck"]["test"] == ["CMD", *array(one("HEALTHCHECK")), "6380"]


def test_a_router_may_drain_before_it_is_killed(services: dict[str, Any]) -> None:
    grace = services["router"]["stop_grace_period"]
    assert float(grace.removesuffix("s")) > DRAIN_S.parse(DRAIN_S.default)
