"""UpdateFeatures: changes finalized feature levels; a request as a whole succeeds or fails (KIP-584, 778, 1022).

The level of kraft.version is not decided here (`active/request_routing.py`). Source: `FeatureControlManager`. As in
Kafka, the field `allow_downgrade` of version 0 has no effect.
"""

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.features import (
    FEATURES,
    METADATA_CHANGES,
    METADATA_VERSION,
    MISSING,
)
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import FeatureRecord
from minikafka.protocol.errors import InvalidUpdateVersionError, KafkaError
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["NO_ERROR", "decide", "reason_to_refuse", "refusal"]

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NO_ERROR = "NONE"
"""The error message that Kafka sends for an update that succeeded."""


def decide(image: Image, request: UpdateFeaturesRequest, context: Context) -> Decision[UpdateFeaturesResponse]:
    """Make all updates, or none and return the first error. If a feature is named twice, the last update counts."""
    records: list[FeatureRecord] = []
    try:
        for update in {update.feature: update for update in request.feature_updates}.values():
            _check(update, image, context.static.node_id)
            records.append(FeatureRecord(update.feature, update.max_version_level))
    except InvalidUpdateVersionError as error:
        return Decision([], refusal(error))
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=NO_ERROR) for update in request.feature_updates
    ]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else [*records], reply)


def refusal(error: KafkaError) -> UpdateFeaturesResponse:
    """The response to a request that fails because one feature cannot be updated."""
    message = f"The update failed for all features since the following feature had an error: {error.message}"
    return UpdateFeaturesResponse(error_code=error.code, error_message=message)


def _check(update: FeatureUpdateKey, image: Image, node_id: int) -> None:
    """Validates one update.

    Raises:
        InvalidUpdateVersionError: the level is invalid, with Kafka's message.
    """
    level, current = update.max_version_level, image.features.get(update.feature, 0)
    supported = FEATURES[update.feature][:2] if update.feature in FEATURES else None
    reason = reason_to_refuse(update, current, node_id, supported)
    if reason:
        raise InvalidUpdateVersionError(f"Invalid update version {level} for feature {update.feature}. {reason}")
    if update.feature == METADATA_VERSION and any(level < change <= current for change in METADATA_CHANGES):
        unsafe = "Unsafe metadata downgrade is not supported in this version."
        lossy = "Refusing to perform the requested downgrade because it might delete metadata information."
        raise InvalidUpdateVersionError(
            f"Unsupported metadata.version downgrade from {current} to {level}. "
            f"{unsafe if update.upgrade_type == UNSAFE_DOWNGRADE else lossy}"
        )


def reason_to_refuse(
    update: FeatureUpdateKey, current: int, node_id: int, supported: tuple[int, int] | None
) -> str | None:
    """The reason why a feature cannot be updated, in words; None if it can.

    Args:
        update: the requested update.
        current: the current level of the feature.
        node_id: the id of this controller.
        supported: the lowest and highest level that the controller supports; None if it does not know the feature.
    """
    level, kind = update.max_version_level, update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if supported is None:
        if level == 0 and kind != UPGRADE and update.feature in MISSING:
            return None
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {node_id} does not support this feature."
    low, high = supported
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
