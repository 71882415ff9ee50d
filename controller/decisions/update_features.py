"""UpdateFeatures: changes finalized feature levels, all of a request or none (KIP-584, KIP-778, KIP-1022).

Source: `FeatureControlManager`. As in Kafka, the field `allow_downgrade` of version 0 has no effect.
"""

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.features import FEATURES, METADATA_CHANGES, METADATA_VERSION
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import FeatureRecord
from minikafka.protocol.errors import InvalidUpdateVersionError
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["decide"]

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def decide(image: Image, request: UpdateFeaturesRequest, context: Context) -> Decision[UpdateFeaturesResponse]:
    """All updates, or the first error. Of a feature that is named twice the last update counts."""
    records: list[FeatureRecord] = []
    try:
        for update in {update.feature: update for update in request.feature_updates}.values():
            _check(update, image, context.static.node_id)
            records.append(FeatureRecord(update.feature, update.max_version_level))
    except InvalidUpdateVersionError as error:
        message = f"The update failed for all features since the following feature had an error: {error.message}"
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=message))
    results = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in request.feature_updates]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else [*records], reply)


def _check(update: FeatureUpdateKey, image: Image, node_id: int) -> None:
    """Validates one update.

    Raises:
        InvalidUpdateVersionError: the level is invalid, with Kafka's message.
    """
    level, current = update.max_version_level, image.features.get(update.feature, 0)
    reason = _error(update, current, node_id)
    if reason:
        raise InvalidUpdateVersionError(f"Invalid update version {level} for feature {update.feature}. {reason}")
    if update.feature == METADATA_VERSION and any(level < change <= current for change in METADATA_CHANGES):
        unsafe = "Unsafe metadata downgrade is not supported in this version."
        lossy = "Refusing to perform the requested downgrade because it might delete metadata information."
        raise InvalidUpdateVersionError(
            f"Unsupported metadata.version downgrade from {current} to {level}. "
            f"{unsafe if update.upgrade_type == UNSAFE_DOWNGRADE else lossy}"
        )


def _error(update: FeatureUpdateKey, current: int, node_id: int) -> str | None:
    level, kind = update.max_version_level, update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if update.feature not in FEATURES:
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {node_id} does not support this feature."
    low, high, _ = FEATURES[update.feature]
    if not low <= level <= high:
        return f"Local controller {node_id} only supports versions {low}-{high}"
    if level < current and kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and kind != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
