"""ListConfigResources, API key 74: lists resources that have settings (KIP-1142).

Versions 0-1, all flexible (KIP-482).

- v0 was ListClientMetricsResources (KIP-714).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """Resource types; v0 lists client metrics only."""

    resource_types: list[int8] = field(default=[], versions="1+")


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Resource names and types."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = []


@struct
class ConfigResource:
    resource_name: string = ""
    resource_type: int8 = field(default=16, versions="1+", ignorable=True)
