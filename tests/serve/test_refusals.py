"""The table of refusals, and that docs/errors.md shows the same."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mentatd.cluster.routes import NotAdmitted, Unknown
from mentatd.errors import Refusal
from mentatd.http import refusals as of_http
from mentatd.serve import refusals
from mentatd.wire.openai import BadBody

DOCUMENT = Path(__file__).parents[2] / "docs" / "errors.md"
ROWS = {(kind.status, kind.type, kind.code) for kind in refusals.TABLE}


def test_codes_are_unique() -> None:
    assert len({kind.code for kind in refusals.TABLE}) == len(refusals.TABLE)


def test_the_document_shows_the_table() -> None:
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| `(\w+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    assert {(int(status), kind, code) for status, kind, code in rows} == ROWS
    assert len(rows) == len(ROWS)


def test_what_the_http_room_refuses_is_in_the_table() -> None:
    made = [value for value in vars(of_http).values() if isinstance(value, Refusal)]
    made += [of_http.malformed("x"), of_http.too_large(1)]
    assert {(refusal.status, refusal.type, refusal.code) for refusal in made} <= ROWS


@pytest.mark.parametrize(
    ("refusal", "status", "code", "param", "words"),
    [
        (refusals.bad_body(BadBody("invalid_body", "why")), 400, "invalid_body", None, ["why"]),
        (refusals.bad_body(BadBody("missing_model", "why")), 400, "missing_model", "model", ["why"]),
        (refusals.bad_body(BadBody("invalid_model", "why")), 400, "invalid_model", "model", ["why"]),
        (refusals.invalid_encoding("why"), 400, "invalid_encoding", None, ["why"]),
        (refusals.unknown_encoding("br", ("gzip", "x")), 415, "unknown_encoding", None, ["'br'", "gzip, x"]),
        (refusals.body_too_large(9), 413, "body_too_large", None, ["is over 9 bytes"]),
        (refusals.body_too_large(9, decoded=True), 413, "body_too_large", None, ["decodes to over 9"]),
        (refusals.model_not_found("m", [], {}), 404, "model_not_found", "model", ["'m'"]),
        (
            refusals.model_not_ready("m", {"g": "r", "h": "s"}),
            503,
            "model_not_ready",
            "model",
            ["'m'", "g: r; group h: s"],
        ),
        (refusals.not_routed("m", NotAdmitted({"g": "r"})), 503, "model_not_ready", "model", ["g: r"]),
        (refusals.not_routed("m", Unknown((), {})), 404, "model_not_found", "model", ["'m'"]),
        (refusals.unknown_path("GET", "/x"), 404, "unknown_path", None, ["GET /x"]),
        (
            refusals.method_not_allowed("PUT", "/v1", ["GET", "HEAD"]),
            405,
            "method_not_allowed",
            None,
            ["PUT", "GET, HEAD"],
        ),
        (
            refusals.engine_unreachable("g", ["a: x", "b: y"]),
            502,
            "engine_unreachable",
            None,
            ["group g", "a: x; b: y"],
        ),
        (
            refusals.engine_failed("g", "http://e/v1", "x"),
            502,
            "engine_failed",
            None,
            ["group g", "http://e/v1", "x"],
        ),
        (
            refusals.engine_timeout("g", "http://e/v1", 1.5),
            504,
            "engine_timeout",
            None,
            ["http://e/v1", "1.5 s"],
        ),
    ],
)
def test_each_refusal_says_what_was_tried(
    refusal: Refusal, status: int, code: str, param: str | None, words: list[str]
) -> None:
    assert (refusal.status, refusal.code, refusal.param) == (status, code, param)
    assert (refusal.status, refusal.type, refusal.code) in ROWS
    for word in words:
        assert word in refusal.message


def test_404_lists_what_there_is() -> None:
    refusal = refusals.model_not_found("m", ("a", "b"), {"g": "no running actors"})
    assert dict(refusal.extra) == {"available": ["a", "b"], "not_ready": {"g": "no running actors"}}


def test_fields_that_the_status_asks_for() -> None:
    assert refusals.method_not_allowed("PUT", "/v1", ["GET", "HEAD"]).headers == ((b"Allow", b"GET, HEAD"),)
    assert refusals.unknown_encoding("br", ["gzip"]).headers == ((b"Accept-Encoding", b"gzip"),)


def test_a_long_name_is_cut() -> None:
    assert len(refusals.model_not_found("m" * 100_000, [], {}).message) < 300


def test_every_row_is_made_somewhere() -> None:
    source = inspect.getsource(refusals).partition("_KINDS")[2] + inspect.getsource(of_http)
    bad_bodies = {"invalid_body", "missing_model", "invalid_model"}
    assert {kind.code for kind in refusals.TABLE} - bad_bodies <= set(re.findall(r'"(\w+)"', source))
