"""The demonstration with a real model."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path

from tests.engine.conftest import CACHE, MODEL, PATIENCE_S
from tests.support.commands import command
from tests.support.deadlines import wait_until


def test_the_question_that_it_proposes_is_answered_by_the_real_model(tmp_path: Path) -> None:
    with command("mentatd-demo --port 0 --engine llama", tmp_path / "demo", XDG_CACHE_HOME=CACHE) as demo:
        # the second is what a demonstration says that fails
        wait_until(lambda: re.search("Ctrl-C ends everything|mentatd-demo: ", demo.output), PATIENCE_S)
        (question,) = re.findall(r"^ +(curl -sN .*)$", demo.output, re.MULTILINE)
        answer = subprocess.run(
            shlex.split(question), capture_output=True, timeout=PATIENCE_S, check=True
        ).stdout
        first = json.loads(answer.partition(b"\n")[0].removeprefix(b"data: "))
        assert first["model"] == MODEL
        assert answer.count(b"data: ") > 2
        demo.signal(signal.SIGTERM)
        assert demo.ended() == 0
