"""What the connections between nodes need: TLS, and how a node logs in at other brokers and at controllers.

The settings of TLS are those of the listener at the other end, by its name, as in Kafka: a node shows the certificate
that it has on its own listener of that name. Trio: the type of streams.
"""

import ssl
from collections.abc import Awaitable, Callable

import trio

from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.security.node_tls import NodeTls, has_tls
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.broker.settings.sasl_settings import SASL_PROTOCOLS, login_at_controllers, login_between_brokers
from minikafka.client.connections.seams import Seams
from minikafka.client.security.connection_security import ConnectionSecurity
from minikafka.controller.quorum.node_logins import Admitted, NodeLogins
from minikafka.controller.quorum.peer_network import Network, peer_host
from minikafka.controller.security.access import ANONYMOUS, Access, Authorizer, Principal
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType

__all__ = [
    "admission_of_nodes",
    "handshakes_of_controllers",
    "has_sasl",
    "load_tls_of_controllers",
    "logins_at_controllers",
    "network_of_controllers",
    "principals_at_controllers",
    "security_between_brokers",
]


def security_between_brokers(config: NodeConfig, tls: NodeTls) -> ConnectionSecurity:
    """What a connection to the inter-broker listener of another broker needs; `tls` renews its certificates.

    Raises:
        InvalidTlsSetting: A setting of TLS does not work.
    """
    name = config.listeners.inter_broker
    listener = next((one for one in config.client_listeners if one.name == name), None)
    if config.is_alone or listener is None:
        return ConnectionSecurity()
    login = login_between_brokers(config.static.given, name) if listener.protocol in SASL_PROTOCOLS else None
    security = ConnectionSecurity(None, login)

    def use(context: ssl.SSLContext) -> None:
        security.context = context

    if has_tls(listener):
        tls.connect_to(listener, use)
    return security


def network_of_controllers(config: NodeConfig, inner: Network, tls: NodeTls) -> Network:
    """The network of the controller listeners: `inner`, with TLS if they have it, by `load_tls_of_controllers`."""
    listener = config.listeners.of_controllers
    if listener is None or not has_tls(listener):
        return inner
    from minikafka.controller.quorum.tls_network import TlsNetwork

    name = listener.name
    return TlsNetwork(inner, (lambda: tls.context_of(name)) if config.is_controller else None)


def load_tls_of_controllers(config: NodeConfig, network: Network, tls: NodeTls) -> None:
    """Read the certificates of the network of the controller listeners, if it has TLS; `tls` renews them.

    Raises:
        InvalidTlsSetting: A setting of TLS does not work.
    """
    listener = config.listeners.of_controllers
    if listener is None or not has_tls(listener):
        return
    from minikafka.controller.quorum.tls_network import TlsNetwork

    assert isinstance(network, TlsNetwork), "network_of_controllers made it"
    if config.is_controller:
        tls.load((listener,))
    tls.connect_to(listener, network.use)


Handshake = Callable[[], Awaitable[Principal]]


def handshakes_of_controllers(config: NodeConfig) -> Callable[[trio.abc.Stream], Handshake | None]:
    """A function that returns what tells the principal of a tool at the controller listener; None without TLS."""
    principal_of = principals_at_controllers(config)
    if principal_of is None:
        return lambda stream: None

    def handshake_of(stream: trio.abc.Stream) -> Handshake:
        async def handshake() -> Principal:
            try:
                return principal_of(stream)
            except ValueError as error:
                raise Disconnect(f"TLS handshake failed: {error}") from None

        return handshake

    return handshake_of


def principals_at_controllers(config: NodeConfig) -> Callable[[trio.abc.Stream], Principal] | None:
    """A function that returns the principal of a connection to the controller listener; None without TLS.

    It raises ValueError for a certificate that names none.
    """
    listener = config.listeners.of_controllers
    if listener is None or not has_tls(listener):
        return None
    from minikafka.broker.security.tls_listener import principals_of
    from minikafka.controller.quorum.tls_network import TlsPeerStream

    of_certificate = principals_of(listener, config.static.given)

    def principal_of(stream: trio.abc.Stream) -> Principal:
        assert isinstance(stream, TlsPeerStream), "the network has TLS"
        return of_certificate(stream.certificate)

    return principal_of


def has_sasl(listener: Listener | None) -> bool:
    """Whether a listener takes logins by SASL."""
    return listener is not None and listener.protocol in SASL_PROTOCOLS


def logins_at_controllers(config: NodeConfig, seams: Seams) -> NodeLogins | None:
    """How this node logs in at controllers; None if their listener has no SASL."""
    listener = config.listeners.of_controllers
    if listener is None or not has_sasl(listener) or config.is_alone:
        return None
    login = login_at_controllers(config.static.given, listener.name, is_controller=config.is_controller)
    return NodeLogins(login, seams, f"node-{config.node_id}")


def admission_of_nodes(
    config: NodeConfig, authorizer: Authorizer | None
) -> Callable[[trio.abc.Stream, Principal | None], Admitted]:
    """A function that returns what tells whether a connection to the controller listener may be that of a node now.

    With an authorizer its principal needs CLUSTER_ACTION, as in Kafka: the one that has logged in, or that of its
    certificate. Before the ACLs are loaded only super users have it, so the principals of controllers are among
    `super.users`.
    """
    if authorizer is None:
        return lambda stream, principal: lambda: True
    principal_of = principals_at_controllers(config) or (lambda stream: ANONYMOUS)

    def admission(stream: trio.abc.Stream, principal: Principal | None) -> Admitted:
        try:
            access = Access(authorizer, principal or principal_of(stream), peer_host(stream))
        except ValueError:
            return lambda: False
        return lambda: access.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)

    return admission
