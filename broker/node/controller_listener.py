"""`ControllerListener`: serves administration tools at the controller listener of a node.

The other controllers use the same port, with a protocol of their own: `controller/quorum/peers.py` binds the port, and
passes on the connections that use Kafka's protocol.
"""

import trio

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS, ControllerServices
from minikafka.broker.apis.quorum_state import (
    KraftVersions,
    Quorum,
    VoterAddress,
    controllers_of,
    default_listener,
    kraft_versions_of,
    quorum_of,
)
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.idle_connections import close_idle_connections
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.request_memory import RequestMemory
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.connections.server import Server
from minikafka.broker.connections.transport import StreamTransport
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.direct_requests import DirectRequests
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum.peer_frames import PushedBackStream
from minikafka.controller.quorum.peer_network import peer_host
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.settings.effective_settings import EffectiveSettings

__all__ = ["ControllerListener"]


class ControllerListener:
    """The server of a controller listener, and the services that its handlers use.

    Args:
        config: The settings of the node.
        system: The clock, disk, network and randomness of the node.
        controller: The controller of the node.
    """

    def __init__(self, config: NodeConfig, system: System, controller: QuorumController) -> None:
        self.log_levels = system.log_levels
        self.effective_settings = EffectiveSettings(config.static, controller.image)
        self.direct = DirectRequests(controller, config.static, system.random)
        self.routes = routes_of(CONTROLLER_HANDLERS)
        self._config = config
        self._system = system
        self._controller = controller

    # -- services for handlers -----------------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        """The cluster's committed metadata."""
        return self._controller.image

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self._config.node_id

    @property
    def active_id(self) -> int:
        """The node id of the active controller; -1 if unknown."""
        return self._controller.leader_id

    @property
    def epoch(self) -> int:
        """The leader epoch of the quorum."""
        return self._controller.leader_epoch

    @property
    def kraft_versions(self) -> KraftVersions:
        """The finalized level of kraft.version, and the highest supported level."""
        return kraft_versions_of(self._controller)

    @property
    def default_listener(self) -> str:
        """The name of the listener by which the controllers reach each other."""
        return default_listener(self._config)

    def controllers(self) -> tuple[VoterAddress, ...]:
        """The addresses of all controllers."""
        return controllers_of(self._config, self._controller)

    async def quorum(self) -> Quorum:
        """The state of the quorum of the metadata log. Raises RequestTimedOutError if the quorum has no leader."""
        return await quorum_of(self._config, self._controller)

    # -- serving -------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        listeners = self._config.listeners.for_controllers
        if not listeners or not self._config.is_controller:
            task_status.started()
            return
        server, name = self._server(), listeners[0].name

        async def serve(stream: PushedBackStream) -> None:
            await server.serve_one(StreamTransport(stream, peer_host(stream.stream), "", 0), name)

        self._controller.serve_clients(serve)
        task_status.started()
        await close_idle_connections(server.connections, self._config.number("connections.max.idle.ms"))

    def _server(self) -> Server:
        number, services = self._config.number, self._as_services()
        dispatcher = Dispatcher(
            services,
            self.routes,
            clock=trio.current_time,
            observer=RequestLog(self.log_levels, ROOT),
            large_messages=LargeMessages(self._system.disk.run),
        )
        return Server(
            dispatcher,
            size_bytes_max=number("socket.request.max.bytes"),
            connections_max=lambda: min(number("max.connections"), self._system.tools_max),
            connections_max_of=lambda host: number("max.connections.per.ip"),
            memory=RequestMemory(number("queued.max.request.bytes")),
        )

    def _as_services(self) -> ControllerServices:
        return self
