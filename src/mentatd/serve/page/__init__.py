"""The status page: one static file, read once when the router starts."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("index.html").read_bytes()

PAGE_FIELDS = (
    (b"Vary", b"Accept"),
    (b"Cache-Control", b"no-cache"),
    (
        b"Content-Security-Policy",
        b"; ".join(
            (
                b"default-src 'none'",
                b"style-src 'unsafe-inline'",
                b"script-src 'unsafe-inline'",
                b"connect-src 'self'",
                b"base-uri 'none'",
                b"form-action 'none'",
                b"frame-ancestors 'none'",
            )
        ),
    ),
)
"""The page loads nothing from elsewhere, and stands in no other site's frame."""
