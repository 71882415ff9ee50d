"""Whose a directory is: of a local cluster, of one of its nodes, or of a single node.

A node takes folders in its data directory that it does not know for logs of deleted topics, and moves them away. A
cluster adds folders of its own to its directory. So each is refused the directory of the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

_NODE = re.compile(r"node-\d+")


def why_no_cluster(directory: Path) -> str:
    """Why a directory cannot be that of a cluster, and what to do; "" if it can."""
    directory = directory.resolve()
    if why := why_several(directory):
        return why
    if _is_of_a_cluster(directory):
        return ""
    node = _node_of(directory)
    if node is not None:
        return f"{directory} is of one node of a cluster: that of all nodes is --data-dir {node.parent}"
    if _has_data(directory):
        return (
            f"{directory} has the data of a single node, which `minikafka server --data-dir {directory}` runs: "
            "a cluster needs a directory of its own"
        )
    return ""


def why_several(directory: Path) -> str:
    """Why a path would be those of several data directories, and what to do; "" if it is one."""
    if "," not in str(directory):
        return ""
    return f"{directory} has a comma, which separates directories in log.dirs: set log.dirs itself for several"


def why_no_data_directory(directory: Path) -> str:
    """Why a directory cannot be the data directory of a node, and what to do; "" if it can."""
    directory = directory.resolve()
    if _is_of_a_cluster(directory):
        node = min(directory.glob("node-*/server.properties"))
        return (
            f"{directory} is of a cluster, which `minikafka cluster --data-dir {directory}` runs, and one of its nodes "
            f"`minikafka server --config {node}`"
        )
    if _is_of_a_node(directory):
        return (
            f"{directory} is the folder of a node of a cluster, which "
            f"`minikafka server --config {directory}/server.properties` runs"
        )
    return ""


def why_not_together(log_dirs: Sequence[str], metadata_log_dir: str) -> str:
    """Why directories cannot be those of one node, and what to do; "" if they can.

    A name of another way to the same directory would be a second directory. What is in a data directory is taken for
    logs. Each is an error of Apache Kafka's brokers as well.
    """
    real = {one: Path(one).resolve() for one in (*log_dirs, metadata_log_dir)}
    for one, other in combinations(log_dirs, 2):
        if real[one] == real[other]:
            return f"log.dirs names one directory twice, as {one} and as {other}: leave out one of them"
    for outer in log_dirs:
        for inner in real:
            if real[outer] in real[inner].parents:
                return (
                    f"{inner} is inside of {outer}, a data directory, in which all directories are logs: name one that "
                    "is not inside of another"
                )
    return ""


def _is_of_a_cluster(directory: Path) -> bool:
    return any(directory.glob("node-*/server.properties"))


def _has_data(directory: Path) -> bool:
    return (directory / "meta.properties").exists()


def _node_of(directory: Path) -> Path | None:
    """The folder of the node of a cluster that this one, or the data in it, is of."""
    for folder in (directory, *([directory.parent] if directory.name == "data" else [])):
        if _is_of_a_node(folder):
            return folder
    return None


def _is_of_a_node(directory: Path) -> bool:
    """A folder of a node with its settings; not one that is a data directory already, as somebody may have chosen."""
    is_named_so = _NODE.fullmatch(directory.name) is not None
    return is_named_so and (directory / "server.properties").exists() and not _has_data(directory)
