"""Announcements: what is written, what is believed, and why the rest is dropped."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import generations, json_values, names, numbers, texts

from mentatd.wire.announcement import (
    MAX_ADDRS,
    MAX_BYTES,
    MAX_TAGS,
    Announcement,
    Dropped,
    ReplayWindow,
    canonical,
    judge,
    sign,
    write_announcement,
)

KEY = b"k"
NOW = 1787862155.0
A1: dict[str, Any] = {
    "mentat_announce": 1, "node_id": "n1", "control": "10.0.0.1:6379", "http": "10.0.0.1:6380",
    "universe": "default", "addrs": ["10.0.0.1"], "addr_tags": {"10.0.0.1": ["connectx"]},
}  # fmt: skip
SIGNED: dict[str, Any] = {**A1, "mentat_announce": 2, "boot_id": "b1", "seq": 41, "t": int(NOW)}
B: dict[str, Any] = {**{k: v for k, v in SIGNED.items() if k != "mentat_announce"}, "proto": "0.99"}

PARSED = Announcement(
    generation="A",
    node_id="n1",
    http_host="10.0.0.1",
    http_port=6380,
    control="10.0.0.1:6379",
    universe="default",
    addrs=("10.0.0.1",),
    addr_tags={"10.0.0.1": ("connectx",)},
)


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def signed(payload: dict[str, Any], key: bytes = KEY) -> bytes:
    return dump({"p": payload, "sig": sign(payload, key)})


def hear(
    datagram: bytes,
    key: bytes | None = None,
    *,
    universe: str = "default",
    now: float = NOW,
    replay: ReplayWindow | None = None,
) -> Announcement | Dropped:
    return judge(datagram, key=key, universe=universe, now_unix=now, replay=replay or ReplayWindow())


def reason(result: Announcement | Dropped) -> tuple[str, str | None]:
    assert isinstance(result, Dropped), result
    return result.reason, result.event


def test_the_vector_of_the_protocol() -> None:
    payload = {"a": 1, "b": [2, {"c": 3, "d": 4}], "universe": "kü"}
    assert sign(payload, b"k") == "ec381f4b20bc7eb6b1f18c7f15b06a5c7c60aca04b4ffcba2c1910ac6262ed39"


def test_the_canonical_form() -> None:
    assert canonical({"b": [{"z": 1, "a": "ü\n/"}], "a": {}}) == '{"a":{},"b":[{"a":"ü\\n/","z":1}]}'.encode()


@pytest.mark.parametrize("payload", [{"a": float("nan")}, {"a": float("inf")}, {"a": "\ud800"}])
def test_what_has_no_canonical_form(payload: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own texts
        sign(payload, KEY)


def test_each_kind_is_heard() -> None:
    assert hear(dump(A1)) == PARSED
    theirs = replace(PARSED, boot_id="b1", seq=41, t=int(NOW), signed=True)
    assert hear(signed(SIGNED), KEY) == theirs
    assert hear(signed(B), KEY) == replace(theirs, generation="B")


@pytest.mark.parametrize(
    ("datagram", "key", "expected"),
    [
        # step 1, before anything else of a datagram is judged
        (dump({**A1, "universe": "theirs"}), KEY, ("other_universe", None)),
        (dump({"p": {**B, "universe": "theirs"}, "sig": "wrong"}), KEY, ("other_universe", None)),
        (dump({"universe": 5}), None, ("other_universe", None)),
        # step 2 with a key
        (dump(A1), KEY, ("rejected", "announce_rejected")),
        (dump({"x": 1}), KEY, ("rejected", "announce_rejected")),
        (signed(B, b"other"), KEY, ("rejected", "announce_rejected")),
        (dump({"p": B}), KEY, ("rejected", "announce_rejected")),
        (dump({"p": B, "sig": 5}), KEY, ("rejected", "announce_rejected")),
        (dump({"p": B, "sig": "ü\ud800"}), KEY, ("rejected", "announce_rejected")),
        (dump({"p": {**B, "node_id": "\ud800"}, "sig": "x"}), KEY, ("rejected", "announce_rejected")),
        (signed({**SIGNED, "mentat_announce": 1}), KEY, ("rejected", "announce_rejected")),
        (signed({**SIGNED, "mentat_announce": 3}), KEY, ("unsupported", "announce_rejected")),
        (signed({**SIGNED, "mentat_announce": True}), KEY, ("unsupported", "announce_rejected")),
        (signed({}), KEY, ("unsupported", "announce_rejected")),
        (signed({**B, "proto": "2.0"}), KEY, ("unsupported", "announce_rejected")),
        # step 2 without a key
        (signed(SIGNED), None, ("unverifiable", "announce_unverifiable")),
        (signed(B), None, ("unverifiable", "announce_unverifiable")),
        (dump({"p": {}}), None, ("unverifiable", "announce_unverifiable")),
        (dump(B), None, ("rejected", "announce_rejected")),
        (dump({**A1, "mentat_announce": 2}), None, ("unsupported", "announce_rejected")),
        (dump({**A1, "mentat_announce": True}), None, ("unsupported", "announce_rejected")),
        (dump({}), None, ("malformed", "announce_malformed")),
        # step 3
        (signed({**B, "t": int(NOW) + 31}), KEY, ("stale", "announce_stale")),
        (signed({**B, "t": int(NOW) - 31, "http": "x"}), KEY, ("stale", "announce_stale")),
        (signed({**B, "t": float(NOW)}), KEY, ("malformed", "announce_malformed")),
        (signed({**B, "seq": "41"}), KEY, ("malformed", "announce_malformed")),
        (signed({**B, "seq": None}), KEY, ("malformed", "announce_malformed")),
        (signed({**B, "seq": True}), KEY, ("malformed", "announce_malformed")),
        (signed({**B, "boot_id": 5}), KEY, ("malformed", "announce_malformed")),
        # what cannot be acted on
        (dump({**A1, "node_id": ""}), None, ("malformed", "announce_malformed")),
        (dump({**A1, "node_id": 7}), None, ("malformed", "announce_malformed")),
        (b"", None, ("malformed", "announce_malformed")),
        (b"\xff", KEY, ("malformed", "announce_malformed")),
        (b"[1]", KEY, ("malformed", "announce_malformed")),
        (b'{"mentat_announce":1,"node_id":"n","x":NaN}', None, ("malformed", "announce_malformed")),
        (b"[" * 60_000, KEY, ("malformed", "announce_malformed")),
        (b'{"x":' + b"9" * 5000 + b"}", KEY, ("malformed", "announce_malformed")),
        (dump({"p": [], "sig": "x"}), KEY, ("malformed", "announce_malformed")),
    ],
)
def test_what_is_dropped_and_said(
    datagram: bytes, key: bytes | None, expected: tuple[str, str | None]
) -> None:
    assert reason(hear(datagram, key)) == expected


def test_what_is_missing_is_named() -> None:
    for result, words in (
        (hear(signed(B)), "MENTAT_SECRET"),
        (hear(dump(A1), KEY), "MENTAT_SECRET"),
        (hear(signed({**B, "proto": "2.0"}), KEY), "proto '2.0' is not understood"),
        (hear(signed({**B, "seq": -1}), KEY), "p.seq: expected a whole number"),
        (hear(dump({**A1, "node_id": 7})), "node_id: expected text, found 7"),
        (hear(signed({**B, "t": int(NOW) - 45}), KEY), "its clock differs from this one by -45 s"),
    ):
        assert isinstance(result, Dropped)
        assert words in result.detail


@pytest.mark.parametrize(
    ("theirs", "ours"), [({}, "default"), ({"universe": None}, "default"), ({"universe": "ü"}, "ü")]
)
def test_the_universe_is_the_default_when_absent(theirs: dict[str, Any], ours: str) -> None:
    payload = {**{k: v for k, v in A1.items() if k != "universe"}, **theirs}
    assert hear(dump(payload), universe=ours) == replace(PARSED, universe=ours)
    assert reason(hear(dump(payload), universe="other")) == ("other_universe", None)


@pytest.mark.parametrize("off", [-30, 0, 30])
def test_clocks_may_differ_by_30_seconds(off: int) -> None:
    assert isinstance(hear(signed({**B, "t": int(NOW) + off}), KEY), Announcement)


@pytest.mark.parametrize(
    ("http", "host", "port"),
    [
        ("10.0.0.1:6380", "10.0.0.1", 6380),
        ("[fd00::1]:6380", "fd00::1", 6380),
        ("fd00::1:6380", "fd00::1", 6380),
        ("node1:1", "node1", 1),
        ("anything at all:65535", "anything at all", 65535),
    ],
)
def test_only_the_port_of_http_matters(http: str, host: str, port: int) -> None:
    assert hear(dump({**A1, "http": http})) == replace(PARSED, http_host=host, http_port=port)


@pytest.mark.parametrize(
    "http",
    [
        *("10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:", "10.0.0.1", "6380", ":6380", "[::1]", ""),
        *("h:+80", "h:８０", "h:" + "1" * 5000, None, 6380, []),
    ],
)
def test_without_a_port_there_is_nothing_to_watch(http: object) -> None:
    result = hear(dump({**A1, "http": http}))
    assert reason(result) == ("malformed", "announce_malformed")
    assert isinstance(result, Dropped)
    assert result.detail.startswith("http: ")


@pytest.mark.parametrize(
    ("addrs", "tags", "expected"),
    [
        ("10.0.0.1", {}, {}),
        (None, None, {}),
        ({"10.0.0.1": 1}, {"10.0.0.1": ["a"]}, {}),
        (["10.0.0.1", 7, None, "10.0.0.2"], {"10.0.0.2": ["a", 5], "10.0.0.9": ["b"]}, {"10.0.0.2": ("a",)}),
        (["10.0.0.1", "10.0.0.2"], [], {}),
        (["10.0.0.1", "10.0.0.2"], {"10.0.0.1": "a"}, {"10.0.0.1": ()}),
    ],
)
def test_addresses_of_a_wrong_type_read_as_empty(
    addrs: object, tags: object, expected: dict[str, Any]
) -> None:
    result = hear(dump({**A1, "addrs": addrs, "addr_tags": tags}))
    assert isinstance(result, Announcement)
    assert result.addrs == (("10.0.0.1", "10.0.0.2") if isinstance(addrs, list) else ())
    assert result.addr_tags == expected


def test_a_flood_of_addresses_and_tags_is_cut() -> None:
    addrs = [f"10.0.{i}.1" for i in range(1000)]
    result = hear(dump({**A1, "addrs": addrs, "addr_tags": {addrs[0]: ["x"] * 1000}}))
    assert isinstance(result, Announcement)
    assert result.addrs == tuple(addrs[:MAX_ADDRS])
    assert result.addr_tags == {addrs[0]: ("x",) * MAX_TAGS}


class TestReplay:
    def test_a_seq_is_used_up_by_accepting_it_and_by_nothing_else(self) -> None:
        replay = ReplayWindow()
        first = hear(signed(B), KEY, replay=replay)
        assert first == hear(signed(B), KEY, replay=replay)
        assert isinstance(first, Announcement)
        replay.accept(first)
        assert reason(hear(signed(B), KEY, replay=replay)) == ("replayed", None)
        assert reason(hear(signed({**B, "seq": 40}), KEY, replay=replay)) == ("replayed", None)
        assert isinstance(hear(signed({**B, "seq": 42}), KEY, replay=replay), Announcement)

    def test_a_new_boot_id_starts_over_and_the_old_one_stays_used_up(self) -> None:
        replay = ReplayWindow()
        for payload in (B, {**B, "boot_id": "b2", "seq": 0}):
            result = hear(signed(payload), KEY, replay=replay)
            assert isinstance(result, Announcement)
            replay.accept(result)
        assert reason(hear(signed(B), KEY, replay=replay)) == ("replayed", None)

    def test_nodes_do_not_share_their_numbers(self) -> None:
        replay = ReplayWindow()
        replay.accept(replace(PARSED, signed=True, boot_id="b1", seq=41))
        assert isinstance(hear(signed({**B, "node_id": "n2", "seq": 1}), KEY, replay=replay), Announcement)

    def test_unsigned_announcements_have_no_numbers(self) -> None:
        replay = ReplayWindow()
        replay.accept(PARSED)
        assert not replay.is_replay(PARSED)
        assert not replay.is_replay(replace(PARSED, signed=True))

    def test_it_is_bounded_and_forgets_the_one_not_heard_for_longest(self) -> None:
        replay = ReplayWindow(limit=2)
        one, two, three = (replace(PARSED, node_id=name, signed=True, seq=5) for name in ("1", "2", "3"))
        replay.accept(one)
        replay.accept(two)
        replay.accept(replace(one, seq=6))
        replay.accept(three)
        assert [replay.is_replay(a) for a in (one, two, three)] == [True, False, True]


announcements = st.builds(
    Announcement,
    generation=generations,
    node_id=names,
    http_host=st.sampled_from(("10.0.0.1", "fd00::1", "node1")),
    http_port=st.integers(1, 65535),
    control=texts,
    universe=st.just("ü"),
    addrs=st.lists(names, max_size=4).map(tuple),
    boot_id=texts,
    seq=numbers,
    t=st.integers(int(NOW) - 30, int(NOW) + 30),
)


class TestWriting:
    @given(announcements, st.data())
    def test_what_is_written_is_heard(self, ours: Announcement, data: st.DataObject) -> None:
        tagged = [addr for addr in ours.addrs if data.draw(st.booleans())]
        ours = replace(ours, addr_tags=dict.fromkeys(tagged, ("a", "b")))
        key = KEY if ours.generation == "B" or data.draw(st.booleans()) else None
        heard = hear(write_announcement(ours, key), key, universe="ü")
        if key is None:
            assert heard == replace(ours, boot_id="", seq=0, t=0)
        else:
            assert heard == replace(ours, signed=True)

    def test_the_bytes(self) -> None:
        assert json.loads(write_announcement(PARSED, None)) == A1
        ours = replace(PARSED, boot_id="b1", seq=41, t=int(NOW))
        assert json.loads(write_announcement(ours, KEY)) == {"p": SIGNED, "sig": sign(SIGNED, KEY)}
        ours = replace(ours, generation="B")
        assert json.loads(write_announcement(ours, KEY)) == {"p": B, "sig": sign(B, KEY)}

    def test_generation_b_needs_a_key(self) -> None:
        with pytest.raises(ValueError, match="always signed"):
            write_announcement(replace(PARSED, generation="B"), None)

    @pytest.mark.parametrize("key", [None, KEY])
    @pytest.mark.parametrize("count", [10, 30, 200])
    def test_tags_and_then_the_last_addresses_are_left_out_to_fit(
        self, key: bytes | None, count: int
    ) -> None:
        addrs = tuple(f"192.168.100.{i}" for i in range(count))
        ours = replace(PARSED, addrs=addrs, addr_tags=dict.fromkeys(addrs, ("connectx", "rdma")), t=int(NOW))
        datagram = write_announcement(ours, key)
        assert MAX_BYTES - 60 < len(datagram) <= MAX_BYTES or count == 10
        heard = hear(datagram, key)
        assert isinstance(heard, Announcement)
        assert heard.addrs == addrs[: len(heard.addrs)]
        assert tuple(heard.addr_tags) == addrs[: len(heard.addr_tags)]
        assert len(heard.addrs) == count or not heard.addr_tags
        assert (len(heard.addrs), len(heard.addr_tags) > 0) == {
            10: (10, True), 30: (30, True), 200: (len(heard.addrs), False),
        }[count]  # fmt: skip

    def test_what_cannot_be_made_to_fit_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="without an address"):
            write_announcement(replace(PARSED, universe="x" * MAX_BYTES), None)


payloads = st.fixed_dictionaries({}, optional={key: st.just(value) | json_values for key, value in
                                               {**SIGNED, "proto": "0.99"}.items()})  # fmt: skip


@given(st.binary(max_size=64) | payloads.map(dump), st.none() | st.just(KEY))
def test_any_datagram_is_judged(datagram: bytes, key: bytes | None) -> None:
    result = hear(datagram, key)
    assert isinstance(result, Dropped) or result.http_port


@given(payloads)
def test_any_signed_payload_is_judged(payload: dict[str, Any]) -> None:
    try:
        datagram = signed(payload)
    except ValueError:
        return
    result = hear(datagram, KEY)
    assert isinstance(result, Dropped) or (result.node_id and result.signed)


@given(st.integers(0, 400), st.integers(0, 7), st.sampled_from((SIGNED, B)))
def test_one_changed_bit_is_never_believed(at: int, bit: int, payload: dict[str, Any]) -> None:
    datagram = bytearray(signed(payload))
    datagram[at % len(datagram)] ^= 1 << bit
    result = hear(bytes(datagram), KEY)
    assert isinstance(result, Dropped) or json.loads(datagram) == json.loads(signed(payload))
