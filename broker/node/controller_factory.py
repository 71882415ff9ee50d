"""Creates the controller of a node from its settings: a member of the quorum of controllers, or a quorum of one."""

from dataclasses import replace

from minikafka.broker.node.controller_security import security_of_peers
from minikafka.broker.node.system import System
from minikafka.broker.security.between_nodes import load_tls_of_controllers, network_of_controllers
from minikafka.broker.security.node_tls import NodeTls, with_tls
from minikafka.broker.settings.altered_settings import tls_texts
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.cluster_ids import check_alone
from minikafka.controller.metadata.features import FEATURES, unsupported_level
from minikafka.controller.metadata.formatted_levels import FILE_NAME, Formatted, read_formatted
from minikafka.controller.quorum.quorum_settings import quorum_settings
from minikafka.controller.quorum.stored_configs import stored_configs
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.raft.voter_set import VoterEndpoint
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.controller.settings.metadata_log_settings import metadata_directory
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.disk import Disk

__all__ = ["controller_of"]


def controller_of(config: NodeConfig, system: System, tls: NodeTls) -> QuorumController:
    """The controller of a node, whose certificates `tls` reads and renews. It is not started.

    Raises:
        WrongDirectory: The metadata directory was formatted with levels that this version does not support, or the
            node is alone and the directory is of a quorum. See `QuorumController` for others.
        InvalidTlsSetting: A setting of TLS of the controller listener does not work.
    """
    static = _as_formatted(config.static, system.disk) if config.is_controller else config.static
    if config.is_alone:
        check_alone(system.disk, config.metadata_log_dir)
    listen_on = [(one.host, one.port) for one in config.listeners.for_controllers] if config.is_controller else []
    advertised = [
        VoterEndpoint(one.name, one.host or "localhost", one.port)
        for one in config.listeners.advertised_for_controllers
    ]
    network = network_of_controllers(config, system.peers, tls)
    controller = QuorumController(
        static,
        quorum_settings(
            config.static,
            listen_on,
            is_controller=config.is_controller,
            advertised=advertised,
            is_alone=config.is_alone,
        ),
        disk=system.disk,
        network=network,
        now_ms=system.now_ms,
        random=system.random,
        log_levels=system.log_levels,
    )
    of_controllers, metrics = config.listeners.of_controllers, config.metrics_listener
    if with_tls((*config.listeners.all, *filter(None, (of_controllers, metrics)))):
        found = stored_configs(controller.stored, controller.image, "ssl.")
        tls.begin_with(tls_texts(EffectiveSettings(config.static, found)))
    load_tls_of_controllers(config, network, tls)
    controller.secure(security_of_peers(config, system, controller.image, controller.authorizer))
    return controller


def _as_formatted(static: StaticSettings, disk: Disk) -> StaticSettings:
    directory = metadata_directory(static)
    formatted = read_formatted(disk, directory)
    known = {name: level for name, level in formatted.levels.items() if name in FEATURES}
    for name, level in known.items():
        if reason := unsupported_level(name, level):
            raise WrongDirectory(f"{directory}/{FILE_NAME}: {reason}")
    return replace(static, formatted=Formatted(known, formatted.users)) if known else static
