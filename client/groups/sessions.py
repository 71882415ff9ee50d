"""`SESSIONS`: the session class for each value of `group_protocol`."""

from __future__ import annotations

from minikafka.client.groups.classic_session import ClassicGroup
from minikafka.client.groups.consumer_session import ConsumerGroup
from minikafka.client.groups.group_session import GroupSession

SESSIONS: dict[str, type[GroupSession]] = {"classic": ClassicGroup, "consumer": ConsumerGroup}
