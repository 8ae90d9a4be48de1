"""Plain words for what went wrong with a connection."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from mentatd.http.faults import describe


def not_tls() -> ssl.SSLError:
    incoming = ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    channel = ssl.create_default_context().wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="engine")
    with pytest.raises(ssl.SSLError) as caught:
        channel.do_handshake()
    return caught.value


def unverified() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] …")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to host"),
        (ConnectionResetError(), "connection reset"),
        (ConnectionAbortedError(), "connection aborted"),
        (TimeoutError(), "timed out"),
        (socket.gaierror(socket.EAI_NONAME, "Name not known"), "name not resolved: Name not known"),
        (unverified(), "certificate not accepted: self-signed certificate"),
        (not_tls(), "TLS failed: wrong version number"),
        (ssl.SSLEOFError(), "TLS failed: ssleoferror"),
        (OSError("no address"), "no address"),
        (OSError(), "OSError"),
        (UnicodeError("label too long"), "name not resolved: it can be no host name"),
    ],
)  # fmt: skip
def test_describe(error: BaseException, text: str) -> None:
    assert describe(error) == text
