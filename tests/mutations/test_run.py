"""The runner leaves no process behind: a mutation that makes tests hang must not delay the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.clients import eventually

from mutations.run import run_to_its_end

SLEEP = "import time; time.sleep(600)"
WITH_A_CHILD = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
with open(sys.argv[1] + ".draft", "w") as draft:
    draft.write(str(child.pid))
os.rename(sys.argv[1] + ".draft", sys.argv[1])
{SLEEP}
"""
TIMEOUTS_S = (1, 10, 60)
"""How long a process may take to start its child; the first suffices unless the machine is busy."""


def is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_command_that_times_out_is_killed_with_its_children(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    for timeout_s in TIMEOUTS_S:
        if not told.exists():
            with pytest.raises(subprocess.TimeoutExpired):
                run_to_its_end([sys.executable, "-c", WITH_A_CHILD, str(told)], dict(os.environ), timeout_s)
    eventually(lambda: is_gone(int(told.read_text())))


def test_the_exit_code_of_a_command_is_returned() -> None:
    done = run_to_its_end([sys.executable, "-c", "print('x'); raise SystemExit(3)"], dict(os.environ), 60)
    assert (done.returncode, done.stdout) == (3, "x\n")
