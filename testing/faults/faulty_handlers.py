"""`FaultyHandlers`: stands in front of the handlers of a node, notes what clients send, and applies the faults.

Uses trio: it delays requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import trio

from minikafka.broker.connections.refusals import refusal_of
from minikafka.broker.connections.request_context import ConnectionInfo, Disconnect, LastAnswer, RequestContext
from minikafka.broker.connections.routes import Route
from minikafka.protocol.errors import ErrorCode, KafkaError, UnknownTopicIdError, error_for
from minikafka.protocol.headers import response_parts
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.waits import in_task
from minikafka.testing.faults.fault import Action, Fault, Selection, first_of
from minikafka.testing.faults.faults import Faults
from minikafka.testing.faults.helper import HELPER
from minikafka.testing.faults.named_things import Names, copy_of, join, named_things, without
from minikafka.testing.faults.seen_requests import SeenRequests, plain
from minikafka.testing.request import Request

__all__ = ["FaultyHandlers", "is_of_a_node"]

S = TypeVar("S")
_NODES = "broker-"
_CLIENTS_MAX = 10_000
_OF_REQUESTS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.REBOOTSTRAP_REQUIRED,
)
"""Errors of a whole Fetch or Metadata; with all others Kafka answers for each partition or topic."""
_ANSWERED_FIRST = "Metadata"
"""A request that need not name the topics of its response."""


def is_of_a_node(client_id: str) -> bool:
    """Whether a request is of another node of the cluster, by its client id."""
    return client_id.startswith(_NODES)


class FaultyHandlers:
    """The `Interposer` of one node.

    Args:
        node_id: The id of the node.
        now_ms: The clock of the nodes, in milliseconds since 1970.

    Attributes:
        client_ids: The client id of each connection that has sent a request.
    """

    enabled = True

    def __init__(self, node_id: int, faults: Faults, seen: SeenRequests, now_ms: Callable[[], int]) -> None:
        self.client_ids: dict[tuple[str, int], str] = {}
        self._node_id = node_id
        self._faults = faults
        self._seen = seen
        self._now_ms = now_ms

    def routes(self, routes: dict[int, Route[S]]) -> dict[int, Route[S]]:
        """Return the routes with handlers that apply the faults."""
        return {key: replace(route, handle=partial(self._handle, route)) for key, route in routes.items()}

    def request_completed(self, api: str, context: RequestContext[Any], **_: float) -> None:
        """Nothing to do: requests are noted before they are handled."""

    def name_of(self, connection: ConnectionInfo) -> str:
        """The client id that a connection has last sent; "" before its first request."""
        return self.client_ids.get((connection.client_host, connection.client_port), "")

    async def _handle(self, route: Route[Any], request: Any, context: RequestContext[Any]) -> Any:
        client_id = context.client_id
        self._remember(context.connection, client_id)
        if client_id == HELPER or is_of_a_node(client_id):
            return await route.handle(request, context)
        self._note(route, request, context)
        in_force = self._faults.in_force()
        if not in_force:
            return await route.handle(request, context)
        names = partial(_name_of, context)
        things = named_things(request, names)
        met = [one for one in in_force if one.selection.matches(route.name, self._node_id, request, context, things)]
        if seconds := sum(one.action.seconds for one in met if one.action.verb == "delay" and one.hit()):
            await in_task()
            await trio.sleep(seconds)
        decisive = first_of(met)
        response = await (
            route.handle(request, context) if decisive is None else _Faulty(route, request, context, decisive).answer()
        )
        return _throttled(response, [one for one in met if one.action.verb == "throttle" and one.hit()])

    def _remember(self, connection: ConnectionInfo, client_id: str) -> None:
        self.client_ids[connection.client_host, connection.client_port] = client_id
        if len(self.client_ids) > _CLIENTS_MAX:
            del self.client_ids[next(iter(self.client_ids))]

    def _note(self, route: Route[Any], request: Any, context: RequestContext[Any]) -> None:
        connection = context.connection
        client = f"{connection.client_host}:{connection.client_port}"
        said = plain(request, context.version)
        self._seen.add(
            Request(0, self._now_ms(), self._node_id, route.name, context.version, context.client_id, client, said)
        )


class _Faulty:
    """One request that a fault hits."""

    def __init__(self, route: Route[Any], request: Any, context: RequestContext[Any], fault: Fault) -> None:
        self._route, self._request, self._context, self._fault = route, request, context, fault

    async def answer(self) -> Any:
        action = self._fault.action
        if action.verb == "fail":
            return await self._fail(action, self._fault.selection)
        if action.verb == "drop":
            return await self._drop(action)
        return await self._disconnect(action)

    async def _drop(self, action: Action) -> Any:
        if action.applied:
            await self._handled()
        await in_task()
        ended, token = trio.Event(), trio.lowlevel.current_trio_token()
        self._fault.at_end(lambda: token.run_sync_soon(ended.set))
        await ended.wait()
        raise Disconnect(f"the fault that held this {self._route.name} was removed", is_logged=True)

    async def _disconnect(self, action: Action) -> Any:
        reason = f"a fault disconnects {action.when} this {self._route.name}"
        if action.when == "before":
            raise Disconnect(reason, is_logged=True)
        response = await self._handled()
        if action.when == "halfway" and response is not None:
            await in_task()
            parts = response_parts(response, self._context.version, 0)
            whole = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
            raise LastAnswer(reason, [whole[: len(whole) // 2]], is_logged=True)
        raise Disconnect(reason, is_logged=True)

    async def _handled(self) -> Any:
        """The response of the handler; None if the request fails or has none."""
        try:
            return await self._route.handle(self._request, self._context)
        except KafkaError:
            return None

    async def _fail(self, action: Action, selection: Selection) -> Any:
        error = error_for(action.error)
        if getattr(self._request, "acks", None) == 0:
            raise Disconnect(f"{self._route.name}: {error}", is_logged=True)
        names = partial(_name_of, self._context)
        if self._route.name == _ANSWERED_FIRST and action.error not in _OF_REQUESTS:
            return await self._fail_topics(error, selection, names)
        if selection.is_of_a_part:
            return await self._fail_partitions(action, selection, names)
        of_items = self._route.name == "Fetch" and action.error not in _OF_REQUESTS
        refused = self._refusal(self._request, error, of_items=of_items)
        if action.applied:
            await self._handled()
        return refused

    def _refusal(self, request: Any, error: KafkaError, *, of_items: bool) -> Any:
        return refusal_of(request, self._route.response, self._context.version, error, of_items=of_items)

    async def _fail_topics(self, error: KafkaError, selection: Selection, names: Names) -> Any:
        """Answer a Metadata whose topics have the error, and no partitions, as in Kafka."""
        response = await self._route.handle(self._request, self._context)
        for topic in response.topics:
            if selection.names(topic.name or names(topic.topic_id), None):
                topic.error_code, topic.partitions = error.code, []
        return response

    async def _fail_partitions(self, action: Action, selection: Selection, names: Names) -> Any:
        """Refuse the partitions that the fault concerns, and have the handler answer for the others."""
        refused, others = copy_of(self._request), copy_of(self._request)
        without(refused, names, selection.names)
        refusal = self._refusal(refused, error_for(action.error), of_items=True)

        def is_other(topic: str, partition: int | None) -> bool:
            return not selection.names(topic, partition)

        if action.applied:
            response = await self._route.handle(self._request, self._context)
            without(response, names, is_other)
        else:
            without(others, names, is_other)
            if not named_things(others, names).partitions:
                return refusal
            response = await self._route.handle(others, self._context)
        join(response, refusal, names)
        return response


def _name_of(context: RequestContext[Any], topic_id: bytes) -> str:
    """The name of the topic of an id; "" if there is none."""
    try:
        name: str = context.services.partitions.name_of(topic_id)
    except UnknownTopicIdError:
        return ""
    return name


def _throttled(response: Any, throttles: list[Fault]) -> Any:
    """Write the throttle time into a response whose API has a field for it; the dispatcher mutes the connection."""
    if throttles and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, *(one.action.throttle_ms for one in throttles))
    return response
