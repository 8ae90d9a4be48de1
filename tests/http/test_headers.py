"""Request heads: what is taken, what is refused, and that cuts make no difference."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.shapes import REFUSED, TAKEN, Shape

from mentatd.errors import Refusal
from mentatd.http.headers import HeadReader, Judge, judge_head, remembering
from mentatd.http.limits import HEAD_BYTES, HEAD_FIELDS
from mentatd.http.request import Head, Request

Read = tuple[Request | Refusal | None, bytes]


def read(data: bytes, judge: Judge = judge_head) -> Read:
    return HeadReader("10.0.0.9", judge).read(data)


def taken(data: bytes, judge: Judge = judge_head) -> Request:
    request, _ = read(data, judge)
    assert isinstance(request, Request), request
    return request


def read_piecewise(pieces: list[bytes], reader: HeadReader | None = None) -> Read:
    reader = reader or HeadReader("10.0.0.9", judge_head)
    for index, piece in enumerate(pieces):
        outcome, rest = reader.read(piece)
        if outcome is not None:
            return outcome, rest + b"".join(pieces[index + 1 :])
    return None, b""


def shown(outcome: Read) -> object:
    """All that a caller can see of it."""
    first, rest = outcome
    if not isinstance(first, Request):
        return first, rest
    head = first.head
    said = (head.method, head.target, head.fields, head.odd, head.http10)
    framing = (head.chunked, head.keep_alive, head.expects_continue)
    return said, framing, bytes(first.body), first.length, first.peer, rest


def test_a_plain_request_is_taken_apart() -> None:
    head = b"Host: h\r\nX: y\r\nContent-Length: 3\r\n"
    request, rest = read(b"POST /v1/x?q=1 HTTP/1.1\r\n" + head + b"\r\nabcGET ")
    assert isinstance(request, Request)
    assert (request.method, request.head.target, request.path, request.query) == (
        "POST",
        b"/v1/x?q=1",
        "/v1/x",
        "q=1",
    )
    assert (request.head.fields, request.body, request.length) == (b"Host: h\r\nX: y\r\n", b"abc", 3)
    read_off = request.head
    assert (read_off.http10, read_off.odd, read_off.keep_alive, read_off.expects_continue) == (
        False,
        False,
        True,
        False,
    )
    assert request.peer == "10.0.0.9"
    assert rest == b"GET "


@pytest.mark.parametrize("shape", REFUSED, ids=lambda shape: shape.name)
def test_what_could_be_read_in_two_ways_is_refused(shape: Shape) -> None:
    refusal, rest = read(shape.data)
    if shape.in_body:
        assert isinstance(refusal, Request)
        return
    assert isinstance(refusal, Refusal), refusal
    assert refusal.status == shape.status
    assert refusal.close
    assert rest == b""


@pytest.mark.parametrize("shape", TAKEN, ids=lambda shape: shape.name)
def test_what_is_odd_but_clear_is_taken(shape: Shape) -> None:
    assert isinstance(read(shape.data)[0], Request)


@pytest.mark.parametrize("shape", [*REFUSED, *TAKEN], ids=lambda shape: shape.name)
def test_byte_by_byte_comes_to_the_same(shape: Shape) -> None:
    whole, _ = read(shape.data)
    cut, _ = read_piecewise([shape.data[i : i + 1] for i in range(len(shape.data))])
    assert type(cut) is type(whole)
    if isinstance(whole, Refusal):
        assert isinstance(cut, Refusal)
        assert cut.status == whole.status


@given(st.sampled_from([*REFUSED, *TAKEN]), st.lists(st.integers(0, 400), max_size=6))
def test_any_cuts_come_to_the_same(shape: Shape, cuts: list[int]) -> None:
    data = shape.data
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges) if a < b]
    whole, _ = read(data)
    cut, _ = read_piecewise(pieces)
    assert type(cut) is type(whole)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_are_an_outcome(data: bytes, at: int) -> None:
    outcome, _ = read_piecewise([data[:at], data[at:]])
    assert outcome is None or isinstance(outcome, Request | Refusal)


@given(st.sampled_from(TAKEN), st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_any_damage_is_an_outcome(shape: Shape, at: int, damage: bytes) -> None:
    data = shape.data[:at] + damage + shape.data[at + len(damage) :]
    outcome, _ = read(data)
    assert outcome is None or isinstance(outcome, Request | Refusal)


@pytest.mark.parametrize(
    ("field", "odd"),
    [
        (b"Connection: keep-alive", False),
        (b"CONNECTION:\tKeep-Alive ", False),
        (b"Connection: close", True),
        (b"Connection: keep-alive, x", True),
        (b"Keep-Alive: timeout=5", True),
        (b"Proxy-Connection: keep-alive", True),
        (b"Proxy-Authorization: x", True),
        (b"TE: trailers", True),
        (b"Trailer: x", True),
        (b"Upgrade: h2c", True),
        (b"Expect: 100-continue", True),
        (b"Content-Encoding: gzip", True),
        (b"Transfer-Encoding: chunked", True),
        (b"Te-X: 1", False),
        (b"X-TE: trailers", False),
        (b"Accept-Encoding: gzip", False),
    ],
)
def test_odd_tells_of_fields_that_may_not_pass(field: bytes, odd: bool) -> None:
    assert taken(b"POST / HTTP/1.1\r\n" + field + b"\r\nHost: h\r\n\r\n").head.odd is odd


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [
        (b"1.1", None, True),
        (b"1.1", b"close", False),
        (b"1.1", b"x, CLOSE", False),
        (b"1.1", b"keep-alive", True),
        (b"1.1", b"closed", True),
        (b"1.0", None, False),
        (b"1.0", b"keep-alive", True),
        (b"1.0", b"Keep-Alive, close", False),
    ],
)
def test_who_keeps_the_connection(version: bytes, connection: bytes | None, keeps: bool) -> None:
    field = b"" if connection is None else b"Connection: " + connection + b"\r\n"
    request = taken(b"GET / HTTP/" + version + b"\r\nHost: h\r\n" + field + b"\r\n")
    assert request.head.keep_alive is keeps
    assert request.head.http10 is (version == b"1.0")


@pytest.mark.parametrize(
    ("version", "expect", "waits"),
    [
        (b"1.1", b"100-Continue", True),
        (b"1.0", b"100-continue", False),
        (b"1.1", b"tea", False),
        (b"1.1", b"100-continue\r\nExpect: tea", False),
    ],
)
def test_who_waits_for_a_continue(version: bytes, expect: bytes, waits: bool) -> None:
    data = b"POST / HTTP/" + version + b"\r\nHost: h\r\nContent-Length: 3\r\nExpect: " + expect + b"\r\n\r\n"
    assert taken(data).head.expects_continue is waits


@pytest.mark.parametrize(
    ("method", "target", "path"),
    [
        (b"GET", b"http://h/a?b", b"/a?b"),
        (b"GET", b"HTTPS://H/", b"/"),
        (b"GET", b"http://h", b"/"),
        (b"GET", b"http://h?x", b"/?x"),
        (b"OPTIONS", b"*", b"/"),
        (b"OPTIONS", b"http://h", b"/"),
        (b"GET", b"//h/a", b"//h/a"),
    ],
)
def test_the_target_becomes_a_path(method: bytes, target: bytes, path: bytes) -> None:
    assert taken(method + b" " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n").head.target == path


def test_an_old_client_may_name_its_host_in_the_target_alone() -> None:
    assert taken(b"GET http://any/a HTTP/1.0\r\n\r\n").head.target == b"/a"


def test_chunked_has_no_length_and_its_body_is_not_taken() -> None:
    request, rest = read(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n")
    assert isinstance(request, Request)
    assert (request.length, request.body, rest) == (None, b"", b"0\r\n\r\n")


@pytest.mark.parametrize(("length", "kept"), [(128 * 1024, True), (128 * 1024 + 1, False)])
def test_a_large_body_is_left_to_its_reader(length: int, kept: bool) -> None:
    body = bytes(length)
    request, rest = read(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length + body)
    assert isinstance(request, Request)
    assert (bytes(request.body), rest) == ((body, b"") if kept else (b"", body))


def test_requests_follow_each_other_on_one_reader() -> None:
    reader = HeadReader("", judge_head)
    data = (
        b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na"
        b"\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nbb"
        b"GET /3 HTTP/1.1\r\nHost: h\r\n\r\n"
    )
    seen = []
    while data:
        request, data = reader.read(data)
        assert isinstance(request, Request)
        seen.append((request.path, bytes(request.body)))
    assert seen == [("/1", b"a"), ("/2", b"bb"), ("/3", b"")]
    assert not reader.holding


@pytest.mark.parametrize(
    ("data", "holding"),
    [(b"", False), (b"\r", False), (b"\r\n", False), (b"\r\nG", True), (b"GET / HTTP/1.1\r\n", True)],
)
def test_holding_is_the_beginning_of_a_head(data: bytes, holding: bool) -> None:
    reader = HeadReader("", judge_head)
    assert reader.read(data) == (None, b"")
    assert reader.holding is holding


@pytest.mark.parametrize("excess", [0, 1])
def test_the_largest_head(excess: int) -> None:
    start = b"GET / HTTP/1.1\r\nHost: h\r\nX: "
    data = start + b"x" * (HEAD_BYTES - len(start) + excess) + b"\r\n\r\n"
    for outcome in (read(data)[0], read_piecewise([data[:1000], data[1000:-2], data[-2:]])[0]):
        if excess:
            assert isinstance(outcome, Refusal)
            assert outcome.status == 431
        else:
            assert isinstance(outcome, Request)


@pytest.mark.parametrize("excess", [0, 1])
def test_the_most_fields(excess: int) -> None:
    outcome, _ = read(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * (HEAD_FIELDS - 1 + excess) + b"\r\n")
    assert isinstance(outcome, Refusal if excess else Request)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01", 400),
        (b"GET /\r\n", 400),
        (b"GET / HTTP/1.1\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\n", 400),
        (b"x" * 33, 400),
        (b"PRI * HTTP/2.0\r\n", 400),
        (b"\r\n\r", 400),
        (b"GET /" + b"x" * HEAD_BYTES, 431),
    ],
)
def test_what_nothing_can_save_is_refused_at_once(data: bytes, status: int) -> None:
    outcome, _ = read(data)
    assert isinstance(outcome, Refusal)
    assert outcome.status == status


@pytest.mark.parametrize("shape", [*REFUSED, *TAKEN], ids=lambda shape: shape.name)
def test_a_head_seen_before_is_judged_alike(shape: Shape) -> None:
    judge = remembering()
    first, first_rest = read(shape.data, judge)
    again, again_rest = read(shape.data, judge)
    assert type(again) is type(first)
    assert again_rest == first_rest
    if isinstance(first, Request) and isinstance(again, Request):
        assert (again.body, again.length) == (first.body, first.length)


def post(before: bytes, number: bytes, behind: bytes = b"\r\n\r\n", body: bytes = b"") -> bytes:
    """A request whose Content-Length is `number`."""
    return b"POST / HTTP/1.1\r\nHost: h\r\n" + before + b"Content-Length: " + number + behind + body


class Counting:
    """A judge that counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: bytes) -> Head | Refusal:
        self.asked += 1
        return judge_head(text)


def test_heads_that_differ_in_the_length_alone_are_judged_once() -> None:
    judge = remembering()
    requests = [taken(post(b"", b"%d" % n, b"\r\nX: y\r\n\r\n", bytes(n)), judge) for n in (0, 1, 12)]
    assert [request.length for request in requests] == [0, 1, 12]
    assert [request.body for request in requests] == [bytes(n) for n in (0, 1, 12)]
    assert all(request.head is requests[0].head for request in requests)


def test_what_is_kept_of_heads_is_bounded() -> None:
    judge = remembering()
    large = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 4096 + b"\r\n\r\n"
    assert taken(large, judge).head is not taken(large, judge).head
    heads = [b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(300)]
    first = [taken(head, judge).head for head in heads]
    again = [taken(head, judge).head for head in reversed(heads)]
    assert sum(a is b for a, b in zip(first, reversed(again), strict=True)) == 256


def test_memories_share_no_heads() -> None:
    data = post(b"", b"0")
    one, other = remembering(), remembering()
    assert taken(data, one).head is taken(data, one).head
    assert taken(data, one).head is not taken(data, other).head


def test_the_length_of_one_head_is_no_other_ones() -> None:
    judge = remembering()
    taken(post(b"", b"1", body=b"x"), judge)
    for number in (b"1, 1", b"+1", b"1" * 19):
        refusal, _ = read(post(b"", number, body=b"x"), judge)
        assert isinstance(refusal, Refusal)


@pytest.mark.parametrize("number", [b"0", b"3", b"03", b"12", b"000000000000000003", b"9" * 18])
def test_a_connection_that_repeats_its_head_is_not_judged_again(number: bytes) -> None:
    judge = Counting()
    reader = HeadReader("", judge)
    behind, body = b"\t\r\nX: y\r\n\r\n", b"0123456789abGET "
    first, _ = reader.read(post(b"A: 1\r\n", b"5", behind, body[:5]))
    again, rest = reader.read(post(b"A: 1\r\n", number, behind, body))
    assert judge.asked == 1
    assert isinstance(first, Request)
    assert isinstance(again, Request)
    assert again.head is first.head
    length = int(number)
    assert again.length == length
    assert (bytes(again.body), rest) == (
        (b"", body) if length > len(body) else (body[:length], body[length:])
    )


@pytest.mark.parametrize(
    ("data", "taken"),
    [
        (post(b"A: 1\r\n", b""), False),
        (post(b"A: 1\r\n", b"0" * 18 + b"5"), False),
        (post(b"A: 1\r\n", b"+5"), False),
        (post(b"A: 1\r\n", b"5, 5"), False),
        (post(b"A: 1\r\n", b"5", b"\r\nContent-Length: 5\r\n\r\n"), False),
        (post(b"A: 1\r\n", b"5", b"\r\n : b\r\n\r\n"), False),
        (post(b"A: 1\r\n", "５".encode()), False),
        (post(b"A: 1\r\n", b" 5"), True),
        (post(b"A: 1\r\n", b"5 "), True),
        (post(b"A: 2\r\n", b"5"), True),
        (post(b"a: 1\r\n", b"5"), True),
        (post(b"", b"5"), True),
        (post(b"A: 1\r\n", b"5", b"\r\nB: 2\r\n\r\n"), True),
        (b"\r\n" + post(b"A: 1\r\n", b"5"), True),
        (post(b"A: 1\r\n", b"5").replace(b"POST / ", b"POST /x "), True),
        (post(b"A: 1\r\n", b"5").replace(b"1.1", b"1.0"), True),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", True),
    ],
)
def test_any_other_head_of_the_connection_is_judged(data: bytes, taken: bool) -> None:
    judge = Counting()
    reader = HeadReader("10.0.0.9", judge)
    reader.read(post(b"A: 1\r\n", b"5"))
    outcome = reader.read(data)
    assert judge.asked == 2
    assert isinstance(outcome[0], Request) is taken
    assert shown(outcome) == shown(read(data))
    if taken:  # only the newest is known
        reader.read(post(b"A: 1\r\n", b"5"))
        assert judge.asked == 3


def test_a_head_that_comes_in_pieces_is_judged_and_then_known() -> None:
    judge = Counting()
    reader = HeadReader("", judge)
    data = post(b"", b"5")
    for _ in range(2):
        assert reader.read(data[:-9]) == (None, b"")
        assert isinstance(reader.read(data[-9:])[0], Request)
    assert judge.asked == 2
    assert isinstance(reader.read(post(b"", b"12"))[0], Request)
    assert judge.asked == 2


@pytest.mark.parametrize(("size", "asked"), [(2048, 1), (2049, 2)])
def test_a_connection_holds_no_large_head(size: int, asked: int) -> None:
    judge = Counting()
    reader = HeadReader("", judge)
    data = post(b"X: " + b"x" * (size - len(post(b"X: \r\n", b"5"))) + b"\r\n", b"5")
    assert len(data) == size
    for _ in range(2):
        assert isinstance(reader.read(data)[0], Request)
    assert judge.asked == asked


BEFORE = [
    b"",
    b"A: 1\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"X: " + b"x" * 2000 + b"\r\n",
]
NUMBERS = [b"0", b"3", b"4", b"12", b"003", b"9" * 18, b"131073"]
ODD_NUMBERS = [b"", b"0" * 18 + b"3", b" 3", b"3 ", b"+3", b"3, 3", "３".encode(), b"3\r\nContent-Length: 4"]
BEHIND = [
    b"\r\n\r\n",
    b"\r\nX: y\r\n\r\n",
    b" \r\n\r\n",
    b"\r\nContent-Length: 3\r\n\r\n",
    b"\r\n\r",
    b"\n\n",
]
BODIES = [b"", b"abc", b"abcdefghijkl", b"abcGET / HTTP/1.1\r\nHost: h\r\n\r\n", b"\r\n\r\n\r\n\r\n"]
REPEATED = st.builds(
    post,
    st.just(b"") | st.sampled_from(BEFORE),
    st.sampled_from(NUMBERS) | st.sampled_from(NUMBERS + ODD_NUMBERS),
    st.just(b"\r\n\r\n") | st.sampled_from(BEHIND),
    st.sampled_from(BODIES),
)
ANY_HEAD = REPEATED | st.sampled_from([shape.data for shape in (*TAKEN, *REFUSED)]) | st.binary(max_size=20)


@given(st.lists(st.tuples(ANY_HEAD, st.just(0) | st.integers(0, 200)), min_size=2, max_size=8))
def test_what_came_before_makes_no_difference(heads: list[tuple[bytes, int]]) -> None:
    reader = HeadReader("10.0.0.9", remembering())
    for data, cut in heads:
        pieces = [data[:cut], data[cut:]]
        outcome = read_piecewise(pieces, reader)
        assert shown(outcome) == shown(read_piecewise(pieces))
        if not isinstance(outcome[0], Request):
            break  # refused, or the beginning of a head
