"""`Registration`: the lifecycle of a broker in a cluster: registration, heartbeats, controlled shutdown.

    register ──► broker epoch ──► image has the registration ──► partitions take their roles ──► ready_to_lead
                   └─ heartbeats: fenced ──ready_to_lead──► unfenced ──controlled_shutdown──► leaders move → it stops

If the controller has no valid registration of a running broker, the broker registers again with the same incarnation
id. The registration does not decide what a broker may do: leader epochs decide that. Source: Kafka's
`BrokerLifecycleManager`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.decisions.broker_registration import SECURITY_PROTOCOLS
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Endpoint
from minikafka.protocol.errors import ErrorCode, KafkaError, KafkaStorageError, error_for
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)

__all__ = ["Registration"]

log = structlog.get_logger("minikafka.registration")

REGISTRATION_VERSION, HEARTBEAT_VERSION = 4, 2
SOON_S = 0.02
"""The interval in seconds between heartbeats while a broker waits for the controller, for example to be unfenced."""
ALONE_S = 60.0
"""The interval on a lone node, whose controller knows without contact that the broker runs: they are one process. A
broker that learns from the metadata that it is fenced, or not registered, does not wait for the end of an interval."""
RETRY_S = 0.1
SHUTDOWN_TIMEOUT_S = 8.0
LINGER_S_MIN, LINGER_S_MAX = 0.1, 1.0
_RETRIABLE = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
_PROTOCOLS = {name: number for number, name in SECURITY_PROTOCOLS.items()}


class ClusterController(Protocol):
    """The operations of the cluster's controller that `Registration` needs.

    Attributes:
        broker_epoch: The broker epoch of the last registration; set by `Registration`.
    """

    broker_epoch: int

    @property
    def cluster_id(self) -> str | None: ...

    @property
    def image(self) -> Image: ...

    @property
    def offset(self) -> int:
        """The offset of the metadata log up to which the image is complete."""
        ...

    async def handle(self, request: Any, version: int) -> Any:
        """The active controller's response. Raises KafkaError."""
        ...

    async def wait_advanced(self) -> None:
        """Wait until the image has changed."""
        ...

    async def report_contact(self) -> Any:
        """Report contact of this broker to the active controller."""
        ...


@dataclass(frozen=True, slots=True)
class _Times:
    """The intervals and time-outs of a registration, in seconds.

    Attributes:
        interval_s: The interval between heartbeats.
        response_timeout_s: How long the response to a heartbeat is awaited.
        leaderless_s: The time in which the quorum can have elected another controller.
        registration_timeout_s: How long the broker tries to register.
    """

    interval_s: float
    response_timeout_s: float
    leaderless_s: float
    registration_timeout_s: float

    @classmethod
    def of(cls, config: NodeConfig) -> "_Times":
        interval_s = max(1, config.number("broker.heartbeat.interval.ms")) / 1000
        elections_ms = 2 * config.number("controller.quorum.election.timeout.ms")
        return cls(
            ALONE_S if config.is_alone else interval_s,
            max(1, config.number("broker.session.timeout.ms")) / 1000,
            (config.number("controller.quorum.fetch.timeout.ms") + elections_ms) / 1000,
            config.number("initial.broker.registration.timeout.ms") / 1000,
        )


class Registration:
    """Registers a broker with the controller, and keeps the registration alive with heartbeats.

    Args:
        config: The node's settings.
        controller: The cluster's controller.
        incarnation_id: 16 bytes, unique to this process.
        endpoints: The advertised listeners.
        previous_broker_epoch: The broker epoch of the previous process if it shut down cleanly; otherwise -1.
        log_dirs: Returns the ids of the data directories that this broker can use (KIP-858).
        cordoned: Returns the ids of the data directories in which no new replicas are to be placed (KIP-1066).

    Attributes:
        unfenced: Set once the broker may lead partitions.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: ClusterController,
        *,
        incarnation_id: bytes,
        endpoints: Sequence[Endpoint],
        previous_broker_epoch: int,
        log_dirs: Callable[[], list[bytes]] = list,
        cordoned: Callable[[], list[bytes]] = list,
    ) -> None:
        self.unfenced = trio.Event()
        self._node_id = config.node_id
        self._controller = controller
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._rack = config.text("broker.rack")
        self._previous_broker_epoch = previous_broker_epoch
        self._log_dirs = log_dirs
        self._cordoned = cordoned
        self._times = _Times.of(config)
        self._ready = trio.Event()
        self._heartbeats = trio.CancelScope()

    async def register(self) -> None:
        """Register this broker, and set the controller's `broker_epoch`. Returns when the image has the registration.

        Raises:
            KafkaError: The registration was refused, or not accepted before `initial.broker.registration.timeout.ms`.
        """
        warned, deadline = False, trio.current_time() + self._times.registration_timeout_s
        while True:
            response = await self._request_epoch()
            if response is not None and not response.error_code:
                self._controller.broker_epoch = response.broker_epoch
                return
            code = ErrorCode.NOT_CONTROLLER if response is None else ErrorCode(response.error_code)
            if code not in _RETRIABLE or trio.current_time() > deadline:
                raise error_for(code, f"registration of broker {self._node_id} {self._why(response, code)}")
            if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION and not warned:
                warned = True
                log.warning("node.id is registered by another process", broker=self._node_id)
            await trio.sleep(RETRY_S)

    def _why(self, response: BrokerRegistrationResponse | None, code: ErrorCode) -> str:
        if response is not None:
            return f"was refused: {code.text}"
        waited = "initial.broker.registration.timeout.ms"
        timeout_s = self._times.registration_timeout_s
        return f"failed: no active controller has answered for {timeout_s:g} s ({waited}); the log above says why"

    async def _request_epoch(self) -> BrokerRegistrationResponse | None:
        """Send a registration request. Returns the response; None if no active controller responded."""
        request = BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._controller.cluster_id or self._controller.image.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=_PROTOCOLS[protocol])
                for name, host, port, protocol in self._endpoints
            ],
            rack=self._rack,
            log_dirs=self._log_dirs(),
            previous_broker_epoch=self._previous_broker_epoch,
        )
        try:
            return await self._controller.handle(request, REGISTRATION_VERSION)
        except KafkaError as error:
            if not error.retriable or self._is_hopeless(error):
                raise
            return None

    def _is_hopeless(self, error: KafkaError) -> bool:
        """Whether this broker cannot start: the disk of the controllers is full. A broker that runs tries again."""
        return isinstance(error, KafkaStorageError) and not self.unfenced.is_set()

    def ready_to_lead(self) -> None:
        """Have all further heartbeats request that this broker is unfenced."""
        self._ready.set()

    async def send_heartbeats(self) -> None:
        """Send heartbeats every `broker.heartbeat.interval.ms` until `controlled_shutdown`."""
        with self._heartbeats:
            await self._send_heartbeats()

    async def _send_heartbeats(self) -> None:
        was_fenced = True
        while True:
            began, is_ready = trio.current_time(), self._ready.is_set()
            if self._is_unfenced():
                await self._controller.report_contact()
            else:
                await self._ask_to_be_unfenced()
            unfenced = self._is_unfenced()
            if self.unfenced.is_set() and unfenced is was_fenced:
                self._log_fencing(fenced=not unfenced)
            was_fenced = not unfenced
            if unfenced:
                self.unfenced.set()
            with trio.move_on_at(began + (self._times.interval_s if unfenced else min(SOON_S, self._times.interval_s))):
                await (self._wait_fenced(was_fenced=was_fenced) if is_ready else self._ready.wait())

    async def _wait_fenced(self, *, was_fenced: bool) -> None:
        """Wait until this broker is fenced, or its registration displaced; for ever if it was so before."""
        while was_fenced or self._is_unfenced():
            await self._controller.wait_advanced()

    def _log_fencing(self, *, fenced: bool) -> None:
        if fenced:
            log.warning("this broker is fenced", broker=self._node_id)
        else:
            log.info("this broker is unfenced again", broker=self._node_id)

    def _is_unfenced(self) -> bool:
        """Whether this registration is unfenced, according to the committed metadata that this node knows."""
        broker = self._controller.image.brokers.get(self._node_id)
        return broker is not None and broker.epoch == self._controller.broker_epoch and not broker.fenced

    async def _ask_to_be_unfenced(self) -> None:
        """Send a heartbeat. Once this broker is ready, the heartbeat requests that the broker is unfenced."""
        response = await self._heartbeat(want_fence=not self._ready.is_set())
        if response is not None and response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            await self._register_again()

    async def _register_again(self) -> None:
        log.warning("broker registering again", reason="stale broker epoch", broker=self._node_id)
        self._previous_broker_epoch = -1
        await self.register()

    async def _heartbeat(self, *, want_fence: bool, want_shut_down: bool = False) -> BrokerHeartbeatResponse | None:
        """Send a heartbeat. Returns None if it failed, or had no response within `broker.session.timeout.ms`."""
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self._controller.broker_epoch,
            current_metadata_offset=self._controller.offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            cordoned_log_dirs=self._cordoned(),
        )
        with trio.move_on_after(self._times.response_timeout_s):
            try:
                return await self._controller.handle(request, HEARTBEAT_VERSION)
            except KafkaError as error:
                if self._is_hopeless(error):
                    raise
                log.debug("broker heartbeat failed", reason=str(error))
        return None

    async def controlled_shutdown(self) -> None:
        """Stop the heartbeats and let other brokers lead this broker's partitions.

        The wait is bounded, whereas Apache Kafka waits for up to five minutes. If no other replicas can take over, this
        method returns after 8 s. If there is no active controller, it returns after the time in which the quorum can
        have elected another controller. In both cases other brokers lead the partitions only once this broker's session
        has ended (`broker.session.timeout.ms`).
        """
        self._heartbeats.cancel()
        if self._controller.broker_epoch >= 0:
            await self._request_shutdown()
            await self._wait_for_other_shutdowns()

    async def _wait_for_other_shutdowns(self) -> None:
        """Wait, at most `LINGER_S_MAX` seconds, until other brokers have finished their controlled shutdowns.

        If all nodes stop together, the controlled shutdown of each needs the votes of the other nodes.
        """
        with trio.move_on_after(LINGER_S_MAX):
            await trio.sleep(LINGER_S_MIN)
            while any(
                broker.in_controlled_shutdown and not broker.fenced
                for node_id, broker in self._controller.image.brokers.items()
                if node_id != self._node_id
            ):
                await trio.sleep(SOON_S)

    async def _request_shutdown(self) -> None:
        last_response = trio.current_time()
        with trio.move_on_after(SHUTDOWN_TIMEOUT_S):
            while trio.current_time() - last_response < self._times.leaderless_s:
                with trio.move_on_after(self._times.leaderless_s):
                    response = await self._heartbeat(want_fence=False, want_shut_down=True)
                    if response is not None:
                        last_response = trio.current_time()
                        if response.should_shut_down or response.error_code == ErrorCode.STALE_BROKER_EPOCH:
                            return
                await trio.sleep(SOON_S)
        log.warning("controlled shutdown timed out", broker=self._node_id)
