"""IncrementalAlterConfigs, API key 44: changes individual settings of a resource (KIP-339).

Versions 0-1, flexible from 1 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


@struct
class AlterConfigsResource:
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[AlterableConfig] = []


@struct
class AlterableConfig:
    name: string = ""
    config_operation: int8 = 0
    value: string | None


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """A result per resource."""

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


@struct
class AlterConfigsResourceResponse:
    error_code: int16 = 0
    error_message: string | None
    resource_type: int8 = 0
    resource_name: string = ""
