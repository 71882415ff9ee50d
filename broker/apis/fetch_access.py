"""What the client of a Fetch may read: consumers need READ on each topic, followers CLUSTER_ACTION on the cluster."""

from collections.abc import Generator
from typing import Any

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.fetch_response import AT_ONCE
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.fetch_result import Fetcher, Names
from minikafka.broker.partitions.fetch_sessions import Session
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import TopicAuthorizationFailedError

READ = AclOperation.READ
"""A constant, since the attributes of an Enum take long."""


def readable(context: RequestContext[Any], *, follows: bool) -> Names | None:
    """Return the topics that the client may read; None for all. CLUSTER_ACTION is for followers.

    A request is authorized once, as in Kafka: what changes while it waits holds for the next one.
    """
    if context.authorizer is None:
        return None
    if not follows:
        return AllowedTopics(context, READ)
    if context.access.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return frozenset()


def check_readable(topic: str, fetcher: Fetcher) -> None:
    """Raise TopicAuthorizationFailedError if the client may not read the topic."""
    if fetcher.readable is not None and topic not in fetcher.readable:
        raise TopicAuthorizationFailedError("Topic authorization failed.")


def refuse_unreadable(session: Session, allowed: Names) -> Generator[None, None, None]:
    """Let the response have those partitions of the session that the client may no longer read."""
    for number, (key, cached) in enumerate(list(session.partitions.items()), 1):
        if number % AT_ONCE == 0:
            yield
        if cached.topic and cached.topic not in allowed:
            session.changes.keys[key] = None
