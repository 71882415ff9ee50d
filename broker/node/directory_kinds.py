"""Tells whether a directory belongs to a local cluster, to one node of a local cluster, or to a single node.

A node takes unknown folders in its data directory for logs of deleted topics, and moves them away. A local cluster adds
folders of its own to its directory. So a node refuses the directory of a cluster, and a cluster that of a node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

_NODE = re.compile(r"node-\d+")


def why_no_cluster(directory: Path) -> str:
    """Why a directory cannot be used for a local cluster, and what the user can do; "" if the directory can be used."""
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
    """Why a directory cannot be a node's data directory, and what the user can do; "" if the directory can be used."""
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
    """Why one node cannot use all these directories, and what the user can do; "" if the node can use them.

    Two paths of the same directory, for example through a link, would be taken for two directories. A directory inside
    of a data directory would be taken for a log. Both are errors of Apache Kafka's brokers as well.
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
    """The folder of a cluster's node that `directory` is, or whose `data` folder it is; None if it is neither."""
    for folder in (directory, *([directory.parent] if directory.name == "data" else [])):
        if _is_of_a_node(folder):
            return folder
    return None


def _is_of_a_node(directory: Path) -> bool:
    """Whether this is the folder of a cluster's node, with its settings.

    A folder that is a data directory itself is none, even if its name and files look like it: a user may have chosen
    such a name.
    """
    is_named_so = _NODE.fullmatch(directory.name) is not None
    return is_named_so and (directory / "server.properties").exists() and not _has_data(directory)
