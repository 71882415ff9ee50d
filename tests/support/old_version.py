"""Nodes of an older version of minikafka, from the history of this checkout.

    code = old_version(tmp_path / "old")                # skips where the history is not there
    cluster = MixedCluster(directory, code, brokers=3)  # all nodes run the old version
    cluster.start()
    cluster.stop(1)
    cluster.upgrade(1)                                  # this one runs today's
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.local_cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED_SINCE = "655af2f"
"""Version 0.1.0: the oldest code whose files and messages between nodes today's nodes can work with, one node at a
time. The versions of the metadata records are those of this commit: docs/operations/upgrade.md."""

OLD_VERSION = os.environ.get("MINIKAFKA_UPGRADE_FROM", SUPPORTED_SINCE)


def old_version(folder: Path, commit: str = OLD_VERSION) -> Path:
    """The sources of `commit`, in `folder`: what PYTHONPATH has to name. Skips without git, or without the commit."""
    try:
        ran = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True)
    except FileNotFoundError:
        pytest.skip("git is missing, from whose history an old version is taken")
    if ran.returncode:
        pytest.skip(f"no old version to upgrade from: a shallow clone, or no clone, has no commit {commit}")
    with tarfile.open(fileobj=io.BytesIO(ran.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"


class MixedCluster(LocalCluster):
    """A local cluster whose nodes run the code in `old`, until they are upgraded."""

    def __init__(self, directory: Path, old: Path, **arguments: Any) -> None:
        super().__init__(directory, **arguments)
        self._old = old
        self._upgraded: set[int] = set()

    def command(self, node_id: int) -> list[str]:
        today = ROOT / "package"
        path = today if node_id in self._upgraded else self._old
        return ["env", f"PYTHONPATH={path}", *super().command(node_id)]

    def upgrade(self, node_id: int) -> None:
        """The node's next start runs today's code."""
        self._upgraded.add(node_id)
