"""The heads of the server's own answers, byte for byte."""

from __future__ import annotations

import pytest

from mentatd.http.answers import render_head


def test_an_answer_says_its_framing_date_and_type() -> None:
    fields = [(b"Allow", b"GET"), (b"X", b"y")]
    assert render_head(405, 12, b"text/plain", fields, second=784111777, connection=b"close") == (
        b"HTTP/1.1 405 Method Not Allowed\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 12\r\nAllow: GET\r\nX: y\r\nConnection: close\r\n\r\n"
    )


def test_whole_lines_are_put_in_as_they_are() -> None:
    head = render_head(200, 0, b"x", ((b"A", b"1"),), b"B: 2\r\nC: 3\r\n", second=0, connection=b"close")
    assert head.endswith(b"\r\nA: 1\r\nB: 2\r\nC: 3\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_does_not_speak_of_one(status: int) -> None:
    head = render_head(status, 0, b"text/plain", (), second=0, connection=None)
    assert b"Content-" not in head
    assert b"Connection" not in head
    assert head.endswith(b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n")


def test_a_status_without_a_name_is_written_all_the_same() -> None:
    assert render_head(529, 0, b"x", (), second=0, connection=None).startswith(b"HTTP/1.1 529 \r\n")
