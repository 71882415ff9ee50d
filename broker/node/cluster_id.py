"""Gives new data directories the cluster id that the operator has chosen, as `kafka-storage format` does."""

from collections.abc import Mapping
from random import Random

from minikafka.controller.metadata.cluster_ids import known_cluster_id
from minikafka.controller.settings.metadata_log_settings import data_directories, metadata_directory
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.disk import Disk

__all__ = ["choose_cluster_id", "chosen_cluster_id"]

VARIABLE = "CLUSTER_ID"
"""The environment variable with the cluster id, as in Apache Kafka's image."""
OTHER_VARIABLES = ("KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
"""The names of that environment variable in Bitnami's image."""


def chosen_cluster_id(environment: Mapping[str, str]) -> str | None:
    """The cluster id from the first of the environment variables that is set; None if none is set."""
    return next(filter(None, map(environment.get, (VARIABLE, *OTHER_VARIABLES))), None)


def choose_cluster_id(disk: Disk, static: StaticSettings, cluster_id: str, random: Random) -> None:
    """Write `meta.properties` with this cluster id if all data directories of the node are new.

    Does nothing if the directories already belong to this cluster. The directory of the metadata log is written first,
    since without its cluster id the data would look lost. If the process ends halfway, the node writes the cluster id
    to the other directories at its next start.

    Raises:
        WrongDirectory: The directories belong to another cluster or node; the text names the variable.
        BrokenCheckpoint: A `meta.properties` cannot be read.
        OSError: A directory cannot be written, or is in use by another process.
    """
    directories = list(dict.fromkeys([metadata_directory(static), *data_directories(static)]))
    known = known_cluster_id(disk, data_directories(static), static.node_id)
    if known not in (None, cluster_id):
        raise WrongDirectory(
            f"{VARIABLE} is {cluster_id}, but {' and '.join(directories)} belong to cluster {known}: "
            f"set {VARIABLE}={known}, leave it out, or use other data directories"
        )
    if known is None:
        try:
            for directory in directories:
                DataDirectory(disk, directory).open(static.node_id, cluster_id, random=random)
        finally:
            disk.unlock_all()
