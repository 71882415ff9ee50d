"""Apache Kafka's JVMs, quick to start: without the second compiler, and with the classes of an earlier run.

A tool spends most of its second of processor time on reading and checking classes, a node half of its four. What one
run has read, the next can map from an archive (JEP 350). The first test to need it has it made, in some ten seconds,
and leaves it in `build/`. A JVM that makes none, or finds one of other jars or of another Java, goes on without.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"
ARCHIVE = BUILD / "kafka-classes.jsa"
Run = Callable[[Path, tuple[str, ...]], None]


def quick(*options: str) -> tuple[str, ...]:
    """What to put before a command that starts a JVM."""
    return ("env", f"JDK_JAVA_OPTIONS={' '.join(('-XX:TieredStopAtLevel=1', '-Xlog:disable', *options))}")


@cache
def with_classes(run: Run) -> tuple[str, ...]:
    """As `quick`, with the archive; processes that test side by side make it once.

    Args:
        run: starts a node in a folder, with these words before the command, and ends it as it should be.
    """
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "kafka-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ARCHIVE.exists():
            with tempfile.TemporaryDirectory(dir=BUILD) as folder:
                made = Path(folder) / "made.jsa"
                run(Path(folder) / "kafka", quick(f"-XX:ArchiveClassesAtExit={made}"))
                if made.exists():
                    made.rename(ARCHIVE)
    return quick(f"-XX:SharedArchiveFile={ARCHIVE}") if ARCHIVE.exists() else quick()
