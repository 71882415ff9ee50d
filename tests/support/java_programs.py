"""Programs in Java beside the tests, compiled against the jars of the Kafka beside the checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.oracle import KAFKA, java, why_absent

JARS = KAFKA.parent / "jars"
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def why_not_compiled() -> str | None:
    """Why no program can be compiled; None if one can."""
    return why_absent() or (None if _compiler().exists() else "no javac")


def compiled(source: Path, folder: Path, heap: str = "96m", options: Sequence[str] = ()) -> list[str]:
    """Compile a program into a folder; the command that runs it, with these options of the JVM."""
    subprocess.run([str(_compiler()), "-cp", f"{JARS}/*", "-d", str(folder), str(source)], check=True)
    quiet = f"-Dlog4j2.configurationFile={KAFKA.parent / 'log4j2-quiet.properties'}"
    return [str(java()), *JVM, f"-Xmx{heap}", quiet, *options, "-cp", f"{folder}{os.pathsep}{JARS}/*", source.stem]


def lines_said(source: Path, folder: Path, *arguments: str, timeout_s: float) -> dict[str, str]:
    """Compile and run a program that writes lines as `case: outcome`; the outcome of each case."""
    command = [*compiled(source, folder), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout_s, check=False)
    return dict(line.split(": ", 1) for line in done.stdout.decode().splitlines())


def _compiler() -> Path:
    """The javac beside the java, which may be a link to one of several."""
    found = java()
    return Path(found or "java").resolve().with_name("javac")
