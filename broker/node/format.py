"""Formats the data directories of a node before its first start, as `kafka-storage format` does (KIP-631, KIP-853).

The files, in this order; `meta.properties` comes last, so that a directory is formatted as a whole or not at all::

    <metadata.log.dir>/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint    the first voters
    <each directory>/bootstrap.checkpoint                                                 feature levels, first users
    <each directory>/meta.properties                                                      cluster, node, directory

A node can start without formatted directories: its quorum then has the voters that the settings name. Only a quorum
whose voters are added and removed must be formatted.

*Caveats*: Features that minikafka does not have (share.version, streams.version) cannot be chosen, and those of a
directory that Kafka has formatted are left out. The metadata.version is at least 4.0-IV1.

Source: `StorageTool`, `Formatter`, `DynamicVoter`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.cluster_ids import known_cluster_id
from minikafka.controller.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_MIN,
    RELEASES,
    level_of_release,
    levels_of_new_cluster,
)
from minikafka.controller.metadata.formatted_levels import Formatted, write_formatted
from minikafka.controller.quorum.bootstrap_checkpoint import write_bootstrap_checkpoint
from minikafka.controller.raft.voter_set import ReplicaKey, Voter, VoterEndpoint, VoterSet
from minikafka.controller.settings.metadata_log_settings import data_directories, metadata_directory
from minikafka.protocol.names import uuid_from_text, uuid_text
from minikafka.storage.directories.directory_identity import WrongDirectory, make_durable_directory
from minikafka.storage.directories.directory_ids import is_reserved, new_directory_id
from minikafka.storage.disks.checkpoint_files import META_PROPERTIES, write_properties
from minikafka.storage.disks.disk import Disk

__all__ = ["CannotFormat", "Voters", "feature_levels", "first_voters", "format_directories", "initial_controllers"]

_VOTER = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]+\]|[^:@\[\]]+):(?P<port>\d+):(?P<directory>[^:@]+)")


class CannotFormat(ValueError):
    """The directories cannot be formatted as requested. The text says why."""


@dataclass(frozen=True, slots=True)
class Voters:
    """The command-line options that name the first voters of the quorum.

    Attributes:
        standalone: this node is the only voter.
        initial: the voters as `id@host:port:directory-id,…`; None if they are not named in this way.
        none_yet: the other controllers know the voters, and this node follows the other controllers.
    """

    standalone: bool = False
    initial: str | None = None
    none_yet: bool = False

    @property
    def can_change(self) -> bool:
        """Whether voters can be added and removed, that is, whether the quorum has kraft.version 1."""
        return self.standalone or self.none_yet or self.initial is not None


def first_voters(config: NodeConfig, voters: Voters, random: Random) -> VoterSet | None:
    """The voters for the bootstrap checkpoint; None if this node needs no checkpoint. Raises CannotFormat."""
    fixed = bool(config.values["controller.quorum.voters"])
    named = voters.standalone or voters.initial is not None
    if named and not config.is_controller:
        flag = "--standalone" if voters.standalone else "--initial-controllers"
        raise CannotFormat(f"You can only use {flag} on a controller.")
    if named and fixed:
        raise CannotFormat(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if config.is_controller and not (fixed or voters.can_change or config.is_alone):
        raise CannotFormat(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    if not named:
        return None
    listener = (config.listeners.controller_names or ("",))[0]
    found = [one for one in config.listeners.advertised_for_controllers if one.name == listener]
    if not found:
        raise CannotFormat("A voter needs a listener for controllers: set controller.listener.names.")
    if voters.initial is not None:
        return initial_controllers(voters.initial, listener)
    where = VoterEndpoint(listener, found[0].host or "localhost", found[0].port)
    return VoterSet([Voter(ReplicaKey(config.node_id, new_directory_id(random)), (where,))])


def initial_controllers(text: str, listener: str) -> VoterSet:
    """The voters that the text of `--initial-controllers` names, at a listener. Raises CannotFormat."""
    voters = []
    for item in filter(None, map(str.strip, text.split(","))):
        found = _VOTER.fullmatch(item)
        if found is None:
            raise CannotFormat(f"{item!r} is not ID@HOST:PORT:DIRECTORY_ID")
        try:
            directory = uuid_from_text(found["directory"])
        except ValueError as error:
            raise CannotFormat(f"{item!r} has an invalid directory id: {error}") from error
        if is_reserved(directory) or not 0 < int(found["port"]) < 1 << 16:
            raise CannotFormat(f"{item!r} has a reserved directory id, or a port that is none")
        where = VoterEndpoint(listener, found["host"].strip("[]"), int(found["port"]))
        voters.append(Voter(ReplicaKey(int(found["id"]), directory), (where,)))
    if not voters:
        raise CannotFormat("--initial-controllers names no controller")
    try:
        return VoterSet(voters)
    except ValueError as error:
        raise CannotFormat(str(error)) from error


def feature_levels(release: str | None, given: Mapping[str, int], *, voters: Voters, fixed: bool) -> dict[str, int]:
    """The levels of a new cluster, with its metadata.version first.

    Args:
        release: the name of a release or of a metadata.version, which decides the levels; None for the latest.
        given: levels that the user has chosen, by feature.
        fixed: whether `controller.quorum.voters` names the voters.

    Raises:
        CannotFormat: an unknown feature, or a level that is not supported.
    """
    if METADATA_VERSION in given and release is not None:
        raise CannotFormat("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    _check_kraft_version(given.get(KRAFT_VERSION), can_change=voters.can_change and not fixed)
    chosen = given.get(METADATA_VERSION, FEATURES[METADATA_VERSION][2]) if release is None else _level_of(release)
    levels = levels_of_new_cluster(chosen)
    for name, level in given.items():
        if name == KRAFT_VERSION:
            continue
        if name not in FEATURES:
            known = ", ".join(sorted({*FEATURES, KRAFT_VERSION} - {METADATA_VERSION}))
            raise CannotFormat(f"Unsupported feature: {name}. Supported features are: {known}")
        low, high = FEATURES[name][:2]
        if not max(low, METADATA_VERSION_MIN if name == METADATA_VERSION else low) <= level <= high:
            raise CannotFormat(f"No feature:{name} with feature level {level}")
        levels[name] = level
    return {METADATA_VERSION: levels[METADATA_VERSION], **{name: level for name, level in levels.items() if level}}


def _level_of(release: str) -> int:
    level = level_of_release(release)
    if level is None or level < METADATA_VERSION_MIN:
        known = ", ".join(name for name, number in RELEASES.items() if number >= METADATA_VERSION_MIN)
        raise CannotFormat(f"Unknown metadata.version '{release}'. Supported metadata.version are: {known}")
    return level


def _check_kraft_version(level: int | None, *, can_change: bool) -> None:
    flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used"
    if level == 0 and can_change:
        raise CannotFormat(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and {flags}. For dynamic controllers "
            "support, try removing the --feature flag for kraft.version."
        )
    if level == 1 and not can_change:
        raise CannotFormat(
            f"Cannot set kraft.version to 1 unless controller.quorum.voters is empty and {flags}. For dynamic "
            "controllers support, try using one of --standalone, --initial-controllers, or --no-initial-controllers "
            "and removing controller.quorum.voters."
        )
    if level not in (None, 0, 1):
        raise CannotFormat(f"No feature:{KRAFT_VERSION} with feature level {level}")


def format_directories(
    disk: Disk,
    config: NodeConfig,
    cluster_id: str,
    *,
    formatted: Formatted,
    voters: VoterSet | None,
    ignore_formatted: bool,
    now_ms: int,
    random: Random,
) -> list[str]:
    """Format the directories of a node that are not formatted yet.

    Args:
        formatted: the feature levels and users of a new cluster.
        voters: the voters for the bootstrap checkpoint; None for no such checkpoint.
        ignore_formatted: whether to skip formatted directories in place of raising `CannotFormat`.

    Returns:
        A line of text for the user for each directory that was formatted; one line if there was none.

    Raises:
        CannotFormat: a directory is formatted already.
        WrongDirectory: a directory belongs to another node or cluster.
        OSError: a directory cannot be written, or is in use by a node (BlockingIOError).
    """
    metadata = metadata_directory(config.static)
    directories = list(dict.fromkeys([metadata, *data_directories(config.static)]))
    known = known_cluster_id(disk, directories, config.node_id)
    if known not in (None, cluster_id):
        raise WrongDirectory(f"The directories belong to cluster {known}, not {cluster_id}: name that, or others")
    done = [one for one in directories if disk.exists(f"{one}/{META_PROPERTIES}")]
    if done and not ignore_formatted:
        raise CannotFormat(
            f"Log directory {done[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    if done == directories:
        return ["All of the log directories are already formatted."]
    wanted = _Format(disk, config.node_id, cluster_id, formatted, now_ms)
    lines = []
    try:
        for directory in directories:
            if directory not in done:
                kind = wanted.format(directory, voters, is_metadata=directory == metadata, random=random)
                release = _release(formatted.levels)
                lines.append(f"Formatting {kind} directory {directory} with metadata.version {release}.")
    finally:
        disk.unlock_all()
    return lines


def _release(levels: Mapping[str, int]) -> str:
    return next(name for name, level in RELEASES.items() if level == levels[METADATA_VERSION])


@dataclass(frozen=True, slots=True)
class _Format:
    """Writes the files of a format into directories, with the values that all directories share."""

    disk: Disk
    node_id: int
    cluster_id: str
    formatted: Formatted
    now_ms: int

    def format(self, directory: str, voters: VoterSet | None, *, is_metadata: bool, random: Random) -> str:
        """Write the files into a directory; returns the kind of the directory, in the words of Kafka's tool."""
        make_durable_directory(self.disk, directory)
        self.disk.lock(f"{directory}/.lock")
        directory_id, kind = new_directory_id(random), "data"
        if is_metadata:
            kind = "metadata" if voters is None else "dynamic metadata"
            own = None if voters is None else voters.get(self.node_id)
            if own is not None:
                directory_id, kind = own.key.directory_id, "dynamic metadata voter"
            if voters is not None:
                write_bootstrap_checkpoint(self.disk, directory, voters, now_ms=self.now_ms)
        write_formatted(self.disk, directory, self.formatted, now_ms=self.now_ms)
        self._write_properties(directory, directory_id)
        return kind

    def _write_properties(self, directory: str, directory_id: bytes) -> None:
        properties = {"node.id": str(self.node_id), "directory.id": uuid_text(directory_id)}
        complete = {**properties, "version": "1", "cluster.id": self.cluster_id}
        write_properties(self.disk, f"{directory}/{META_PROPERTIES}", complete)

