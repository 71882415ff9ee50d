"""Who may reach a controller, and as whom: the security of its listener, for tools and for other nodes.

Trio: the clock of logins.
"""

from functools import partial

import trio

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.node.descriptors import strangers_max
from minikafka.broker.node.system import System
from minikafka.broker.security.between_nodes import admission_of_nodes, has_sasl, logins_at_controllers
from minikafka.broker.security.guards import guard_of, token_validator
from minikafka.broker.security.mechanisms import Credentials
from minikafka.broker.security.node_guests import NodeGuests, OnlyLogins
from minikafka.broker.security.node_tls import has_tls
from minikafka.broker.security.signing_keys import KeyReading
from minikafka.broker.security.token_keys import TokenKeys
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.seams import Seams
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum.node_logins import PeerSecurity
from minikafka.controller.security.access import Authorizer
from minikafka.controller.security.token_secrets import secret_of

__all__ = ["credentials_of", "security_of_peers"]


def credentials_of(config: NodeConfig, system: System, image: Image) -> Credentials:
    """What the logins of a node look up.

    Args:
        image: The metadata, with the users of SCRAM and the delegation tokens.
    """
    reading = KeyReading(system.disk, system.download, trio.current_time)
    validator = partial(token_validator, reading=reading, now_ms=system.now_ms)
    token_keys = TokenKeys(image, secret_of(config.static), system.random, system.disk)
    return Credentials(image, system.random, validator, token_keys)


def security_of_peers(
    config: NodeConfig, system: System, image: Image, authorizer: Authorizer | None
) -> PeerSecurity:
    """What connections between this node and others at the listener of controllers need.

    Args:
        image: The metadata, with the users of SCRAM.
        authorizer: Decides who may act as a node; None allows all.

    Raises:
        InvalidSaslSetting: The keys of tokens cannot be read.
    """
    listener = config.listeners.of_controllers
    admission = admission_of_nodes(config, authorizer)
    logins = logins_at_controllers(config, Seams(now_ms=system.now_ms, random=system.random))
    places, tls = strangers_max(system.tools_max), listener is not None and has_tls(listener)
    if listener is None or not config.is_controller or not has_sasl(listener):
        return PeerSecurity(admission, None, logins, places, tls)
    routes, credentials = routes_of(CONTROLLER_HANDLERS), credentials_of(config, system, image)
    guard = guard_of(config, listener, OnlyLogins(), routes, credentials, system.now_ms)
    return PeerSecurity(admission, NodeGuests(guard, listener.name), logins, places, tls)
