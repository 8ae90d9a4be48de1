"""What a published agent starts for an actor: `python -m ray._host --socket PATH`.

The real one is in mentat's own `ray` package, and constructs the actor that the payload describes. This one says
that it did, which is all that a router can see of it, and lives until the agent ends it.
"""

from __future__ import annotations

import os
import socket
import sys

from mentatd.wire.frames import Decoder, encode


def main(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        link.sendall(
            encode({"t": "host_hello", "actor_id": os.environ["MENTAT_ACTOR_ID"], "pid": os.getpid()})
        )
        decoder = Decoder()
        while data := link.recv(4096):
            decoder.feed(data)
            while frame := decoder.next_frame():
                if frame.header["t"] == "ctor":
                    link.sendall(encode({"t": "ctor_ok", "req": frame.header["req"]}))


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--socket") + 1])
