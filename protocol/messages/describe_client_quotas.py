"""DescribeClientQuotas, API key 48: lists client quotas by user, client id or IP address (KIP-546).

Versions 0-1, flexible from 1 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import float64, int8, int16, int32, string


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """A filter per entity type; match_type: 0 exact name, 1 default, 2 any specified name."""

    components: list[ComponentData] = []
    strict: bool = False


@struct
class ComponentData:
    entity_type: string = ""
    match_type: int8 = 0
    match: string | None


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """Quotas by entity."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
    entries: list[EntryData] | None


@struct
class EntryData:
    entity: list[EntityData] = []
    values: list[ValueData] = []


@struct
class EntityData:
    entity_type: string = ""
    entity_name: string | None


@struct
class ValueData:
    key: string = ""
    value: float64 = 0.0
