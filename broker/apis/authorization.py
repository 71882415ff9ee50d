"""Checks of what a client may do that several handlers share, and the operations that each type of resource has.

A check asks `Access`; without an authorizer it allows everything and costs nothing. Source: Kafka's `AuthHelper`, and
`AclEntry.supportedOperations`.
"""

from collections.abc import Iterable
from typing import Any

from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.security.access import Access
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from minikafka.storage.steps import Pauses

TOPIC_OPERATIONS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = (
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
TOPIC = AclResourceType.TOPIC
"""A constant, since the attributes of an Enum take long."""
NO_OPERATIONS = 0
"""The bits of the cluster's authorized operations for a client that may not describe the cluster."""


def check_cluster(context: RequestContext[Any], operation: AclOperation) -> None:
    """Raise ClusterAuthorizationFailedError unless the client may do `operation` with the cluster."""
    if not context.access.allows(operation, AclResourceType.CLUSTER, CLUSTER_NAME):
        raise ClusterAuthorizationFailedError("Cluster authorization failed.")


def check_group(context: RequestContext[Any], operation: AclOperation, group_id: str) -> None:
    """Raise GroupAuthorizationFailedError unless the client may do `operation` with the group."""
    if not context.access.allows(operation, AclResourceType.GROUP, group_id):
        raise GroupAuthorizationFailedError("Group authorization failed.")


def check_transactional_id(context: RequestContext[Any], operation: AclOperation, transactional_id: str) -> None:
    """Raise TransactionalIdAuthorizationFailedError unless the client may do `operation` with the transactional id."""
    if not context.access.allows(operation, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        raise TransactionalIdAuthorizationFailedError("Transactional Id authorization failed.")


def cluster_operations(access: Access) -> int:
    """Return the bits of what the client may do with the cluster; none if it may not describe the cluster."""
    if not access.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME):
        return NO_OPERATIONS
    return access.operations(CLUSTER_OPERATIONS, AclResourceType.CLUSTER, CLUSTER_NAME)


class AllowedTopics:
    """The topics with which the client of one request may do one operation: `name in topics`.

    Each topic is asked about once, as in Kafka, however often the request names it.

    It makes no `Access`, which would be dear for a small Fetch.

    Args:
        context: The request.
        log_denied: Whether a denial is logged as one; False if the answer only filters what the client sees.
    """

    __slots__ = ("_answers", "_context", "_log_denied", "_operation")

    def __init__(
        self, context: RequestContext[Any], operation: AclOperation, *, log_denied: bool = True
    ) -> None:
        self._context = context
        self._operation = operation
        self._log_denied = log_denied
        self._answers: dict[str, bool] = {}

    async def ask(self, names: Iterable[str]) -> None:
        """Ask about many topics, and let other tasks run in between: thousands of decisions take long."""
        if self._context.authorizer is None:
            return
        pause = Pauses()
        for name in names:
            await pause(name)
            self.__contains__(name)

    def __contains__(self, name: str) -> bool:
        answer = self._answers.get(name)
        if answer is not None:
            return answer
        authorizer, client = self._context.authorizer, self._context.connection
        if authorizer is None:
            return True
        answer = self._answers[name] = authorizer.allows(
            client.principal, client.client_host, self._operation, TOPIC, name, log_denied=self._log_denied
        )
        return answer
