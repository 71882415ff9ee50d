"""Requests of the admin client: send one, retry, and raise or return the errors of the response."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from minikafka.client.admin.item_errors import ask_one
from minikafka.client.connections.answers import answer_to
from minikafka.client.connections.cluster_client import Cluster
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for

_TO_DO = {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: ": all nodes need the setting delegation.token.secret.key"}
"""What to do about an error whose own words do not say it."""


async def ask_about(
    cluster: Cluster, request: Any, what: str, node_id: int | None = None, *, final: Collection[ErrorCode] = ()
) -> Any:
    """Send a request to a broker (None: any, which forwards it). Raises the response's top-level KafkaError.

    Args:
        final: retriable errors that are raised at once, because the broker has itself waited before responding.
    """

    async def attempt() -> Any:
        response = await cluster.request(request, node_id)
        if response.error_code:
            message = getattr(response, "error_message", None)
            error = error_for(response.error_code)
            error = error_for(response.error_code, f"{what}: {message or error}{_TO_DO.get(error.code, '')}")
            if error.code in final:
                return error
            raise error
        return response

    found = await cluster.retry(attempt, what)
    if isinstance(found, KafkaError):
        raise found
    return found


async def result_of(cluster: Cluster, request: Any, what: str, named: str, node_id: int | None = None) -> Any:
    """The result for the single item of a request, `named`. Raises its KafkaError."""

    async def ask() -> Any:
        one = answer_to(request, await cluster.request(request, node_id))
        return item_error(one, named) or one

    return await ask_one(cluster, ask, what)


def item_error(result: Any, what: str) -> KafkaError | None:
    """The KafkaError of a result, with the broker's error message if it has one."""
    if not result.error_code:
        return None
    message = getattr(result, "error_message", None)
    return error_for(result.error_code, f"{what}: {message or error_for(result.error_code)}")
