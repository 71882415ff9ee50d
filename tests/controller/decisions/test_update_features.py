"""UpdateFeatures: accepted and rejected feature levels."""

from typing import Any

import pytest
from support.images import cluster, decided, name_of

from minikafka.controller.decisions import update_features
from minikafka.controller.decisions.bootstrap_records import INITIAL_METADATA_VERSION, bootstrap
from minikafka.controller.metadata.features import level_of_release
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import FeatureRecord, UnreadableRecord
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def update(image: Image, *levels: tuple[str, int, int], validate_only: bool = False) -> str:
    updates = [
        FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind) for feature, level, kind in levels
    ]
    request: Any = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    return name_of(decided(update_features.decide, image, request).error_code)


UPGRADE, SAFE, UNSAFE = 1, 2, 3
LEVELS: dict[str, tuple[list[tuple[str, int, int]], str]] = {
    "nothing": ([], "NONE"),
    "the level it has": ([("metadata.version", 30, UPGRADE)], "NONE"),
    "the level it has, downwards": ([("group.version", 1, SAFE)], "NONE"),
    "a safe step down": ([("transaction.version", 1, SAFE)], "NONE"),
    "an unsafe step down": ([("transaction.version", 0, UNSAFE)], "NONE"),
    "a feature switched off": ([("group.version", 0, SAFE)], "NONE"),
    "a feature that is off switched on": ([("share.version", 1, UPGRADE)], "NONE"),
    "a missing feature switched off": ([("streams.version", 0, SAFE)], "NONE"),
    "a missing feature switched off by a step up": ([("streams.version", 0, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a missing feature switched on": ([("streams.version", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "voters of a node that is its own quorum": ([("kraft.version", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "an unknown feature": ([("no.such.feature", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "no name": ([("", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a level too high": ([("metadata.version", 999, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a level too low": ([("metadata.version", 1, SAFE)], "INVALID_UPDATE_VERSION"),
    "less than nothing": ([("group.version", -1, SAFE)], "INVALID_UPDATE_VERSION"),
    "a step down called a step up": ([("transaction.version", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a step up called a step down": ([("share.version", 1, SAFE)], "INVALID_UPDATE_VERSION"),
    "older metadata": ([("metadata.version", 29, SAFE)], "INVALID_UPDATE_VERSION"),
    "older metadata by force": ([("metadata.version", 7, UNSAFE)], "INVALID_UPDATE_VERSION"),
    "an unknown kind of step": ([("group.version", 1, 0)], "INVALID_UPDATE_VERSION"),
    "one right, one wrong": ([("group.version", 0, SAFE), ("no.such", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
}


FEATURES = {
    "group.version": (0, 1, 1),
    "share.version": (0, 1, 0),
    "metadata.version": (7, 30, 30),
    "eligible.leader.replicas.version": (1, 1, 1),
    "transaction.version": (0, 2, 2),
}


@pytest.mark.parametrize(("levels", "error"), LEVELS.values(), ids=LEVELS)
def test_feature_updates(
    levels: list[tuple[str, int, int]], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, bounds in FEATURES.items():
        monkeypatch.setitem(update_features.FEATURES, name, bounds)
    image, untouched = cluster(), cluster()
    assert update(image, *levels, validate_only=True) == error
    assert image == untouched
    assert update(image, *levels) == error
    changed = {name: level for name, level, _ in levels} if error == "NONE" else {}
    wanted = {name: level for name, level in {**untouched.features, **changed}.items() if level}
    assert image.features == wanted


@pytest.mark.parametrize(
    ("current", "level", "kind", "error"),
    [
        (29, 23, SAFE, "NONE"),
        (29, 25, UNSAFE, "NONE"),
        (29, 22, SAFE, "INVALID_UPDATE_VERSION"),
        (23, 22, UNSAFE, "INVALID_UPDATE_VERSION"),
        (29, 28, UPGRADE, "INVALID_UPDATE_VERSION"),
        (23, 30, UPGRADE, "NONE"),
        (23, 24, SAFE, "INVALID_UPDATE_VERSION"),
    ],
)
def test_metadata_versions_go_back_where_no_metadata_is_lost(current: int, level: int, kind: int, error: str) -> None:
    image = cluster()
    image.features["metadata.version"] = current
    assert update(image, ("metadata.version", level, kind)) == error
    assert image.features["metadata.version"] == (level if error == "NONE" else current)


@pytest.mark.parametrize(
    ("text", "level"),
    [("4.0-IV1", 23), ("4.2", 29), ("4.3", 30), ("4.3-IV0", 30), (" 25 ", 25), ("3.3", 7), ("5.0", None), ("31", None)],
)
def test_names_of_metadata_versions(text: str, level: int | None) -> None:
    assert level_of_release(text) == level


@pytest.mark.parametrize(
    ("name", "level", "supported"),
    [
        ("metadata.version", 22, False),
        ("metadata.version", 23, True),
        ("metadata.version", 31, False),
        ("transaction.version", 0, True),
        ("transaction.version", 3, False),
        ("a.feature.of.later", 7, True),
    ],
)
def test_a_node_refuses_metadata_of_levels_that_it_does_not_support(name: str, level: int, supported: bool) -> None:
    image = Image()
    if supported:
        image.apply(FeatureRecord(name, level))
    else:
        with pytest.raises(UnreadableRecord, match=f"{name} {level}"):
            image.apply(FeatureRecord(name, level))


def test_a_new_cluster_has_the_metadata_version_of_its_setting() -> None:
    records = bootstrap("cluster", StaticSettings(1, {INITIAL_METADATA_VERSION: "4.1"}))
    levels = {record.name: record.level for record in records if isinstance(record, FeatureRecord)}
    assert (levels["metadata.version"], levels["transaction.version"]) == (27, 2)
    assert levels["eligible.leader.replicas.version"] == 1


def test_a_new_cluster_has_the_features_of_its_metadata_version() -> None:
    records = bootstrap("cluster", StaticSettings(1, {INITIAL_METADATA_VERSION: "4.0-IV1"}))
    levels = {record.name: record.level for record in records if isinstance(record, FeatureRecord)}
    assert levels == {"metadata.version": 23, "group.version": 1, "eligible.leader.replicas.version": 1}
