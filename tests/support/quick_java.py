"""JVM options that start Apache Kafka faster: no second compiler, and a class data archive.

A tool spends most of its second of CPU time on loading and verifying classes, a node half of its four. An archive (JEP
350) saves that in later runs. The first test that needs it creates it in `build/` in about ten seconds. A JVM that
cannot write it, or finds one of other jars or of another Java, runs without.
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
    """The words that precede a command that starts a JVM."""
    return ("env", f"JDK_JAVA_OPTIONS={' '.join(('-XX:TieredStopAtLevel=1', '-Xlog:disable', *options))}")


@cache
def with_classes(run: Run) -> tuple[str, ...]:
    """As `quick`, with the archive; parallel test processes create it once.

    Args:
        run: starts a node in a directory with these words before the command, and stops it cleanly.
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
