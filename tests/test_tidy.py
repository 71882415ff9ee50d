"""The project rules that can be checked automatically: sizes, seams, unused files and names."""

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

from minikafka.cli.main import COMMANDS, module_of

ROOT = Path(__file__).parent.parent
PACKAGES = ("broker", "cli", "client", "controller", "protocol", "spark_connector", "storage", "testing")
SOURCES = sorted(path for package in (*PACKAGES, "package") for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PROGRAMS = sorted(path for folder in ("bench", "docker", "examples") for path in (ROOT / folder).rglob("*.py"))
EVERYTHING = [*SOURCES, *TESTS, *PROGRAMS]

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 50

IMPORTS_TRIO = {
    "testing/faults/faulty_handlers.py",
    "testing/host/clock.py",
    "testing/host/links.py",
    "testing/host/node_thread.py",
    "storage/disks/worker_process.py",
    "broker/apis/fetch.py",
    "broker/connections/connection.py",
    "broker/connections/idle_connections.py",
    "broker/connections/long_polls.py",
    "broker/connections/ready_sockets.py",
    "broker/coordinator/groups/group_coordinator.py",
    "broker/coordinator/runtime.py",
    "broker/coordinator/shard.py",
    "broker/coordinator/timer.py",
    "broker/coordinator/transactions/broker_requests.py",
    "broker/coordinator/transactions/completion.py",
    "broker/coordinator/transactions/marker_channel.py",
    "broker/coordinator/transactions/marker_log.py",
    "broker/coordinator/transactions/transaction_questions.py",
    "broker/coordinator/transactions/transaction_coordinator.py",
    "broker/coordinator/transactions/transaction_parts.py",
    "broker/replication/isr_changes.py",
    "broker/security/between_nodes.py",
    "broker/partitions/log_housekeeping.py",
    "broker/partitions/log_cleaner.py",
    "broker/node/main.py",
    "broker/node/node.py",
    "broker/replication/replica_fetcher.py",
    "broker/replication/replica_moves.py",
    "broker/node/registration.py",
    "broker/node/step_watch.py",
    "broker/node/stuck_loop.py",
    "broker/node/broker_parts.py",
    "broker/node/controller_listener.py",
    "broker/node/controller_security.py",
    "broker/node/controller_node.py",
    "broker/node/metrics_parts.py",
    "broker/metrics/endpoints.py",
    "broker/metrics/http_server.py",
    "broker/metrics/refused_scrapes.py",
    "broker/node/directory_reports.py",
    "broker/connections/request_memory.py",
    "broker/connections/server.py",
    "broker/connections/tcp_listening.py",
    "broker/connections/socket_moves.py",
    "broker/connections/tls_transport.py",
    "broker/connections/transport.py",
    "broker/security/authentication.py",
    "broker/security/guards.py",
    "broker/security/node_guests.py",
    "broker/connections/large_messages.py",
    "broker/partitions/large_batches.py",
    "broker/partitions/request_waiters.py",
    "client/connections/trio_socket.py",
    "client/security/daemon_calls.py",
    "controller/active/active_controller.py",
    "controller/quorum/metadata_applier.py",
    "controller/quorum_controller.py",
    "controller/active/request_queue.py",
    "controller/quorum/broker_lease.py",
    "controller/quorum/handshake.py",
    "controller/quorum/handshake_log.py",
    "controller/quorum/peer_connection.py",
    "controller/quorum/peer_frames.py",
    "controller/quorum/peer_network.py",
    "controller/quorum/tls_network.py",
    "controller/quorum/strangers.py",
    "controller/quorum/peers.py",
    "controller/quorum/quorum_wait.py",
    "controller/quorum/applied_offset.py",
    "controller/quorum/describe_quorum.py",
    "controller/quorum/learned_addresses.py",
    "controller/quorum/node_logins.py",
    "controller/quorum/membership.py",
    "controller/quorum/raft_driver.py",
    "controller/quorum/voter_requests.py",
    "controller/active/leadership_term.py",
    "storage/disks/disk.py",
    "storage/disks/flush_turns.py",
    "storage/steps.py",
    "storage/directories/log_upkeep.py",
}
"""Sockets, drivers of pure cores, the server. The docstring of a file in this list says why it uses trio."""

SEAMS = {
    "broker/node/main.py": {"time", "random", "os"},
    "broker/node/log_writer.py": {"threading", "os"},  # beside the loop, which must not wait for a reader
    "broker/node/full_disk.py": {"os"},  # asks the file system how much room is left
    "broker/node/start_errors.py": {"os"},  # asks the machine why a start of `main.py` failed
    "broker/node/free_ports.py": {"socket", "random"},  # before nodes are started
    "broker/node/holders.py": {"os"},  # likewise
    "broker/node/stack_sampler.py": {"threading"},  # an aid to find the cause of long steps; off unless asked for
    "broker/node/downloads.py": {"socket", "time"},  # `System.download`, in a worker thread
    "broker/node/stuck_loop.py": {"threading", "time", "os"},  # beside the loop, which does not run
    "broker/connections/request_times.py": {"time"},  # for metrics, and for turns of real sockets
    "broker/connections/tcp_listening.py": {"socket"},
    "controller/quorum/listening_sockets.py": {"socket"},
    "broker/connections/socket_moves.py": {"socket"},
    "broker/connections/tls_socket.py": {"socket"},
    "broker/connections/tls_transport.py": {"socket"},
    "broker/connections/transport.py": {"socket", "os"},
    "spark_connector/brokers/sockets.py": {"socket", "time", "os"},  # Spark's workers have no event loop of ours
    "spark_connector/brokers/waiting.py": {"threading", "os"},  # beside calls that block, and not after a fork
    "storage/disks/disk.py": {"os", "open", "shutil", "threading"},
    "storage/disks/open_files.py": {"threading", "os"},
    "storage/disks/memory_disk.py": {"os"},
    "storage/disks/worker_process.py": {"subprocess", "os"},
    "storage/disks/worker_main.py": {"threading", "os"},
}
"""The files that may use clocks, sockets, files and randomness directly; all others receive them as arguments."""

BANNED_MODULES = {"time", "threading", "socket", "random", "uuid", "asyncio", "tempfile", "shutil", "subprocess"}
BANNED_CALLS = {"open", "input", "print"}
PURE_FROM = {"random": {"Random"}, "uuid": {"UUID"}, "time": set[str]()}
"""Allowed names of banned modules: types of objects that are passed as arguments."""

USES_THE_SYSTEM = ("cli/", "client/", "testing/")
"""The command line and clusters for tests create clocks, threads and processes; tests/client/connections/test_seams.py
covers the client."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", EVERYTHING, ids=name)
def test_files_and_functions_are_not_too_long(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX, f"{name(path)} has more than {FILE_LINES_MAX} lines"
    long = [
        f"{node.name} ({node.end_lineno - node.lineno + 1})"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long, f"{name(path)}: functions over {FUNCTION_LINES_MAX} lines: {', '.join(long)}"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name(path)} has no docstring"


def imported(tree: ast.AST) -> set[tuple[str, str]]:
    """(module, name) of every import; the name is "" for `import module`."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {(node.module, alias.name) for alias in node.names}
    return found


def test_trio_is_imported_in_the_listed_files_only() -> None:
    importers = {
        name(path)
        for path in SOURCES
        if any(module.split(".")[0] == "trio" for module, _ in imported(ast.parse(path.read_text())))
    }
    assert importers - IMPORTS_TRIO == set()
    no_longer = IMPORTS_TRIO - importers - {"client/connections/trio_socket.py"}
    assert no_longer == set(), "the list names files that no longer need it"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_system_resources_are_passed_as_arguments(path: Path) -> None:
    if name(path).startswith(USES_THE_SYSTEM):
        return
    allowed = SEAMS.get(name(path), set())
    tree = ast.parse(path.read_text())
    for module, what in imported(tree):
        top = module.split(".")[0]
        if top in BANNED_MODULES and top not in allowed:
            assert what in PURE_FROM.get(top, set()), f"{name(path)} imports {module}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in BANNED_CALLS - allowed, f"{name(path)}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert "os" in allowed, f"{name(path)}:{node.lineno} uses os.{node.attr}"


def test_every_module_is_imported() -> None:
    modules = {module_name(path): path for path in SOURCES}
    used = {entry.split(":")[0] for entry in pyproject()["project"]["scripts"].values()}
    used |= set(pyproject()["project"]["entry-points"]["pytest11"].values())
    used |= set(map(module_of, COMMANDS))
    for path in EVERYTHING:
        for module, what in imported(ast.parse(path.read_text())):
            used |= {module, f"{module}.{what}"}
        used |= lazily_imported(path)
    orphans = {module for module, path in modules.items() if module not in used and path.name != "__init__.py"}
    assert orphans == set()


def module_name(path: Path) -> str:
    dotted = name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return dotted.removeprefix("package.") if dotted.startswith("package.") else f"minikafka.{dotted}"


def lazily_imported(path: Path) -> set[str]:
    """Names of our modules in strings, from which they are imported."""
    return {
        node.value.split(":")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("minikafka.")
    }


def test_no_data_directory_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    paths = map(Path, listed.stdout.splitlines())
    assert [str(path) for path in paths if path.name in (".lock", "meta.properties", ".kafka_cleanshutdown")] == []


def test_no_file_has_the_marks_of_a_merge() -> None:
    found = subprocess.run(
        ["git", "grep", "-lE", "^(<<<<<<<|>>>>>>>) "], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode not in (0, 1):
        pytest.skip(f"not a git checkout: {found.stderr.strip()}")
    assert found.stdout.splitlines() == []


def pyproject() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())
