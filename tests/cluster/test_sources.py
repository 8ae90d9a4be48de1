"""ALLOWED_SOURCES and this box's own networks."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.cluster.sources import AllowedSources, LocalNetworks, parse_address, parse_entry

NOWHERE = LocalNetworks(frozenset())
HOME = LocalNetworks(frozenset({ip_network("192.168.7.0/24"), ip_network("fd00:7::/64")}))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("FD00:0:0::1", "fd00::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::FFFF:a00:1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:10.0.0.1%2", "10.0.0.1"),
    ],
)
def test_an_address_has_one_text(text: str, canonical: str) -> None:
    assert str(parse_address(text)) == canonical


@pytest.mark.parametrize(
    "text", ["", "node1", "10.0.0", "010.0.0.1", "10.0.0.1%eth0", "[::1]", "::1::", "1.2.3.4:5"]
)
def test_anything_else_is_no_address(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("192.168.7.9", True),
        ("192.168.8.9", False),
        ("fd00:7::9", True),
        ("fd00:8::9", False),
        ("::ffff:192.168.7.9", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("node1", False),
    ],
)
def test_own_networks(host: str, own: bool) -> None:
    assert (host in HOME) is own


def test_loopback_is_own_though_not_listed() -> None:
    assert "127.0.0.1" in NOWHERE
    assert "10.0.0.1" not in NOWHERE


@pytest.mark.parametrize(
    ("entry", "host", "allowed"),
    [
        ("172.", "172.17.0.5", True),
        ("172.", "17.2.0.5", False),
        ("10.100.0.", "10.100.0.7", True),
        ("10.100.0.", "10.100.1.7", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.1", "10.0.0.12", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::1", "::1", True),
        ("::1", "0:0::1", True),
        ("::1", "fd00::1", False),
        ("FD00:", "fd00::5", True),
        ("fd00:0:0::5", "fd00::5", True),
        ("10.", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80:", "fe80::1%eth0", True),
        ("fe80::1%eth1", "fe80::1%eth0", True),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.0/255.0.0.0", "10.9.9.9", True),
        ("0.0.0.0/0", "8.8.8.8", True),
        ("0.0.0.0/0", "fd00::1", False),
        ("::/0", "fd00::1", True),
        ("::/0", "10.0.0.1", False),
        ("FD00::/8", "fdff::1", True),
        ("::ffff:10.0.0.0/104", "10.9.9.9", True),
        ("::ffff:10.0.0.0/104", "11.0.0.1", False),
        ("::ffff:0:0/95", "10.0.0.1", False),
        ("local", "192.168.7.9", True),
        ("LOCAL", "fd00:7::9", True),
        ("local", "127.0.0.1", True),
        ("local", "192.168.8.9", False),
        ("", "10.0.0.1", False),
        (" ", "10.0.0.1", False),
        ("10.", "10.example.org", False),
        ("10.", "", False),
    ],
)
def test_an_entry(entry: str, host: str, allowed: bool) -> None:
    assert AllowedSources((entry,)).allows(host, HOME) is allowed


def test_any_entry_will_do_and_none_allows_nothing() -> None:
    sources = AllowedSources(("10.", "192.168.9.0/24", "local"))
    assert all(sources.allows(host, HOME) for host in ("10.0.0.1", "192.168.9.1", "192.168.7.1"))
    assert not AllowedSources(()).allows("127.0.0.1", HOME)


@pytest.mark.parametrize(
    "entry", ["node1", "10.0.0.0/33", "10/8", "fd00::/129", "10.*", "/", "[::1]", "10. 0"]
)
def test_an_entry_that_could_match_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_entry(entry)
    with pytest.raises(ValueError, match=r".+"):
        AllowedSources(("10.", entry))


def test_equal_by_entries_and_shown_as_configured() -> None:
    assert AllowedSources(("10.",)) == AllowedSources(("10.",))
    assert repr(AllowedSources(("10.", "LOCAL"))) == "AllowedSources(entries=('10.', 'LOCAL'))"


@given(st.ip_addresses())
def test_a_whole_address_and_its_own_block_allow_it(address: IPv4Address | IPv6Address) -> None:
    assert AllowedSources((str(address),)).allows(str(address), NOWHERE)
    assert AllowedSources((f"{address}/{address.max_prefixlen}",)).allows(str(address), NOWHERE)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_its_ipv4_address(address: IPv4Address) -> None:
    assert parse_address(f"::ffff:{address}") == ip_address(address)


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    parse_address(text)
    assert text not in NOWHERE or parse_address(text) is not None
    try:
        AllowedSources((text,)).allows("10.0.0.1", HOME)
    except ValueError:
        pass
