"""What went wrong with a connection, in plain words for error texts."""

from __future__ import annotations

import os
import socket
import ssl


def describe(error: BaseException) -> str:
    """One short phrase, such as `connection refused`; never empty."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"certificate not accepted: {error.verify_message}"
        case ssl.SSLError():
            # only errors that come from OpenSSL have a reason, such as WRONG_VERSION_NUMBER
            reason = getattr(error, "reason", None) or type(error).__name__
            return f"TLS failed: {reason.lower().replace('_', ' ')}"
        case socket.gaierror():
            return f"name not resolved: {error.strerror or error}"
        case UnicodeError():
            return "name not resolved: it can be no host name"
        case TimeoutError():
            return "timed out"
        case ConnectionResetError():
            return "connection reset"
        case ConnectionAbortedError():
            return "connection aborted"
        case OSError() if error.errno:
            text = os.strerror(error.errno)
            return text[:1].lower() + text[1:]
    return str(error) or type(error).__name__
