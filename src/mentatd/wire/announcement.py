"""The announcement datagram of both generations: written, signed, verified and judged (wire.md section 2).

The receiver's decision is `judge`, which takes steps 1 to 3 of wire.md in their order and changes nothing.
The caller takes steps 4 and 5 (source address, choice of the address to watch) and calls
`ReplayWindow.accept` only for an announcement that passed them, so that a copy that came over a forbidden
link does not use its `seq` up.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from mentatd.errors import WireError
from mentatd.wire import hostport
from mentatd.wire.fields import Fields
from mentatd.wire.rawjson import kind, show
from mentatd.wire.version import PROTO, Generation, is_spoken

MAX_BYTES = 1400
"""The longest datagram that is sent: it fits into one Ethernet frame."""

MAX_SKEW_S = 30
"""How far the clock of a signed announcement may be from the receiver's, seconds."""

MAX_ADDRS = 64
"""Addresses read of one announcement, the most preferred; each costs the receiver a check."""

MAX_TAGS = 16
"""Tags read of one address."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a daemon says about itself. A hint: every claim is read again over TCP before it is acted on."""

    generation: Generation
    node_id: str
    http_host: str
    """Never acted on, only shown; without brackets."""
    http_port: int
    """1 to 65535."""
    control: str = ""
    """Control address, `10.0.0.1:6379`."""
    universe: str = "default"
    addrs: tuple[str, ...] = ()
    """Addresses of the node, most preferred first; empty where what came was no list."""
    addr_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator's tags for an address, such as `rdma`."""
    boot_id: str = ""
    """Changes with the daemon's process; empty in an unsigned one."""
    seq: int = 0
    t: int = 0
    """Unix seconds at the sender."""
    signed: bool = False
    """Its signature was verified."""


DropReason = Literal[
    "malformed", "other_universe", "rejected", "unverifiable", "unsupported", "stale", "replayed"
]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A datagram that is not acted on."""

    reason: DropReason
    detail: str = ""
    """What was wrong, with the path of the field."""
    event: str | None = None
    """The log event to write once per source and event; None: say nothing."""


class ReplayWindow:
    """The last accepted `seq` of each `node_id` and `boot_id`; the oldest is forgotten past the limit."""

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._last: dict[tuple[str, str], int] = {}

    def is_replay(self, announcement: Announcement) -> bool:
        """Whether its `seq` is not above the last accepted one. An unsigned announcement never is."""
        last = self._last.get((announcement.node_id, announcement.boot_id), -1)
        return announcement.signed and announcement.seq <= last

    def accept(self, announcement: Announcement) -> None:
        """Remember the `seq` of an announcement that passed every step; an unsigned one changes nothing."""
        if not announcement.signed:
            return
        sender = (announcement.node_id, announcement.boot_id)
        # taken out first, so that the order of the dictionary is that of the last acceptance
        self._last.pop(sender, None)
        self._last[sender] = announcement.seq
        if len(self._last) > self._limit:
            del self._last[next(iter(self._last))]


def judge(
    datagram: bytes, *, key: bytes | None, universe: str, now_unix: float, replay: ReplayWindow
) -> Announcement | Dropped:
    """Steps 1 to 3 of wire.md section 2, in that order. Any bytes at all give a value; nothing is raised.

    `key` is the shared secret, or None; `now_unix` the receiver's clock in seconds.
    """
    try:
        envelope = _parse(datagram)
    except WireError as error:
        return _malformed(str(error))
    signed = "p" in envelope
    payload = envelope["p"] if signed else envelope
    if not isinstance(payload, dict):
        return _malformed(f"p: expected an object, found {kind(payload)}")
    theirs = payload.get("universe")
    if ("default" if theirs is None else theirs) != universe:
        return Dropped("other_universe")
    generation = (
        _judge_signature(payload, envelope.get("sig"), key) if signed else _judge_unsigned(payload, key)
    )
    if isinstance(generation, Dropped):
        return generation
    fields = Fields(envelope)
    announcement = _read(fields.child("p") if signed else fields, generation, signed=signed)
    return announcement if isinstance(announcement, Dropped) else _judge_time(announcement, now_unix, replay)


def write_announcement(announcement: Announcement, key: bytes | None) -> bytes:
    """The datagram: generation A unsigned (1) without `key` and signed (2) with it, generation B signed.

    At most 1400 bytes: tags go first, from the last address up, then addresses from the last up.
    Raises ValueError for generation B without a key, and when the rest alone is too long.
    """
    addrs = list(announcement.addrs)
    tags = {addr: announcement.addr_tags[addr] for addr in addrs if addr in announcement.addr_tags}
    while len(datagram := _write(announcement, addrs, tags, key)) > MAX_BYTES:
        if tags:
            tags.popitem()
        elif addrs:
            addrs.pop()
        else:
            raise ValueError(
                f"the announcement has {len(datagram)} bytes without an address, over {MAX_BYTES}"
            )
    return datagram


def canonical(payload: Mapping[str, Any]) -> bytes:
    """Canonical JSON: keys sorted at every depth, no white space, non-ASCII as raw UTF-8.

    Raises ValueError for what has no canonical form (NaN, infinities, lone surrogates).
    """
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def sign(payload: Mapping[str, Any], key: bytes) -> str:
    """HMAC-SHA256 over the canonical payload, in hex. Raises ValueError like `canonical`."""
    return hmac.digest(key, canonical(payload), "sha256").hex()


def _parse(datagram: bytes) -> dict[str, Any]:
    """Strictly, unlike a snapshot: what is signed has to come out the same when it is written again."""
    try:
        value = json.loads(datagram.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise WireError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise WireError(f"expected a JSON object, found {kind(value)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _malformed(detail: str) -> Dropped:
    return Dropped("malformed", detail, "announce_malformed")


def _rejected(detail: str) -> Dropped:
    return Dropped("rejected", detail, "announce_rejected")


def _unsupported(version: str) -> Dropped:
    return Dropped("unsupported", f"{version} is not understood", "announce_rejected")


def _judge_signature(payload: dict[str, Any], sig: object, key: bytes | None) -> Generation | Dropped:
    """Step 2 for a signed datagram, and what it then says of its version."""
    if key is None:
        detail = "it is signed, and neither MENTAT_SECRET nor MENTAT_SECRET_FILE is set here"
        return Dropped("unverifiable", detail, "announce_unverifiable")
    try:
        expected = sign(payload, key)
    except (ValueError, RecursionError):
        return _rejected("its payload has no canonical form")
    if not isinstance(sig, str) or not hmac.compare_digest(sig.encode(errors="replace"), expected.encode()):
        return _rejected("its signature is wrong; MENTAT_SECRET must be the same everywhere")
    proto, version = payload.get("proto"), payload.get("mentat_announce")
    if proto is not None:
        return "B" if is_spoken(proto) else _unsupported(f"proto {show(proto)}")
    if type(version) is int and version == 2:
        return "A"
    if type(version) is int and version == 1:
        return _rejected("version 1 is not taken with a key")
    return _unsupported(f"mentat_announce {show(version)}")


def _judge_unsigned(payload: dict[str, Any], key: bytes | None) -> Generation | Dropped:
    """Step 2 for a datagram without a signature."""
    if key is not None:
        return _rejected("it is not signed; MENTAT_SECRET must be set everywhere")
    version = payload.get("mentat_announce")
    if type(version) is int and version == 1:
        return "A"
    if "proto" in payload:
        return _rejected("this version is always signed, and it is not")
    if version is None:
        return _malformed("this is no announcement: neither p nor mentat_announce is there")
    return _unsupported(f"unsigned mentat_announce {show(version)}")


def _judge_time(announcement: Announcement, now_unix: float, replay: ReplayWindow) -> Announcement | Dropped:
    """Step 3, and the part of step 4 that the datagram decides alone: it needs a port."""
    off = announcement.t - now_unix
    if announcement.signed and abs(off) > MAX_SKEW_S:
        return Dropped("stale", f"its clock differs from this one by {off:+.0f} s", "announce_stale")
    if replay.is_replay(announcement):
        return Dropped("replayed")
    if not announcement.http_port:
        return _malformed("http: expected an address with a port from 1 to 65535")
    return announcement


def _read(fields: Fields, generation: Generation, *, signed: bool) -> Announcement | Dropped:
    """The announcement in a payload. Optional parts that are wrong read as empty, a missing port as 0."""
    node_id = fields.required_text("node_id")
    boot_id, seq, t = "", 0, 0
    if signed:
        boot_id, seq, t = fields.text("boot_id"), fields.required_integer("seq"), fields.required_integer("t")
    if problems := fields.problems():
        return _malformed(f"{problems[0].path}: {problems[0].message}")
    host, port = hostport.split(fields.text("http"))
    addrs = fields.texts("addrs", limit=MAX_ADDRS)
    tags = fields.child("addr_tags")
    return Announcement(
        generation=generation,
        node_id=node_id,
        http_host=host,
        http_port=port,
        control=fields.text("control"),
        universe=fields.text("universe") or "default",
        addrs=addrs,
        addr_tags={addr: tags.texts(addr, limit=MAX_TAGS) for addr in addrs if addr in tags},
        boot_id=boot_id,
        seq=seq,
        t=t,
        signed=signed,
    )


def _write(
    announcement: Announcement, addrs: list[str], tags: Mapping[str, tuple[str, ...]], key: bytes | None
) -> bytes:
    payload: dict[str, Any] = {
        "node_id": announcement.node_id,
        "control": announcement.control,
        "http": hostport.join(announcement.http_host, announcement.http_port),
        "universe": announcement.universe,
        "addrs": addrs,
        "addr_tags": tags,
    }
    if announcement.generation == "B":
        payload["proto"] = PROTO
    else:
        payload["mentat_announce"] = 1 if key is None else 2
    if key is None:
        if announcement.generation == "B":
            raise ValueError("an announcement of generation B is always signed, and there is no key")
        return canonical(payload)
    payload |= {"boot_id": announcement.boot_id, "seq": announcement.seq, "t": announcement.t}
    return canonical({"p": payload, "sig": sign(payload, key)})
