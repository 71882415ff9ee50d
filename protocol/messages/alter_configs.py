"""AlterConfigs, API key 33: replaces all settings of a resource (KIP-133); see IncrementalAlterConfigs.

Versions 0-2, flexible from 2 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """All settings of the resource; those not named are reset to their defaults."""

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
    value: string | None


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """A result per resource."""

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


@struct
class AlterConfigsResourceResponse:
    error_code: int16 = 0
    error_message: string | None
    resource_type: int8 = 0
    resource_name: string = ""
