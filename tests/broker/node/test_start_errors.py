"""A node that cannot start says which directory, port, file or line it is about, who holds it, and what to do."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.broker.node import full_disk, start_errors
from minikafka.broker.node.holders import holder_of_lock, holder_of_port
from minikafka.broker.node.start_errors import why_not_started
from minikafka.broker.settings.node_config import NodeConfig, load_config

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")
HERE = f"process {os.getpid()} ("


def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """What `minikafka server` says in its last line; it must end with exit code 1, without a traceback."""
    ran = subprocess.run(
        [sys.executable, "-m", "minikafka.cli.main", "server", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "Traceback" not in ran.stderr
    return ran.stderr.splitlines()[-1]


def config(*directories: Path | str, **given: str) -> NodeConfig:
    dotted = {name.replace("_", "."): text for name, text in given.items()}
    return load_config(settings={"log.dirs": ",".join(map(str, directories)), **dotted})


# -- real processes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@linux
def test_a_port_in_use_names_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--port", str(port), "--data-dir", str(tmp_path))
    assert said.startswith(f"Error: cannot listen on 127.0.0.1:{port}: Address already in use, by {HERE}")
    assert said.endswith("stop that process, or set another port in listeners")


@pytest.mark.slow
@linux
def test_a_data_directory_of_a_running_node_names_that_node(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = refused("--port", "0", "--data-dir", str(tmp_path / "data"))
    assert said.startswith(f"Error: data directory {tmp_path}/data (log.dirs) cannot be used: {HERE}")
    assert said.endswith("uses it; stop that node, or set another log.dirs")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "{taken}"),
        ("--set", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:{taken}"),
        ("--set", "listeners=PLAINTEXT://:{taken}"),
        ("--port", "0", "--set", "metrics.listener=http://127.0.0.1:{taken}"),
        (
            "--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{taken}",
            "--set", "controller.listener.names=CONTROLLER",
            "--set", "controller.quorum.voters=1@127.0.0.1:{taken}",
        ),
        ("--host", "192.0.2.1", "--port", "0"),
        ("--host", "no-such-host.invalid", "--port", "0"),
        ("--port", "0", "--set", "num.partitions=many"),
    ],
    ids=["port", "second", "every-address", "metrics", "controller", "elsewhere", "nowhere", "setting"],
)  # fmt: skip
def test_a_node_that_cannot_start_makes_no_directory(arguments: tuple[str, ...], tmp_path: Path) -> None:
    protocols = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = [word.format(taken=taken.getsockname()[1]) for word in arguments]
        refused(*words, "--data-dir", str(tmp_path / "data"), "--set", protocols)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_file_in_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused("--port", "0", "--set", f"log.dirs={tmp_path}/file/data")
    assert said == (
        f"Error: data directory {tmp_path}/file/data (log.dirs) cannot be used: {tmp_path}/file is a file; "
        "move it away, or set another log.dirs"
    )


@pytest.mark.slow
def test_an_invalid_setting_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# ours\nnode.id=1\nlog.dirs=a,\\\n  b\nnum.partitions=many\n")
    assert refused("--config", str(file)).startswith(f"Error: num.partitions=many (from {file}, line 5): ")
    file.write_text("node.id=1\nlog.dirs=\\uzzzz\n")
    assert refused("--config", str(file)).startswith(f"Error: {file}, line 2: ")


# -- words -------------------------------------------------------------------------------------------------------


def test_the_place_of_a_setting_is_the_one_that_counts() -> None:
    places = {"num.partitons": "file, line 3", "log.retention.mss": "file, line 4", "num.partitions": "file, line 5"}
    node = load_config(
        properties={"num.partitons": "1", "log.retention.mss": "1", "num.partitions": "2"},
        environment={"KAFKA_LOG_RETENTION_MSS": "2"},
        settings={"num.partitions": "3"},
        places=places,
    )
    assert list(node.warnings()) == [
        "unknown setting num.partitons in file, line 3 (did you mean num.partitions?)",
        "unknown setting log.retention.mss in the environment variable KAFKA_LOG_RETENTION_MSS "
        "(did you mean log.retention.ms?)",
    ]


def test_a_directory_that_may_not_be_written_names_user_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_errors, "user", lambda number=None: "user kafka" if number is None else "user root")
    uid, owner = os.geteuid(), tmp_path.stat().st_uid
    error = PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/sub/data")
    assert why_not_started(error, config(tmp_path / "sub" / "data")) == (
        f"data directory {tmp_path}/sub/data (log.dirs) cannot be used: user kafka may not write to {tmp_path}, which "
        f"belongs to user root: change its owner (`chown -R {uid} {tmp_path}`), run the node as its owner (in a "
        f"container `--user {owner}`), or set another log.dirs"
    )
    meta = tmp_path / "meta.properties"
    meta.touch()
    error = PermissionError(errno.EACCES, "Permission denied", str(meta))
    assert f"user kafka may not write to {meta}" in why_not_started(error, config(tmp_path))


def test_the_owner_of_all_that_another_user_has_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only of the first file at which the start stops: the next start would stop at the next file."""
    directory = tmp_path / "of an operator"
    lock = directory / "__cluster_metadata-0" / ".lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    said = why_not_started(PermissionError(errno.EACCES, "Permission denied", str(lock)), config(directory))
    assert f"(`chown -R {os.geteuid()} '{directory}'`)" in said
    monkeypatch.setattr(start_errors, "_owner", lambda path: 7 if path == lock else 0)
    said = why_not_started(PermissionError(errno.EACCES, "Permission denied", str(lock)), config(directory))
    assert f"(`chown -R {os.geteuid()} '{lock}'`), run the node as its owner (in a container `--user 7`)" in said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EROFS, "the file system of {} is read-only; mount it for writing, or set another log.dirs"),
        (errno.ENOSPC, "the disk of {} is full for {}/data/x, 1,234 bytes free; make room, nothing is lost"),
        (
            errno.EDQUOT,
            "user kafka has no room left for {0}/data/x: the disk quota is used up; make room, nothing is lost",
        ),
        (errno.EIO, "Input/output error ({}/data/x)"),
    ],
)
def test_what_is_wrong_with_a_disk_is_said(
    code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_disk, "free_bytes", lambda path: 1234)
    monkeypatch.setattr(full_disk, "user", lambda number=None: "user kafka")
    error = OSError(code, os.strerror(code), f"{tmp_path}/data/x")
    expected = f"data directory {tmp_path}/data (log.dirs) cannot be used: {said.format(tmp_path, tmp_path)}"
    assert why_not_started(error, config(tmp_path / "data")) == expected


def test_a_full_disk_is_found_though_the_error_names_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_errors, "free_bytes", lambda path: 7 if path.endswith("second") else math.inf)
    error = OSError(errno.ENOSPC, "No space left on device")
    said = why_not_started(error, config(tmp_path / "first", tmp_path / "second"))
    assert said.startswith(f"data directory {tmp_path}/second (log.dirs) cannot be used: the disk of")
    monkeypatch.setattr(full_disk, "free_bytes", lambda path: math.inf)
    said = why_not_started(error, config(tmp_path))
    assert said.endswith(f"the disk of {tmp_path} is full; make room, nothing is lost")


def test_the_metadata_directory_is_told_from_others(tmp_path: Path) -> None:
    node = config(tmp_path / "data", metadata_log_dir=f"{tmp_path}/data/meta")
    error = OSError(errno.EROFS, "x", f"{tmp_path}/data/meta/__cluster_metadata-0")
    assert why_not_started(error, node).startswith(f"data directory {tmp_path}/data/meta (metadata.log.dir) ")
    elsewhere = OSError(errno.EIO, "Input/output error", "/elsewhere")
    assert why_not_started(elsewhere, node) == "Input/output error (/elsewhere)"


@pytest.mark.parametrize(("port", "option"), [(19092, "listeners"), (19404, "metrics.listener")])
def test_the_setting_of_a_port_is_named(port: int, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_errors, "holder_of_port", lambda port: "")
    node = config("/data", listeners="PLAINTEXT://:19092", metrics_listener="http://127.0.0.1:19404")
    error = OSError(errno.EADDRINUSE, f"cannot listen on *:{port}: Address already in use")
    assert why_not_started(error, node).endswith(f"in use: stop that process, or set another port in {option}")


# -- /proc -------------------------------------------------------------------------------------------------------


@linux
def test_holders_that_cannot_be_known_are_not_guessed(tmp_path: Path) -> None:
    assert holder_of_port(1, tmp_path) == holder_of_lock(str(tmp_path), tmp_path) == ""
    (tmp_path / "net").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert holder_of_port(port).startswith(HERE)
        (tmp_path / "net" / "tcp6").write_text(Path("/proc/net/tcp").read_text())
    assert holder_of_port(port, tmp_path) == "a process of another user"
    assert holder_of_lock(str(tmp_path)) == ""


@linux
def test_a_socket_of_a_client_does_not_hold_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            server.close()
            assert holder_of_port(port) == ""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(204_800, "204,800 bytes that this process may write: raise the limit"), (-1, "than its file system allows")],
)
def test_a_file_that_would_be_too_large_names_the_limit(
    limit: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert expected in why_not_started(OSError(errno.EFBIG, "File too large"), config(tmp_path))
