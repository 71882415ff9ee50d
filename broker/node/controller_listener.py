"""`ControllerListener`: serves administration tools at the controller listener of a node.

The other controllers use the same port, with a protocol of their own: `controller/quorum/peers.py` binds the port, and
passes on the connections that use Kafka's protocol.
"""

from collections.abc import Sequence

import trio

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS, ControllerServices
from minikafka.broker.apis.services import NodeSetup
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.idle_connections import close_idle_connections
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.server import ConnectionLimits, Server
from minikafka.broker.connections.transport import StreamTransport
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.system import System
from minikafka.broker.quotas.client_quotas import ClientQuotas, quota_samples
from minikafka.broker.security.authentication import ListenerAuthentication, Requests
from minikafka.broker.security.between_nodes import handshakes_of_controllers, has_sasl
from minikafka.broker.security.node_guests import NodeGuests
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.direct_requests import DirectRequests
from minikafka.controller.metadata.records import Record
from minikafka.controller.quorum.peer_frames import PushedBackStream
from minikafka.controller.quorum.peer_network import peer_host
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.quotas.changes import quota_changes, quotas_now
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.storage.steps import at_once, in_steps

__all__ = ["ControllerListener"]

_LOADED_CHECK_S = 0.05


class ControllerListener:
    """The server of a controller listener.

    Args:
        config: The settings of the node.
        system: The clock, disk, network and randomness of the node.
        controller: The controller of the node.
    """

    def __init__(self, config: NodeConfig, system: System, controller: QuorumController) -> None:
        self._config = config
        self._system = system
        self._controller = controller

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        listeners = self._config.listeners.for_controllers
        if not listeners or not self._config.is_controller:
            task_status.started()
            return
        server, name = self._server(), listeners[0].name
        handshake_of = handshakes_of_controllers(self._config)

        async def serve(stream: PushedBackStream) -> None:
            handshake = handshake_of(stream.stream)
            await server.serve_one(StreamTransport(stream, peer_host(stream.stream), "", 0, handshake), name)

        if self._opens_early(name):
            self._controller.serve_clients(serve)
            task_status.started()
        else:
            task_status.started()
            await self._acls_loaded()
            self._controller.serve_clients(serve)
        await close_idle_connections(server.connections, self._config.number("connections.max.idle.ms"))

    def _opens_early(self, name: str) -> bool:
        """Whether the listener may be opened before the ACLs are loaded; by default those of controllers are."""
        early = self._config.values["early.start.listeners"]
        return early is None or name in map(str.upper, self._config.items("early.start.listeners"))

    async def _acls_loaded(self) -> None:
        """Wait until the ACLs are loaded; until then only super users could do anything."""
        authorizer = self._controller.authorizer
        while authorizer is not None and not authorizer.has_loaded():
            await trio.sleep(_LOADED_CHECK_S)

    def _server(self) -> Server:
        config, system, controller, number = self._config, self._system, self._controller, self._config.number
        effective = EffectiveSettings(config.static, controller.image)
        setup = NodeSetup(config, effective, system.log_levels, routes_of(CONTROLLER_HANDLERS))
        direct = DirectRequests(controller, config.static, system.random)
        dispatcher = Dispatcher(
            ControllerServices(controller.image, controller, direct, setup),
            setup.routes,
            clock=trio.current_time,
            authorizer=controller.authorizer,
            quotas=self._quotas(),
            observer=RequestLog(system.log_levels, ROOT),
            large_messages=LargeMessages(system.disk.run),
        )
        return Server(
            dispatcher,
            size_bytes_max=number("socket.request.max.bytes"),
            limits=ConnectionLimits(
                lambda listener: min(number("max.connections"), system.tools_max),
                lambda listener: system.tools_max,
                lambda host: number("max.connections.per.ip"),
            ),
            memory=RequestMemory(number("queued.max.request.bytes")),
            guards=self._guards(dispatcher),
        )

    def _guards(self, requests: Requests) -> dict[str, ListenerAuthentication]:
        """The logins of tools: those of nodes, which have read the keys of tokens, and count the logins of both.

        A node has no second controller listener if one has logins (`settings/access_rules.py`).
        """
        guests = self._controller.security.guest
        guards = guests.guards(requests) if isinstance(guests, NodeGuests) else {}
        secured = {one.name for one in self._config.listeners.for_controllers if has_sasl(one)}
        assert guards.keys() == secured, "a controller listener with SASL serves nobody without a login"
        return guards

    def _quotas(self) -> ClientQuotas:
        """The quotas of requests, which follow the metadata."""
        image, quotas = self._controller.image, ClientQuotas(quota_samples(self._config.static), trio.current_time)
        at_once(quotas_now(image.quotas, quotas.set))

        async def apply(records: Sequence[Record]) -> None:
            await in_steps(quota_changes(records, quotas.set))

        self._controller.subscribe(apply)
        return quotas
