"""UpdateFeatures: accepted and rejected feature levels."""

from typing import Any

import pytest
from support.images import cluster, decided, name_of

from minikafka.controller.decisions import update_features
from minikafka.controller.metadata.image import Image
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
    "a feature that is off switched on": ([("kraft.version", 1, UPGRADE)], "NONE"),
    "an unknown feature": ([("no.such.feature", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "no name": ([("", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a level too high": ([("metadata.version", 999, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a level too low": ([("metadata.version", 1, SAFE)], "INVALID_UPDATE_VERSION"),
    "less than nothing": ([("group.version", -1, SAFE)], "INVALID_UPDATE_VERSION"),
    "a step down called a step up": ([("transaction.version", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a step up called a step down": ([("kraft.version", 1, SAFE)], "INVALID_UPDATE_VERSION"),
    "older metadata": ([("metadata.version", 29, SAFE)], "INVALID_UPDATE_VERSION"),
    "older metadata by force": ([("metadata.version", 7, UNSAFE)], "INVALID_UPDATE_VERSION"),
    "an unknown kind of step": ([("group.version", 1, 0)], "INVALID_UPDATE_VERSION"),
    "one right, one wrong": ([("group.version", 0, SAFE), ("no.such", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
}


FEATURES = {
    "group.version": (0, 1, 1),
    "kraft.version": (0, 1, 0),
    "metadata.version": (7, 30, 30),
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
