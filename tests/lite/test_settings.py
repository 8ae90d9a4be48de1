"""What a lite daemon is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mentatd.errors import SettingsError
from mentatd.lite.settings import OPTIONS, Lifetimes, LiteSettings, Pattern, read_settings
from mentatd.lite.state import Address
from mentatd.options import parse

DOCS = Path(__file__).parents[2] / "docs" / "lite.md"


def read(*argv: str, **environ: str) -> LiteSettings:
    return read_settings(parse("it", "", OPTIONS, argv, environ), environ)


def test_nothing_said() -> None:
    assert read() == LiteSettings(
        bind="",
        port=6379,
        http_port=6380,
        node_ip="",
        universe="default",
        announce_port=6382,
        announce_to=(),
        ifaces=(),
        addrs=(),
        announce_interval_s=5.0,
        peers=(),
        lifetimes=Lifetimes(
            history_keep_ms=600_000,
            agent_degraded_ms=30_000,
            agent_dead_ms=60_000,
            peer_status_ms=2_000,
            peer_stale_ms=30_000,
            peer_dead_ms=60_000,
        ),
        generation="A",
        secret=None,
    )


def test_everything_said() -> None:
    settings = read(
        "--port",
        "0",
        "--http-port",
        "1",
        "--proto",
        "0.99",
        MENTAT_BIND="127.0.0.2",
        MENTAT_NODE_IP="10.0.0.1",
        MENTAT_UNIVERSE="lab",
        MENTAT_ANNOUNCE_PORT="7000",
        MENTAT_ANNOUNCE_ADDR="router.local, 10.0.0.9:7001,,[fd00::1]:7002",
        MENTAT_ANNOUNCE_INTERVAL_S="0.5",
        MENTAT_ANNOUNCE_IFACES="enp1*=connectx + rdma, eno?,,wlan0=",
        MENTAT_ANNOUNCE_ADDRS="10.0.0.1=rdma,fd00::0001",
        MENTAT_PEERS="10.0.0.2,box:7003",
        MENTAT_HISTORY_KEEP_MS="1000",
        MENTAT_AGENT_DEGRADED_AFTER_MS="1",
        MENTAT_AGENT_DEAD_AFTER_MS="2",
        MENTAT_PEER_STATUS_INTERVAL_MS="100",
        MENTAT_PEER_STALE_AFTER_MS="4",
        MENTAT_PEER_DEAD_AFTER_MS="5",
        MENTAT_SECRET=" k ",
    )
    assert settings == LiteSettings(
        bind="127.0.0.2",
        port=0,
        http_port=1,
        node_ip="10.0.0.1",
        universe="lab",
        announce_port=7000,
        announce_to=(("router.local", 7000), ("10.0.0.9", 7001), ("fd00::1", 7002)),
        ifaces=(Pattern("enp1*", ("connectx", "rdma")), Pattern("eno?"), Pattern("wlan0")),
        addrs=(Address("10.0.0.1", tags=("rdma",)), Address("fd00::1")),
        announce_interval_s=0.5,
        peers=(("10.0.0.2", 6379), ("box", 7003)),
        lifetimes=Lifetimes(1000, 1, 2, 100, 4, 5),
        generation="B",
        secret=b"k",
    )
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("--bind", "localhost"), "--bind"),
        (("--bind", "0.0.0.0"), "--bind"),
        (("--port", "x"), "--port"),
        (("--http-port", "65536"), "--http-port"),
        (("--node-ip", "box"), "--node-ip"),
        (("--announce-port", "-1"), "--announce-port"),
        (("--universe", "\udcff"), "--universe"),
        (("--announce-addr", "a b"), "--announce-addr"),
        (("--announce-ifaces", "=rdma"), "--announce-ifaces"),
        (("--announce-ifaces", "eno1\t=x"), "--announce-ifaces"),
        (("--announce-addrs", "box"), "--announce-addrs"),
        (("--announce-addrs", "0.0.0.0"), "--announce-addrs"),
        (("--peers", "a b"), "--peers"),
        (("--announce-interval", "0"), "--announce-interval"),
        (("--announce-interval", "0.09"), "--announce-interval"),
        (("--history-keep", "long"), "--history-keep"),
        (("--proto", "1.0"), "--proto"),
    ],
)
def test_what_stops_it(argv: tuple[str, ...], named: str) -> None:
    with pytest.raises(SettingsError, match=f"^{named}"):
        read(*argv)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MENTAT_AGENT_DEGRADED_AFTER_MS", "soon"),
        ("MENTAT_AGENT_DEAD_AFTER_MS", "-1"),
        ("MENTAT_PEER_STATUS_INTERVAL_MS", "99"),
        ("MENTAT_PEER_STALE_AFTER_MS", "1.5"),
        ("MENTAT_PEER_DEAD_AFTER_MS", "0"),
    ],
)
def test_a_time_that_stops_it(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}"):
        read(**{name: value})


def test_a_secret_file_that_cannot_be_read_stops_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="MENTAT_SECRET_FILE"):
        read(MENTAT_SECRET_FILE=str(tmp_path / "none"))


def test_the_page_has_a_row_for_each_option() -> None:
    rows = set(re.findall(r"^\| (\S+ ?/? ?\S*?) \|", DOCS.read_text().replace("`", ""), re.MULTILINE))
    names = {" / ".join(filter(None, (f"--{o.flag}" if o.flag else "", o.variable))) for o in OPTIONS}
    assert names <= rows
