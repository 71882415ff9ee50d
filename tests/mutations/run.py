"""Plants each bug and runs its tests. The exit code is 0 if every bug was caught."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from mutations import Mutation

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("broker", "cli", "client", "controller", "protocol", "spark_connector", "storage", "testing")
LISTS = (
    "raft", "replication", "decisions", "nodes", "coordination", "transactions", "waiting", "steps", "directories",
    "compaction", "groups", "edges", "client", "client_lives", "command_line", "spark_sink", "membership",
    "positions", "bounded", "quotas", "hostile", "arguments", "log_steps", "sending", "leaving", "sasl", "tokens",
    "tls", "client_security", "authorization", "checks", "strangers", "large_records", "testing",
)  # fmt: skip
TIMEOUT_S, BASELINE_TIMEOUT_S = 300, 1800
TESTS_FAILED = 1
"""pytest's exit code for failed tests; other codes mean that the tests did not run, which proves nothing."""


def mutations_of(name: str) -> tuple[Mutation, ...]:
    return import_module(f"mutations.{name}").MUTATIONS


def mutate(mutation: Mutation) -> str:
    """The text of the file with the bug. Raises ValueError if the original text does not occur exactly once."""
    text = (ROOT / mutation.file).read_text()
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.name}: {text.count(mutation.old)} places in {mutation.file} have\n{mutation.old}")
    return text.replace(mutation.old, mutation.new)


def lay_out(directory: Path, mutation: Mutation | None) -> None:
    """A `minikafka` package in which the room with the bug is a copy, and the others are the real ones."""
    package = directory / "minikafka"
    package.mkdir()
    for room in ROOMS:
        if mutation is not None and mutation.file.startswith(f"{room}/"):
            shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
            (package / mutation.file).write_text(mutate(mutation))
        else:
            (package / room).symlink_to(ROOT / room)
    (package / "__init__.py").symlink_to(ROOT / "package" / "minikafka" / "__init__.py")


def run_tests(
    mutation: Mutation | None, tests: tuple[str, ...], timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Runs the tests with a bug, or without one to check that they pass. Raises TimeoutExpired."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        lay_out(Path(directory), mutation)
        path = os.pathsep.join([directory, str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "MUTATION_RUN": "1"}
        check_that_it_is_used(Path(directory), environment)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header"]
        command += ["-o", "pythonpath=tests", *tests]  # In pyproject.toml it has the package without the bug as well.
        return run_to_its_end(command, environment, timeout_s)


def run_to_its_end(
    command: list[str], environment: dict[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Runs a command; after the timeout, kills it with all processes that it started. Raises TimeoutExpired."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def check_that_it_is_used(directory: Path, environment: dict[str, str]) -> None:
    """Checks that `minikafka` is imported from the directory with the bug, not from the installed package."""
    script = "import minikafka.protocol as room; print(room.__file__)"
    where = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    if not where.stdout.startswith(str(directory)):
        raise RuntimeError(f"the tests would import {where.stdout.strip()} instead of the copy in {directory}")


def verdict(mutation: Mutation) -> tuple[bool, str]:
    """Whether the suite caught the bug, and which test did."""
    try:
        result = run_tests(mutation, mutation.tests)
    except subprocess.TimeoutExpired:
        return True, f"no end within {TIMEOUT_S} s"
    if result.returncode == TESTS_FAILED:
        failed = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
        return True, failed[0].removeprefix("FAILED ")[:150] if failed else "a test failed"
    if result.returncode == 0:
        return False, f"no test failed: {result.stdout.splitlines()[-1]}"
    return False, f"exit code {result.returncode} of pytest:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"


def chosen(words: list[str]) -> list[Mutation]:
    found: list[Mutation] = []
    for name in LISTS:
        found += [m for m in mutations_of(name) if not words or name in words or any(word in m.name for word in words)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant bugs; the tests must catch each.")
    parser.add_argument("which", nargs="*", help="lists, or parts of names; all by default")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a bug first")
    options = parser.parse_args()
    which = chosen(options.which)
    tests = tuple(sorted({one for mutation in which for one in mutation.tests}))
    if which and not options.no_baseline:
        result = run_tests(None, tests, BASELINE_TIMEOUT_S)
        if result.returncode != 0:
            print(f"the tests fail without a bug: {' '.join(tests)}\n{result.stdout[-3000:]}{result.stderr[-1000:]}")
            return 1
    survivors = 0
    for mutation in which:
        began = time.monotonic()
        caught, how = verdict(mutation)
        survivors += not caught
        seconds = time.monotonic() - began
        print(f"{'caught  ' if caught else 'SURVIVED'} {seconds:5.1f} s  {mutation.name}: {how}", flush=True)
    print(f"{len(which) - survivors} of {len(which)} bugs caught")
    return 1 if survivors or not which else 0


if __name__ == "__main__":
    sys.exit(main())
