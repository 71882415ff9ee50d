"""A client's access to the cluster, `Cluster`: connections, metadata refreshes, retries.

`Cluster` opens one connection per broker on first use, with exponential backoff after failures. It refreshes metadata
when a leader is missing, wrong, unreachable or silent, and after `metadata_max_age_ms`. It closes a connection whose
oldest request has timed out, or whose broker is silent and no longer in the metadata. The metadata itself is in
`cluster_metadata.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from minikafka.client.connections.answers import check_answers
from minikafka.client.connections.bootstrap import Bootstrap, connect_to_first
from minikafka.client.connections.broker_troubles import BrokerTroubles
from minikafka.client.connections.cluster_metadata import Metadata, Topic
from minikafka.client.connections.connection import Connection, open_connection
from minikafka.client.connections.endpoints import as_metadata, asks_controllers, nodes_request
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Home, Seams
from minikafka.client.connections.stalled_requests import StalledRequests
from minikafka.client.connections.stream_tasks import StreamTasks
from minikafka.client.connections.traffic import Traffic
from minikafka.client.connections.waits import Awaited, Waits
from minikafka.client.escaped_log import escaped
from minikafka.client.options import ClientOptions
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    AuthenticationError,
    BrokerNotAvailableError,
    CoordinatorNotAvailableError,
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.metadata import MetadataResponse

T = TypeVar("T")
_logger = escaped(logging.getLogger("minikafka.client.connections"))
_WATCH_INTERVAL_S = 0.1
_WATCH_INTERVAL_WHERE_BROKERS_WAIT_S = 0.5
_METADATA_PATIENCE_S = 0.5
"""How long to wait for one broker's metadata before asking another broker."""
_REPEATED_SOON_MAX = 10
"""After this many equal metadata responses in a row, refreshes back off: an election takes less time than these."""


class CoordinatorType(IntEnum):
    """The kinds of coordinators; the values are the key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """Connections and metadata; lives inside the task group of a `ClusterClient`.

    Attributes:
        metadata: the cached metadata; changed by `refresh` and by the background task.
        topics: the topics that refreshes request; None: all topics. Topics that do not exist are removed, unless the
            client waits for them.
        is_wanted: returns whether the client uses a topic, even if the topic does not exist.
        on_update: called after every change of `metadata`.
        features: the levels of the cluster's finalized features, as of the newest connection (KIP-584).
        waits: the waits of the client; long ones are logged.
        options, seams: of the client.
        home: the task, event loop, thread and process in which the client may be used.
    """

    def __init__(self, options: ClientOptions, seams: Seams, task_group: TaskGroup) -> None:
        self.metadata = Metadata()
        self.topics: dict[str, None] | None = {}
        self.is_wanted: Callable[[str], bool] = lambda name: False
        self.on_update: Callable[[], None] = lambda: None
        self.features: dict[str, int] = {}
        self.traffic = Traffic(options.client_id)
        self.waits = Waits()
        self.home = Home()
        self.options = options
        self.seams = seams
        self._task_group = task_group
        self._stream_tasks = StreamTasks(task_group)
        self._bootstrap = Bootstrap(options)
        self._connections: dict[tuple[int, str], Connection] = {}
        self._bootstrap_connections: list[Connection] = []
        self._connecting: dict[tuple[int, str], anyio.Lock] = {}
        self._failures: dict[int, tuple[int, float]] = {}
        self._stalled = StalledRequests()
        self._troubles = BrokerTroubles(options.connection_security.tokens)
        self._closed = False
        self._behind: set[str] = set()
        self._posted = anyio.Event()
        self._features_epoch = -1
        self._awaited: Counter[str] = Counter()
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._refresh_wanted = anyio.Event()
        self._refreshing = anyio.Lock()
        self._reconnect = Backoff(options.reconnect_backoff_ms, options.reconnect_backoff_max_ms, seams.random)
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, seams.random)

    async def start(self, *, lazily: bool = False) -> None:
        """Connect to a broker, and start the background tasks. Raises NetworkError.

        With `lazily`, a background task connects: it retries until a broker is reached, and `start` raises nothing.
        """
        self._stream_tasks.start_soon(self.waits.report)
        if lazily:
            self._task_group.start_soon(self._connect_in_background)
        else:
            await self.retry(self.refresh, "connecting", timeout_ms=self.options.socket_connection_setup_timeout_ms)
        self._task_group.start_soon(self._keep_fresh)
        self._task_group.start_soon(self._watch)

    @property
    def request_timeout_ms(self) -> int:
        """The option of the same name."""
        return self.options.request_timeout_ms

    async def _connect_in_background(self) -> None:
        try:
            await self.retry(self.refresh, "connecting", timeout_ms=float("inf"))
        except KafkaError as error:  # Calls that need the cluster connect again, and raise the error.
            _logger.warning("client not connected: %s", error)

    def close(self) -> None:
        """Close all connections, also those that are being opened, and stop retrying."""
        self._closed = True
        for _, connection in self._open():
            connection.close()
        self._stream_tasks.close()

    def connected(self, node_id: int, purpose: str = "") -> Connection | None:
        """The open connection to a broker, or None."""
        connection = self._connections.get((node_id, purpose))
        return connection if connection is not None and not connection.closed else None

    def is_unreachable(self, node_id: int) -> bool:
        """Whether the last attempt to connect to a broker failed, so that leaders may have changed."""
        return node_id in self._failures

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """The connection to a broker, opened if necessary; one for each `purpose`.

        A broker handles one request of a connection at a time, so requests that it may delay (Fetch, JoinGroup)
        use separate connections.

        Raises BrokerNotAvailableError for an unknown broker, NetworkError if it cannot be reached.
        """
        connection = self.connected(node_id, purpose)
        if connection is not None:
            return connection
        lock = self._connecting.setdefault((node_id, purpose), anyio.Lock())
        async with lock:
            connection = self.connected(node_id, purpose)
            if connection is not None:
                return connection
            broker = self.metadata.brokers.get(node_id)
            if broker is None:
                raise BrokerNotAvailableError(f"broker {node_id} is not in the metadata")
            failures, not_before = self._failures.get(node_id, (0, 0.0))
            await anyio.sleep_until(not_before)
            try:
                connection = await self._connect(broker.host, broker.port)
            except (NetworkError, AuthenticationError):
                pause_s = self._reconnect.delay_ms(failures) / 1000
                self._failures[node_id] = (failures + 1, anyio.current_time() + pause_s)
                self.refresh_soon()
                raise
            self._failures.pop(node_id, None)
            self._connections[node_id, purpose] = connection
            return connection

    async def any_connection(self, excluding: Container[Connection] = ()) -> Connection:
        """A connection to any broker: an open one without a stalled request and with the fewest requests in flight.

        If there is none, a new connection is opened, as a broker that is busy with one connection responds on another.

        Args:
            excluding: connections to avoid if there are others.

        Raises NetworkError that names every address tried.
        """
        open_now = [one for purpose, one in self._open() if not purpose]
        useful = [one for one in open_now if one not in self._stalled and one not in excluding]
        if useful:
            return min(useful, key=lambda one: one.in_flight)
        addresses = self._bootstrap.addresses(self.metadata.brokers.values(), {one.address for one in open_now})
        try:
            found = await connect_to_first(
                addresses, self._connect, lambda number: self._reconnect.delay_ms(number) / 1000
            )
        except NetworkError:
            if not open_now:
                raise
            return min(open_now, key=lambda one: one.in_flight)
        self._bootstrap_connections = [*(one for one in self._bootstrap_connections if not one.closed), found]
        return found

    async def request(
        self,
        message: Any,
        node_id: int | None = None,
        *,
        purpose: str = "",
        timeout_ms: float | None = None,
        highest: int | None = None,
    ) -> Any:
        """Send a request once to a broker (None: any, or the active controller), in version `highest` at most.

        Raises NetworkError, also if an answer is missing in it, BrokerNotAvailableError, UnsupportedVersionError.
        """
        if node_id is None and asks_controllers(self.options):  # Only the active one changes anything.
            await self.refresh()
            node_id = self.metadata.controller_id
        connection = await (self.any_connection() if node_id is None else self.connection(node_id, purpose))
        timeout_ms = timeout_ms or self.options.request_timeout_ms
        response = await connection.request(message, timeout_ms=timeout_ms, highest=highest)
        check_answers(message, response)
        return response

    async def retry(
        self, attempt: Callable[[], Awaitable[T]], what: str, *, timeout_ms: float | None = None
    ) -> T:
        """Call `attempt` until it succeeds or fails with an error that is not retriable, with exponential backoff.

        Raises that error or, after `timeout_ms` (default: `default_api_timeout_ms`), an error of the last error's
        class; RequestTimedOutError if no attempt has finished. A long wait is logged as `what`.
        """
        limit_ms = self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        failures, last = 0, None
        with anyio.move_on_after(limit_ms / 1000), self.waiting(what, lambda: last):
            while True:
                try:
                    return await attempt()
                except KafkaError as error:
                    if not error.retriable or self._closed:
                        raise
                    last = error
                await anyio.sleep(self._backoff.delay_ms(failures) / 1000)
                failures += 1
        kind = RequestTimedOutError if last is None else type(last)
        raise kind(f"{what} did not succeed within {limit_ms:.0f} ms: {self.why(last)}") from last

    def waiting(
        self, what: str, last: Callable[[], KafkaError | None] = lambda: None
    ) -> AbstractContextManager[None]:
        """A block that waits for `what`. If the wait is long, it is logged with the last error, `last()`."""
        began = anyio.current_time()
        return self.waits.during(lambda: Awaited(what, self.why(last()), began))

    def why(self, last: KafkaError | str | None, *, otherwise: str = "no response yet") -> str:
        """Why a wait has not ended: the last error, and the brokers that cannot be reached or do not answer."""
        silent = [one.address for purpose, one in self._open() if one in self._stalled and not purpose]
        return self._troubles.explain(last, silent) or otherwise

    async def refresh(self) -> None:
        """Request metadata now. Raises NetworkError and the response's top-level KafkaError."""
        was_refreshing = self._refreshing.locked()
        async with self._refreshing:
            is_known = self.topics is not None and self.metadata.topics.keys() >= self.topics.keys()
            if was_refreshing and is_known and self.metadata.brokers:
                return
            requests = self._requests()
            for requested, may_create in requests:
                asked = nodes_request(self.options, requested, may_create=may_create)
                connection, found = await self._request_from_any(asked)
                self._check(response := as_metadata(found))
                self.metadata.apply(response, requested, of_new=may_create and len(requests) > 1)
            self._behind = {*self._behind, connection.address} if self.metadata.behind else set()
            self._bootstrap.succeeded()
            self._troubles.keep(f"{one.host}:{one.port}" for one in self.metadata.brokers.values())
            self._close_departed()
            if self._behind or self.metadata.lacks(self.topics or ()):
                self.refresh_soon()
        self.on_update()

    def _requests(self) -> list[tuple[list[str] | None, bool]]:
        """The Metadata requests to send: for each, the topics (None: all) and whether brokers may create them.

        Brokers may only create topics for which the client waits: otherwise a deleted topic would come back.
        """
        if self.topics is None:
            return [(None, False)]
        new = [name for name in self.topics if self._may_create(name)]
        others = [name for name in self.topics if name not in new]
        return [(new, True), (others, False)] if new and others else [(new or others, bool(new))]

    def _may_create(self, name: str) -> bool:
        is_wanted = self.options.allow_auto_create_topics and name not in self.metadata.topics
        return is_wanted and (self._awaited[name] > 0 or self.is_wanted(name))

    def forget(self, topic: str) -> None:
        """Stop requesting metadata of a topic, unless a caller waits for it or the client uses it."""
        if self.topics is not None and not (self._awaited[topic] or self.is_wanted(topic)):
            self.topics.pop(topic, None)
            self.metadata.topics.pop(topic, None)

    async def _request_from_any(self, message: Any) -> tuple[Connection, Any]:
        """The response of the first broker that answers, asking another one every `_METADATA_PATIENCE_S`.

        Brokers whose last responses were older than the cached metadata are only asked if there are no others.

        Raises KafkaError.
        """
        requested = dict.fromkeys(one for _, one in self._open() if one.address in self._behind)
        patience_s = _METADATA_PATIENCE_S
        with anyio.move_on_after(self.options.request_timeout_ms / 1000):
            while True:
                if self._bootstrap.attempt(anyio.current_time()):
                    self._begin_again("no metadata for metadata_recovery_rebootstrap_trigger_ms")
                connection = await self.any_connection(requested)
                if connection in requested:
                    patience_s, requested = 2 * patience_s, {}
                requested[connection] = None
                with anyio.move_on_after(patience_s):
                    return connection, await connection.request(message, timeout_ms=self.options.request_timeout_ms)
        raise NetworkError(f"no broker answered within {self.options.request_timeout_ms} ms")

    def _check(self, response: MetadataResponse) -> None:
        """Raise NetworkError if a response has no usable metadata."""
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            if self._bootstrap.begins_again:
                self._begin_again("the broker requires it")
            raise NetworkError("no metadata: the broker requires its clients to bootstrap again")
        if not response.brokers and not response.error_code:
            raise NetworkError("no metadata: the broker knows no brokers yet")

    def _begin_again(self, why: str) -> None:
        """Drop all connections and brokers: the next metadata come from a bootstrap address (KIP-1102)."""
        _logger.warning("client begins with the bootstrap servers again: %s", why)
        self._bootstrap.rounds += 1
        for _, connection in self._open():
            connection.close("the client begins with the bootstrap servers again")
        self.metadata.brokers = {}
        self._coordinators.clear()
        self._failures.clear()

    def refresh_soon(self) -> None:
        """Make the background task refresh metadata, because part of the cached metadata has proven wrong."""
        self._refresh_wanted.set()

    async def topic(self, name: str, timeout_ms: float) -> Topic:
        """The metadata of a topic; waits up to `timeout_ms` for the topic to have partitions.

        Raises the topic's KafkaError.
        """
        known = self.metadata.topics.get(name)
        if known is not None and known.partitions:
            return known
        if self.topics is not None:
            self.topics[name] = None

        async def attempt() -> Topic:
            await self.refresh()
            topic = self.metadata.topics.get(name)
            if topic is None or not topic.partitions:
                raise self.metadata.errors.get(name) or UnknownTopicOrPartitionError(
                    f"topic {name!r} does not exist"
                )
            return topic

        self._awaited[name] += 1
        try:
            return await self.retry(attempt, f"looking up topic {name!r}", timeout_ms=timeout_ms)
        finally:
            self._awaited -= Counter((name,))

    async def coordinator(self, key: str, kind: CoordinatorType = CoordinatorType.GROUP) -> int:
        """The node id of the coordinator of a group id or a transactional id.

        Raises a retriable KafkaError if there is none yet.
        """
        known = self._coordinators.get((kind, key))
        if known in self.metadata.brokers:
            return known
        connection = await self.any_connection()
        takes_keys = connection.version_for(FindCoordinatorRequest) >= 4
        named = {"coordinator_keys": [key]} if takes_keys else {"key": key}
        request = FindCoordinatorRequest(key_type=kind, **named)
        response = await connection.request(request, timeout_ms=self.options.request_timeout_ms)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            why = found.error_message or error_for(found.error_code).message
            raise error_for(found.error_code, f"coordinator of {kind.name.lower()} {key!r}: {why}")
        if found.node_id not in self.metadata.brokers:
            await self.refresh()
        if found.node_id not in self.metadata.brokers:
            text = f"the coordinator of {key!r}, broker {found.node_id}, is not in the metadata"
            raise CoordinatorNotAvailableError(text)
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def forget_coordinator(self, key: str, kind: CoordinatorType = CoordinatorType.GROUP) -> None:
        """Remove a cached coordinator that has moved or is unreachable; `coordinator` then looks it up again."""
        self._coordinators.pop((kind, key), None)

    async def _connect(self, host: str, port: int) -> Connection:
        began = self._bootstrap.rounds
        with self._troubles.connecting(f"{host}:{port}"):
            connection = await open_connection(
                host,
                port,
                client_id=self.options.client_id,
                seams=self.seams,
                task_group=self._stream_tasks,
                timeout_ms=self.options.socket_connection_setup_timeout_ms,
                security=self.options.connection_security,
                says_if_login_lacks=True,
            )
        if self._bootstrap.rounds != began:
            connection.close()
            raise NetworkError(f"{host}:{port}: the client begins with the bootstrap servers again")
        connection.on_post = self._posted.set
        self.traffic.opened(connection)
        offer = connection.offer
        if offer.features_epoch >= self._features_epoch:
            self.features, self._features_epoch = offer.features, offer.features_epoch
        return connection

    def _open(self) -> list[tuple[str, Connection]]:
        """All open connections, each with its purpose."""
        known = [(purpose, one) for (_, purpose), one in self._connections.items()]
        known += [("", one) for one in self._bootstrap_connections]
        return [(purpose, one) for purpose, one in known if not one.closed]

    async def _keep_fresh(self) -> None:
        """Refresh metadata that is old or has proven wrong, at growing intervals while responses stay the same.

        Source: Kafka's `Metadata.timeToAllowUpdate`, which already delays the request after the first equal response.
        """
        failures = repeated = 0
        while True:
            began = anyio.current_time()
            with anyio.move_on_after(self.options.metadata_max_age_ms / 1000):
                await self._refresh_wanted.wait()
            if anyio.current_time() - began > self.options.retry_backoff_max_ms / 1000:
                failures = repeated = 0
            self._refresh_wanted = anyio.Event()
            self._forget_missing()
            before = self.metadata.brokers, dict(self.metadata.topics)
            try:
                await self.refresh()
                repeated = repeated + 1 if before == (self.metadata.brokers, self.metadata.topics) else 0
                again = self.metadata.lacks(self.topics or ()) or repeated > _REPEATED_SOON_MAX
                failures = failures + 1 if again else 0
            except KafkaError:
                self._refresh_wanted.set()
                failures += 1
            await anyio.sleep(self._backoff.delay_ms(failures) / 1000)

    def _forget_missing(self) -> None:
        """Stop requesting topics that do not exist, such as deleted ones, unless the client uses or awaits them."""
        errors = self.metadata.errors
        for name in list(self.topics or ()):
            missing = isinstance(errors.get(name), UnknownTopicOrPartitionError)
            if self.topics is not None and missing and not (self._awaited[name] or self.is_wanted(name)):
                del self.topics[name], errors[name]

    async def _watch(self) -> None:
        """Close connections with a request that has timed out, and detect stalled connections."""
        while True:
            await self._rest_from_watching()
            now = anyio.current_time()
            for _, connection in self._open():
                if connection.deadline <= now:
                    connection.close("request timed out (request_timeout_ms)")
            if self._stalled.check(self._open(), now):
                self.refresh_soon()
            self._close_departed()

    async def _rest_from_watching(self) -> None:
        """Sleep until the next check. An idle client sleeps until it sends a request."""
        busy = {purpose: None for purpose, one in self._open() if one.in_flight}
        if "" in busy:
            await anyio.sleep(_WATCH_INTERVAL_S)
            return
        self._posted = anyio.Event()
        for purpose, one in self._open():
            one.on_post = None if purpose and busy else self._posted.set
        with anyio.move_on_after(_WATCH_INTERVAL_WHERE_BROKERS_WAIT_S if busy else float("inf")):
            await self._posted.wait()
        for _, one in self._open():
            one.on_post = None

    def _close_departed(self) -> None:
        """Close stalled connections to brokers that have left the metadata, so that requests are retried elsewhere."""
        for (node_id, _), connection in list(self._connections.items()):
            if node_id not in self.metadata.brokers and connection in self._stalled:
                connection.close("no response, and the broker has left the cluster")
