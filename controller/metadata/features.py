"""The features of a cluster and their levels, as in Apache Kafka 4.3 (KIP-584, KIP-1022).

Source: `MetadataVersion`, `Feature`.
"""

from collections.abc import Mapping

__all__ = [
    "ELR_VERSION",
    "FEATURES",
    "KRAFT_VERSION",
    "METADATA_CHANGES",
    "METADATA_VERSION",
    "METADATA_VERSION_MIN",
    "MISSING",
    "RELEASES",
    "cordons_directories",
    "level_of_release",
    "levels_of_new_cluster",
    "unsupported_level",
]

METADATA_VERSION, ELR_VERSION = "metadata.version", "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"
"""The feature whose level is not in the metadata, but in control records of Raft (`controller/raft/voter_set.py`)."""

FEATURES: dict[str, tuple[int, int, int]] = {
    METADATA_VERSION: (7, 30, 30),
    ELR_VERSION: (1, 1, 1),
    "group.version": (0, 1, 1),
    "transaction.version": (0, 2, 2),
}
"""The lowest and the highest supported level of each feature, and its level in a new cluster.

Eligible leader replicas cannot be switched off. The features of `MISSING` are not listed until they are implemented,
since clients depend on the listed features.
"""

MISSING = ("share.version", "streams.version")
"""Kafka's other features. They are off, so a request that switches one of them off succeeds without a change."""

RELEASES: dict[str, int] = {
    **{f"3.3-IV{number}": 4 + number for number in range(4)},
    "3.4-IV0": 8,
    **{f"3.5-IV{number}": 9 + number for number in range(3)},
    **{f"3.6-IV{number}": 12 + number for number in range(3)},
    **{f"3.7-IV{number}": 15 + number for number in range(5)},
    "3.8-IV0": 20,
    "3.9-IV0": 21,
    **{f"4.0-IV{number}": 22 + number for number in range(4)},
    **{f"4.1-IV{number}": 26 + number for number in range(2)},
    **{f"4.2-IV{number}": 28 + number for number in range(2)},
    "4.3-IV0": 30,
}
"""The level of metadata.version by its name."""

METADATA_CHANGES = (8, 11, 13, 14, 15, 17, 23, 30)
"""Levels of metadata.version that added metadata. Earlier levels would lose it: no downgrade below them is allowed."""

METADATA_VERSION_MIN = 23
"""4.0-IV1, the first metadata.version with eligible leader replicas, and the lowest that minikafka supports."""

_CORDONING = 30
"""4.3-IV0, the first level with cordoned directories (KIP-1066)."""
_FIRST = {"transaction.version": 24}
"""The first supported metadata.version whose new clusters have the feature, by feature."""


def levels_of_new_cluster(metadata_version: int) -> dict[str, int]:
    """The level of each feature in a new cluster with this metadata.version; 0 if it does not have the feature.

    In Kafka, new clusters have eligible leader replicas from metadata.version 26 (4.1-IV0) on; in minikafka all have.
    """
    levels = {
        name: level if metadata_version >= _FIRST.get(name, 0) else 0 for name, (_, _, level) in FEATURES.items()
    }
    return {**levels, METADATA_VERSION: metadata_version}


def cordons_directories(features: Mapping[str, int]) -> bool:
    """Whether a cluster with these feature levels supports cordoned directories (KIP-1066)."""
    return features.get(METADATA_VERSION, _CORDONING) >= _CORDONING


def level_of_release(name: str) -> int | None:
    """The metadata.version of a name: `4.2-IV1`, a release (`4.2`: its last level), or a number; None if unknown."""
    text = name.strip()
    if text.isascii() and text.isdecimal():
        return int(text) if int(text) in RELEASES.values() else None
    of_release = [level for known, level in RELEASES.items() if known == text or known.partition("-")[0] == text]
    return max(of_release, default=None)


def unsupported_level(name: str, level: int) -> str | None:
    """The reason why this node cannot serve a cluster with this finalized level, in words; None if it can."""
    lowest, highest = (METADATA_VERSION_MIN, 30) if name == METADATA_VERSION else FEATURES.get(name, (0, level, 0))[:2]
    if level and not lowest <= level <= highest:
        return f"the cluster has {name} {level}, and this version of minikafka supports {lowest} to {highest}"
    return None
