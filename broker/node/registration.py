"""This node as a broker of a cluster: it registers, says that it is there, and takes its leave.

    register ──► epoch ──► (its image has the registration) ──► partitions take their roles ──► serve
                   └─ heartbeats from now on: fenced ──serve──► alive ──leave──► its leaders move, then it may go

A broker that is no longer known, or that somebody has forgotten, registers again as the same process. Nothing here
decides what a broker may do: leader epochs do. Trio is imported for timers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
import trio

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.decisions.broker_registration import SECURITY_PROTOCOLS
from minikafka.controller.metadata.records import Endpoint
from minikafka.protocol.errors import ErrorCode, KafkaError, error_for
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController

__all__ = ["Registration"]

log = structlog.get_logger("minikafka.registration")

REGISTRATION_VERSION, HEARTBEAT_VERSION = 4, 1
SOON_S = 0.02
"""Between questions of which the answer is about to change."""
RETRY_S = 0.1
LEAVE_TIMEOUT_S = 8.0
LINGER_S_MIN, LINGER_S_MAX = 0.1, 1.0
LEADERLESS_TIMEOUT_S = 1.5
"""A broker that wants to go, and finds nobody to tell for so long, goes without."""
_ASK_AGAIN = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
_PROTOCOLS = {name: number for number, name in SECURITY_PROTOCOLS.items()}


class Registration:
    """See above.

    Args:
        config: of the node.
        controller: of the cluster; it is told the broker epoch.
        incarnation_id: 16 bytes, of this process alone.
        endpoints: where clients and brokers reach this one.
        previous_broker_epoch: at the last shutdown, if that was a clean one; else -1.

    Attributes:
        unfenced: set once the broker may lead.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: "QuorumController",
        *,
        incarnation_id: bytes,
        endpoints: Sequence[Endpoint],
        previous_broker_epoch: int,
    ) -> None:
        self.unfenced = trio.Event()
        self._node_id = config.node_id
        self._controller = controller
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._rack = config.text("broker.rack")
        self._previous_broker_epoch = previous_broker_epoch
        self._interval_s = config.number("broker.heartbeat.interval.ms") / 1000
        self._answer_s = config.number("broker.session.timeout.ms") / 1000
        self._timeout_s = config.number("initial.broker.registration.timeout.ms") / 1000
        self._serves = False
        self._beating = trio.CancelScope()

    async def register(self) -> None:
        """Get a broker epoch. Returns when this node's image has the registration.

        Raises:
            KafkaError: the cluster does not want this broker.
        """
        told, deadline = False, trio.current_time() + self._timeout_s
        while True:
            response = await self._ask_for_epoch()
            if response is not None and not response.error_code:
                self._controller.broker_epoch = response.broker_epoch
                return
            code = ErrorCode.NOT_CONTROLLER if response is None else ErrorCode(response.error_code)
            if code not in _ASK_AGAIN or trio.current_time() > deadline:
                raise error_for(code, f"the cluster does not take broker {self._node_id}: {code.text}")
            if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION and not told:
                told = True
                log.warning("node.id is registered by another process", broker=self._node_id)
            await trio.sleep(RETRY_S)

    async def _ask_for_epoch(self) -> BrokerRegistrationResponse | None:
        """None where nobody answered as the active controller."""
        request = BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._controller.cluster_id or self._controller.image.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=_PROTOCOLS[protocol])
                for name, host, port, protocol in self._endpoints
            ],
            rack=self._rack,
            previous_broker_epoch=self._previous_broker_epoch,
        )
        try:
            return await self._controller.handle(request, REGISTRATION_VERSION)
        except KafkaError as error:
            if not error.retriable:
                raise
            return None

    def serve(self) -> None:
        """The broker can lead: the next heartbeat says so."""
        self._serves = True

    async def beat(self) -> None:
        """Say every so often that this broker is there, until it leaves."""
        with self._beating:
            await self._beat()

    async def _beat(self) -> None:
        while True:
            began = trio.current_time()
            if self._is_alive():
                self.unfenced.set()
                await self._controller.report_contact()
            else:
                await self._come_alive()
            alive = self._is_alive()
            await trio.sleep_until(began + (self._interval_s if alive else min(SOON_S, self._interval_s)))

    def _is_alive(self) -> bool:
        """Whether the cluster, as far as this node knows, takes it for alive."""
        broker = self._controller.image.brokers.get(self._node_id)
        return broker is not None and broker.epoch == self._controller.broker_epoch and not broker.fenced

    async def _come_alive(self) -> None:
        """Ask to be let in, once that is wanted."""
        response = await self._heartbeat(want_fence=not self._serves)
        if response is not None and response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            await self._register_again()

    async def _register_again(self) -> None:
        """The cluster has another opinion of who this is."""
        log.warning("broker registering again", reason="stale broker epoch", broker=self._node_id)
        self._previous_broker_epoch = -1
        await self.register()

    async def _heartbeat(self, *, want_fence: bool, want_shut_down: bool = False) -> BrokerHeartbeatResponse | None:
        """None where no answer came in time."""
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self._controller.broker_epoch,
            current_metadata_offset=self._controller.offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )
        with trio.move_on_after(self._answer_s):
            try:
                return await self._controller.handle(request, HEARTBEAT_VERSION)
            except KafkaError as error:
                log.debug("broker heartbeat failed", reason=str(error))
        return None

    async def leave(self) -> None:
        """Have others lead what this broker leads, and say no more that it is there.

        Bounded: that there is nobody to ask, or nobody to take over, holds it up for a few seconds at most.
        """
        self._beating.cancel()
        if self._controller.broker_epoch >= 0:
            await self._ask_to_go()
            await self._let_others_go()

    async def _let_others_go(self) -> None:
        """Where all nodes are stopped together, each needs the votes of the others until it is gone."""
        with trio.move_on_after(LINGER_S_MAX):
            await trio.sleep(LINGER_S_MIN)
            while any(
                broker.in_controlled_shutdown and not broker.fenced
                for node_id, broker in self._controller.image.brokers.items()
                if node_id != self._node_id
            ):
                await trio.sleep(SOON_S)

    async def _ask_to_go(self) -> None:
        answered = trio.current_time()
        with trio.move_on_after(LEAVE_TIMEOUT_S):
            while trio.current_time() - answered < LEADERLESS_TIMEOUT_S:
                with trio.move_on_after(LEADERLESS_TIMEOUT_S):
                    response = await self._heartbeat(want_fence=False, want_shut_down=True)
                    if response is not None:
                        answered = trio.current_time()
                        if response.should_shut_down or response.error_code == ErrorCode.STALE_BROKER_EPOCH:
                            return
                await trio.sleep(SOON_S)
        log.warning("controlled shutdown timed out", broker=self._node_id)
