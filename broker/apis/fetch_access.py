"""What the client of a Fetch may read: consumers need READ on each topic, followers CLUSTER_ACTION on the cluster."""

from collections.abc import Callable, Generator
from typing import Any

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.fetch_response import AT_ONCE
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.fetch_result import Fetcher
from minikafka.broker.partitions.fetch_sessions import Session
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import TopicAuthorizationFailedError

READ = AclOperation.READ
"""A constant, since the attributes of an Enum take long."""


def readable(context: RequestContext[Any], *, follows: bool) -> Callable[[str], bool] | None:
    """Return the answer to whether the client may read a topic; None for all. CLUSTER_ACTION is for followers.

    A request is authorized once, as in Kafka: what changes while it waits holds for the next one.
    """
    if context.authorizer is None:
        return None
    access = context.access
    if not follows:
        return AllowedTopics(access, READ).__contains__
    if access.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return lambda topic: False


def check_readable(topic: str, fetcher: Fetcher) -> None:
    """Raise TopicAuthorizationFailedError if the client may not read the topic."""
    if fetcher.readable is not None and not fetcher.readable(topic):
        raise TopicAuthorizationFailedError("Topic authorization failed.")


def refuse_unreadable(session: Session, may_read: Callable[[str], bool]) -> Generator[None, None, None]:
    """Let the response have those partitions of the session that the client may no longer read."""
    for number, (key, cached) in enumerate(list(session.partitions.items()), 1):
        if number % AT_ONCE == 0:
            yield
        if cached.topic and not may_read(cached.topic):
            session.changes.keys[key] = None
