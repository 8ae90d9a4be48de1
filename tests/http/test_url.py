"""URLs taken apart, and those that are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.http.url import Location, parse_url
from mentatd.origin import Origin


@pytest.mark.parametrize(
    ("url", "origin", "authority", "target"),
    [
        ("http://10.0.0.2:8000/v1/models", Origin("10.0.0.2", 8000), "10.0.0.2:8000", "/v1/models"),
        ("http://10.0.0.2", Origin("10.0.0.2", 80), "10.0.0.2", "/"),
        ("http://10.0.0.2:80/", Origin("10.0.0.2", 80), "10.0.0.2", "/"),
        ("https://Engine.Example/v1?a=b&c=%2", Origin("engine.example", 443, True), "engine.example", "/v1?a=b&c=%2"),
        ("HTTPS://engine:443/x", Origin("engine", 443, True), "engine", "/x"),
        ("https://engine:80/x", Origin("engine", 80, True), "engine:80", "/x"),
        ("http://my_engine-1:9?q", Origin("my_engine-1", 9), "my_engine-1:9", "/?q"),
        ("http://[fd00::1]:8000/v1", Origin("fd00::1", 8000), "[fd00::1]:8000", "/v1"),
        ("http://[::1]/", Origin("::1", 80), "[::1]", "/"),
        ("http://[::ffff:10.0.0.1]:1/", Origin("::ffff:10.0.0.1", 1), "[::ffff:10.0.0.1]:1", "/"),
    ],
)  # fmt: skip
def test_urls(url: str, origin: Origin, authority: str, target: str) -> None:
    assert parse_url(url) == Location(origin, authority, target)


@pytest.mark.parametrize(
    "url",
    [
        "", "10.0.0.2:8000", "ftp://a/", "ws://a/", "http:/a", "http://", "http:///v1", "http://a:/x", "http://a:0/",
        "http://a:65536/", "http://a:123456/", "http://a:80x/", "http://user@a/", "http://user:pw@a/", "http://a/#f",
        "http://a/ b", "http://a/\tb", "http://a/b\r\nX: y", "http://a/é", "http://é/", "http://[::1", "http://::1/",
        "http://[1.2.3.4]/", "http://[::g]/", "http://[fe80::1%25eth0]/", "http://[]/", "http://a b/", " http://a/",
        "http://a/\x00", "http://a/\x7f", "http://a\\b/",
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not an |not between"):
        parse_url(url)


@given(st.text(max_size=40).map(lambda text: f"http://{text}"))
def test_nothing_else_escapes(url: str) -> None:
    try:
        location = parse_url(url)
    except ValueError:
        return
    assert location.target.isascii()
    assert " " not in location.authority + location.target
