"""The shapes in which engines say what went wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.recorded import recorded

from mentatd.wire.engineerror import read_error, shown_text


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (
            400,
            '{"error": {"message": "too long", "type": "BadRequestError", "param": "x", "code": 400}}',
            {"message": "too long", "type": "BadRequestError", "param": "x", "code": 400},
        ),
        # llama.cpp while it loads
        (
            503,
            '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}',
            {"message": "Loading model", "type": "unavailable_error", "param": None, "code": 503},
        ),
        # Anthropic's shape
        (
            529,
            '{"type":"error","error":{"type":"overloaded_error","message":"busy"}}',
            {"message": "busy", "type": "overloaded_error", "param": None, "code": 529},
        ),
        (
            500,
            '{"error":"out of memory"}',
            {"message": "out of memory", "type": "server_error", "param": None, "code": 500},
        ),
        # vLLM before 0.10
        (
            404,
            '{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}',
            {"message": "no such model", "type": "NotFoundError", "param": None, "code": 404},
        ),
        (
            404,
            '{"detail":"Not Found"}',
            {"message": "Not Found", "type": "invalid_request_error", "param": None, "code": 404},
        ),
        (
            422,
            '{"detail":[{"loc":["body","n"],"msg":"Field required"}]}',
            {
                "message": '[{"loc": ["body", "n"], "msg": "Field required"}]',
                "type": "invalid_request_error",
                "param": None,
                "code": 422,
            },
        ),
        # what the engine adds stays
        (
            200,
            '{"error":{"message":"m","hint":"h"}}',
            {"message": "m", "type": "server_error", "param": None, "code": 200, "hint": "h"},
        ),
    ],
)
def test_what_an_engine_says(status: int, body: str, error: dict[str, Any]) -> None:
    assert read_error(status, body.encode()) == error


def test_a_recorded_error() -> None:
    body = recorded("vllm-0.32/too_long").body
    assert read_error(400, body) == json.loads(body)["error"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b""),
        (500, b"<html>no</html>"),
        (500, b"[1]"),
        (500, b'"text"'),
        (500, b"{}"),
        (500, b'{"error":null}'),
        (500, b'{"error":{"message":null}}'),
        (500, b'{"error":{"code":5}}'),
        (500, b'{"message":{"role":"assistant"}}'),
        (200, b'{"message":"hello"}'),
        (200, b'{"detail":"hello"}'),
        (500, b'{"error":"\xff"}'),
        (500, b'{"error":{"message":"m","code":1e999}}'),
        (500, b'{"error":' + b"[" * 50_000),
    ],
)
def test_what_is_no_error(status: int, body: bytes) -> None:
    assert read_error(status, body) is None


@given(st.binary() | st.binary().map(lambda data: b'{"error":{"message":"m","x":' + data + b"}}"))
def test_no_bytes_raise(body: bytes) -> None:
    error = read_error(500, body)
    if error is not None:
        json.loads(json.dumps(error, allow_nan=False))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b" <p>\r\n no\n</p>", "<p> no </p>"),
        (b"\xff\x00\x1b[1m", "���[1m"),
        (b"x" * 3000, "x" * 500 + "…"),
        (b"x" * 500, "x" * 500),
    ],
)
def test_any_other_body_as_text(body: bytes, text: str) -> None:
    assert shown_text(body) == text
