"""UpdateFeatures, API key 57: changes the finalized feature levels of the cluster (KIP-584).

Versions 0-2, all flexible (KIP-482).

- v1: upgrade_type and validate_only (KIP-778).
- v2: all updates succeed or fail together (KIP-1022).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """The feature levels to finalize."""

    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: bool = field(default=False, versions="1+")


@struct
class FeatureUpdateKey:
    feature: string = ""
    max_version_level: int16 = 0
    allow_downgrade: bool = field(default=False, versions="0")
    upgrade_type: int8 = field(default=1, versions="1+")


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """Up to v1, a result per feature; from v2 on, one for all."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
    results: list[UpdatableFeatureResult] = field(default=[], versions="0-1", ignorable=True)


@struct
class UpdatableFeatureResult:
    feature: string = ""
    error_code: int16 = 0
    error_message: string | None
