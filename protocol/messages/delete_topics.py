"""DeleteTopics, API key 20: deletes topics.

Versions 1-6, flexible from 4 on (KIP-482).

- v3: TOPIC_DELETION_DISABLED may be returned.
- v5: error_message; THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599).
- v6: topic ids (KIP-516).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uuid


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """By name; from v6 on by name or id."""

    topics: list[DeleteTopicState] = field(default=[], versions="6+")
    topic_names: list[string] = field(default=[], versions="0-5", ignorable=True)
    timeout_ms: int32 = 0


@struct
class DeleteTopicState:
    name: string | None = field(default=None, versions="6+")
    topic_id: uuid = field(default=NIL_UUID, versions="6+")


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    """A result per topic."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    responses: list[DeletableTopicResult] = []


@struct
class DeletableTopicResult:
    name: string | None = field(nullable="6+")
    topic_id: uuid = field(default=NIL_UUID, versions="6+", ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field(default=None, versions="5+", ignorable=True)
