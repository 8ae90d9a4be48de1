"""JSON-RPC messages: every kind, every way to be wrong, and any bytes at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import (
    BATCH_BYTES,
    BATCH_MESSAGES,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Body,
    Call,
    Failure,
    Invalid,
    Message,
    Notification,
    Outcome,
    read_body,
)

ids = st.sampled_from(
    ("null", "0", "-1", "1.0", "1e400", "9" * 40, '"a"', '"\\u00e9"', "true", "[1, 2]", '{"a" :1}')
)


def one(text: str) -> Message:
    body = read_body(text.encode())
    assert not body.batch
    (message,) = body.messages
    return message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}', Call(b"1", "ping", b"{}")),
        (' {"jsonrpc":"2.0","id":1,"method":"ping"}\r\n', Call(b"1", "ping", b"{}")),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":{"b": [1 ]}}', Call(b"1", "a", b'{"b": [1 ]}')),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":null}', Call(b"1", "a", b"{}")),
        ('{"jsonrpc":"2\\u002e0","id":1,"method":"p\\u0069ng","x":1}', Call(b"1", "ping", b"{}")),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', Call(b"null", "ping", b"{}")),
        ('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', Call(b"2", "ping", b"{}")),
        ('{"jsonrpc":"2.0","method":"notifications/initialized"}', Notification("notifications/initialized")),
        ('{"jsonrpc":"2.0","method":"n","params":[1]}', Notification("n")),
        ('{"jsonrpc":"2.0","id":1,"result":{"a": 1}}', Outcome(b"1", b'{"a": 1}')),
        ('{"jsonrpc":"2.0","id":1,"result":null}', Outcome(b"1", b"null")),
        ('{"jsonrpc":"2.0","id":1,"result":null,"error":null}', Outcome(b"1", b"null")),
        ('{"jsonrpc":"2.0","id":1,"result":5,"error":null}', Outcome(b"1", b"5")),
        (
            '{"jsonrpc":"2.0","error":{"code":-1,"message":"m","data": [1]}}',
            Outcome(b"null", Failure(-1, "m", b'{"code":-1,"message":"m","data": [1]}')),
        ),
        (
            '{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1,"message":""}}',
            Outcome(b"7", Failure(1, "", b'{"code":1,"message":""}')),
        ),
    ],
)
def test_messages(text: str, message: Message) -> None:
    assert one(text) == message


@pytest.mark.parametrize(
    ("text", "id_", "code"),
    [
        ("5", "null", INVALID_REQUEST),
        ("null", "null", INVALID_REQUEST),
        ('"ping"', "null", INVALID_REQUEST),
        ("{}", "null", INVALID_REQUEST),
        ('{"id":[1],"method":"ping"}', "[1]", INVALID_REQUEST),
        ('{"jsonrpc":"1.0","id":1,"method":"ping"}', "1", INVALID_REQUEST),
        ('{"jsonrpc":2.0,"id":1,"method":"ping"}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1,"method":5}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1,"method":null}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}', "1", INVALID_PARAMS),
        ('{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}', "1", INVALID_PARAMS),
        ('{"jsonrpc":"2.0","id":1,"error":null}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1,"error":"no"}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}', "1", INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"result":{}}', "1", INVALID_REQUEST),
    ],
)
def test_no_messages(text: str, id_: str, code: int) -> None:
    message = one(text)
    assert isinstance(message, Invalid)
    assert (message.id, message.code) == (id_.encode(), code)
    assert message.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"[{}",
        b"{}x",
        b"\xef\xbb\xbf{}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
)
def test_no_json(body: bytes) -> None:
    (message,) = read_body(body).messages
    assert isinstance(message, Invalid)
    assert (message.id, message.code) == (b"null", PARSE_ERROR)


def test_a_memory_map_is_read() -> None:
    assert read_body(memoryview(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')).messages == (
        Call(b"1", "ping", b"{}"),
    )


def test_a_batch_holds_each_message_in_its_place() -> None:
    body = read_body(
        b' [{"jsonrpc":"2.0","id":1,"method":"ping"},5,{"jsonrpc":"2.0","method":"n"},'
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]]'
    )
    assert body.batch
    first, second, third, fourth = body.messages
    assert first == Call(b"1", "ping", b"{}")
    assert isinstance(second, Invalid)
    assert third == Notification("n")
    assert isinstance(fourth, Invalid)


@pytest.mark.parametrize("size", [0, BATCH_MESSAGES + 1])
def test_a_batch_has_from_one_to_a_hundred_messages(size: int) -> None:
    body = read_body(b"[%b]" % b",".join([b"1"] * size))
    assert not body.batch
    (message,) = body.messages
    assert isinstance(message, Invalid)
    assert (message.id, message.code) == (b"null", INVALID_REQUEST)
    assert len(read_body(b"[%b]" % b",".join([b"1"] * BATCH_MESSAGES)).messages) == BATCH_MESSAGES


def test_a_large_batch_is_not_taken_apart() -> None:
    whole = b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'
    padded = whole + b" " * (BATCH_BYTES - len(whole))
    assert read_body(padded).batch
    assert read_body(padded + b" ") == Body(
        (Invalid(b"null", INVALID_REQUEST, f"a batch of over {BATCH_BYTES} bytes"),), batch=False
    )


@given(ids, st.sampled_from(("{}", '{"arguments": {"a" : "\\ud83d\\ude00", "b":1e3}, "_meta":{}}')))
def test_ids_and_params_are_kept_byte_for_byte(id_: str, params: str) -> None:
    message = one(f'{{"jsonrpc":"2.0","id": {id_} ,"method":"m","params": {params} }}')
    assert message == Call(id_.encode(), "m", params.encode())


@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]",:12 .jsonrpcidmethodparamsresulterror', max_size=60).map(str.encode)
)
def test_any_bytes_are_read(data: bytes) -> None:
    body = read_body(data)
    assert body.messages
    assert all(isinstance(message, Invalid) for message in body.messages) or json.loads(data)


_members: st.SearchStrategy[Any] = st.none() | st.integers() | st.just("2.0") | st.just({}) | st.just([])


@given(st.dictionaries(st.sampled_from(("jsonrpc", "id", "method", "params", "result", "error")), _members))
def test_any_object_is_one_message(document: dict[str, Any]) -> None:
    message = one(json.dumps(document))
    if isinstance(message, Call):
        assert json.loads(message.id) == document["id"]
        assert json.loads(message.params) == (document.get("params") or {})


@given(ids, st.sampled_from(("{}", '{"a": 1}')))
def test_what_is_written_is_read_again(id_: str, text: str) -> None:
    raw, json_ = id_.encode(), text.encode()
    assert one(jsonrpc.write_result(raw, json_).decode()) == Outcome(raw, json_)
    error = jsonrpc.error_object(-5, 'no "x"')
    assert one(jsonrpc.write_error(raw, error).decode()) == Outcome(raw, Failure(-5, 'no "x"', error))
    assert one(jsonrpc.write_call(3, 'a"b', json_).decode()) == Call(b"3", 'a"b', json_)
    assert one(jsonrpc.write_notification("n", json_).decode()) == Notification("n")
    assert one(jsonrpc.write_notification("n").decode()) == Notification("n")
