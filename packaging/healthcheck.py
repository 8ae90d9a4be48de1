"""Exit 0 when the service on this host answers `/healthz`: `healthcheck.py [PORT]`, else `SERVE_PORT`, else 6381.

A refusal is an answer too: ALLOWED_SOURCES may leave loopback out.
"""

from __future__ import annotations

import http.client
import os
import sys

TIMEOUT_S = 3.0


def main() -> None:
    port = int(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SERVE_PORT") or 6381)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise SystemExit(f"127.0.0.1:{port}: {error}") from error
    finally:
        connection.close()
    if status >= 500:
        raise SystemExit(f"127.0.0.1:{port}: status {status}")


if __name__ == "__main__":
    main()
