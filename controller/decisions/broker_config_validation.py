"""Validates dynamic broker configs, both of one broker and cluster-wide.

Source: `DynamicBrokerConfig.validateConfigs`, `ConfigAdminManager`.
"""

from collections.abc import Collection, Mapping

from minikafka.controller.metadata.features import cordons_directories
from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError
from minikafka.protocol.settings.declaration import PER_BROKER
from minikafka.protocol.settings.registry import (
    BROKER_SETTINGS,
    LISTENER_LIMITS,
    NODE_SETTINGS,
    STORE_SETTINGS,
    InvalidSetting,
    listener_base_name,
)
from minikafka.protocol.settings.value_types import NotOfType, parse_int

__all__ = [
    "CORDONED",
    "CORDONED_ALL",
    "check",
    "check_cordoned",
    "check_cordoning_supported",
    "check_min_isr",
    "check_node_id",
    "node_id_of",
]


def check_node_id(name: str, node_id: int, what: str) -> None:
    """Check that the name of a resource is the id of this node.

    Raises:
        InvalidRequestError: the name is another node's id or not a number.
    """
    if node_id_of(name) != node_id:
        raise InvalidRequestError(f"Unexpected {what} id, expected {node_id}, but received {name}")


def node_id_of(name: str) -> int:
    """Parse the name of a resource into a node id, in the forms of Java's `Integer.parseInt`.

    Raises:
        InvalidRequestError: the name is not a number.
    """
    try:
        return parse_int(name)
    except NotOfType:
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}") from None


def check(wanted: Mapping[str, str], *, per_broker: bool) -> None:
    """Rejects configs that cannot be changed on a running broker. As in Kafka, unknown names are accepted.

    Args:
        wanted: all configs that the resource would have.
        per_broker: True if the resource is one broker, False if it is all brokers.

    Raises:
        InvalidRequestError: the message lists the rejected names, or the first invalid value.
    """
    bases = {name: listener_base_name(name) or name for name in wanted}
    known = {name: BROKER_SETTINGS[base] for name, base in bases.items() if base in BROKER_SETTINGS}
    _refuse("Cannot update these configs dynamically", [name for name in wanted if _is_fixed(name)])
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in wanted if name in STORE_SETTINGS],
    )
    for name, setting in known.items():
        try:
            setting.parse(wanted[name])
        except InvalidSetting as error:
            raise InvalidRequestError(str(error)) from None
        if name in _NEVER_ZERO and setting.parse(wanted[name]) == 0:
            raise InvalidRequestError(f"{name} must be unlimited (-1) or, greater than or equal to 1")
    if not per_broker:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in wanted if _is_per_broker(name)],
        )
    _refuse("minikafka cannot change these while it runs", [name for name in wanted if name in _AT_START])


def _is_per_broker(name: str) -> bool:
    base, setting = listener_base_name(name), BROKER_SETTINGS.get(name)
    is_per_broker = setting is not None and setting.update_mode == PER_BROKER
    return is_per_broker if base is None else base not in LISTENER_LIMITS


def _is_fixed(name: str) -> bool:
    return name in NODE_SETTINGS and NODE_SETTINGS[name].read_only


_NEVER_ZERO = frozenset(["log.retention.ms", "log.roll.ms"])
_AT_START = frozenset([
    "listeners",
    "listener.security.protocol.map",
    "metrics.listener",
    "metrics.listener.password",
    "metrics.listener.username",
])  # fmt: skip


def _refuse(problem: str, names: list[str]) -> None:
    if names:
        raise InvalidRequestError(f"{problem}: [{', '.join(sorted(names))}]")


CORDONED = "cordoned.log.dirs"
CORDONED_ALL = "*"


def check_cordoned(wanted: Mapping[str, str], log_dirs: Collection[str]) -> None:
    """Checks that cordoned.log.dirs names data directories of this node, or `*` alone (KIP-1066).

    Raises:
        InvalidRequestError: it names another directory, or another one beside `*`.
    """
    named = BROKER_SETTINGS[CORDONED].parse(wanted.get(CORDONED, ""))
    assert isinstance(named, tuple), "a list"
    if CORDONED_ALL in named:
        if len(named) > 1:
            raise InvalidRequestError("When cordoned.log.dirs is set to *, it must not contain other values")
        return
    for directory in named:
        if directory not in log_dirs:
            raise InvalidRequestError(
                f"Invalid value {directory} for configuration {CORDONED}: Invalid entry in {CORDONED}: {directory}. "
                "All cordoned log dirs must be entries of log.dirs or log.dir."
            )


def check_cordoning_supported(
    features: Mapping[str, int], wanted: Mapping[str, str], altered: Collection[str]
) -> None:
    """Checks that the cluster can cordon directories.

    Raises:
        InvalidConfigError: its metadata.version is too old.
    """
    if CORDONED in altered and CORDONED in wanted and not cordons_directories(features):
        raise InvalidConfigError(
            "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        )


MIN_ISR = "min.insync.replicas"


def check_min_isr(
    current: Mapping[str, str],
    wanted: Mapping[str, str],
    altered: Collection[str],
    *,
    per_broker: bool,
) -> None:
    """Checks that min.insync.replicas is set cluster-wide and on no single broker (KIP-966).

    Raises:
        InvalidConfigError: it would be set on one broker, or deleted cluster-wide.
    """
    if per_broker and MIN_ISR in altered:
        raise InvalidConfigError("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if not per_broker and MIN_ISR in current and MIN_ISR not in wanted:
        raise InvalidConfigError("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
