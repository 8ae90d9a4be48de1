"""The addresses of a host, and what is said of those that did not take a connection."""

from __future__ import annotations

import pytest

from mentatd.http.dialing import addresses_of, summary
from mentatd.origin import Origin


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.2", "::1", "fd00::2"])
async def test_an_address_waits_for_nobody(host: str) -> None:
    finding = addresses_of(Origin(host, 80))
    with pytest.raises(StopIteration) as done:
        finding.send(None)
    assert tuple(done.value.value) == (host,)


async def test_a_name_is_looked_up() -> None:
    assert "127.0.0.1" in await addresses_of(Origin("localhost", 80))


@pytest.mark.parametrize("host", ["a\0b", "x" * 300])
async def test_what_has_no_address(host: str) -> None:
    with pytest.raises((OSError, ValueError)):
        await addresses_of(Origin(host, 80))


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ({}, "the name has no address"),
        ({"a": "refused", "b": "refused"}, "refused"),
        ({"a": "refused", "b": "timed out"}, "a: refused; b: timed out"),
    ],
)
def test_what_came_back_is_said_once(failures: dict[str, str], said: str) -> None:
    assert summary(failures) == said
