"""Checks the rules between several settings of a node, beyond the bounds of each single setting.

`access_rules.py` has those about security.

Each rule yields all problems that it finds, so that all problems are reported together.
Source: `KafkaConfig.validateValues`, `GroupCoordinatorConfig`, `ShareGroupConfig`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from minikafka.broker.settings.listeners import (
    Listener,
    ListenerError,
    check_ports,
    parse_listeners,
    protocol_map,
)
from minikafka.controller.decisions.broker_config_rules import DEDUPE_BYTES_PER_THREAD_MIN
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.settings.registry import SettingValue

__all__ = [
    "RULES",
    "ListenerProblem",
    "Listeners",
    "Problem",
    "Values",
    "is_alone",
    "read_listeners",
    "roles_of",
    "voter_ids",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """An invalid setting.

    Attributes:
        name: The name of the setting.
        value: The text of the setting; None if the setting is missing.
        message: The problem, and the allowed values.
        origin: The environment variable, or the line of a file, that the setting is from; "" otherwise.
    """

    name: str
    value: str | None
    message: str
    origin: str = ""

    def __str__(self) -> str:
        shown = self.name if self.value is None else f"{self.name}={self.value}"
        origin = f" (from {self.origin})" if self.origin else ""
        return f"{shown}{origin}: {self.message}"


@dataclass(frozen=True, slots=True)
class Values:
    """The values of all settings, for the rules.

    Attributes:
        parsed: The parsed value of each setting, by name.
        given: The texts of the settings that were given, by name.
    """

    parsed: Mapping[str, SettingValue]
    given: Mapping[str, str]

    def number(self, name: str) -> int:
        """The value of a setting that is an integer and not null."""
        value = self.parsed[name]
        assert isinstance(value, int), f"{name} is an integer with a default"
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """The value of a setting that is a list; the empty list for null."""
        value = self.parsed[name]
        assert isinstance(value, tuple) or value is None, f"{name} is a list"
        return value or ()

    def problem(self, name: str, message: str) -> Problem:
        """A problem with the given value of the setting `name`."""
        return Problem(name, self.given.get(name), message)


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners of a node, and the listeners that the node advertises.

    Attributes:
        all: All addresses to listen on.
        advertised: The addresses that clients are told; an empty host stands for the address that the client
            connected to.
        advertised_for_controllers: The addresses that other nodes are told to reach this controller.
        of_controllers: The listener by which nodes reach controllers: that of this controller, or on other nodes one
            without an address; None if `controller.listener.names` names none.
        controller_names: The names of the controller listeners (`controller.listener.names`).
        inter_broker: The name of the listener for traffic between brokers.
    """

    all: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    controller_names: tuple[str, ...]
    inter_broker: str
    advertised_for_controllers: tuple[Listener, ...] = ()
    of_controllers: Listener | None = None

    @property
    def names(self) -> frozenset[str]:
        """The names of all listeners that settings name."""
        return frozenset({*(listener.name for listener in self.all), *self.controller_names})

    @property
    def for_clients(self) -> tuple[Listener, ...]:
        """The listeners that are not controller listeners."""
        return tuple(listener for listener in self.all if listener.name not in self.controller_names)

    @property
    def for_controllers(self) -> tuple[Listener, ...]:
        """The controller listeners of this node."""
        return tuple(listener for listener in self.all if listener.name in self.controller_names)


def is_alone(parsed: Mapping[str, SettingValue], listeners: Listeners) -> bool:
    """Whether a node is the whole cluster, with a standalone controller."""
    roles = parsed["process.roles"]
    names_quorum = parsed["controller.quorum.voters"] or parsed["controller.quorum.bootstrap.servers"]
    assert isinstance(roles, tuple), "process.roles is a list"
    return {"broker", "controller"} <= set(roles) and not (names_quorum and listeners.for_controllers)


def read_listeners(values: Values) -> Listeners:
    """Read the listeners of a node from its settings.

    Raises:
        ListenerProblem: A setting is invalid.
    """
    controllers = tuple(name.upper() for name in values.items("controller.listener.names"))
    protocols = _read(values, "listener.security.protocol.map", lambda: _protocols(values, controllers))
    listeners = _read(values, "listeners", lambda: parse_listeners(values.items("listeners"), protocols))
    advertised = _read(
        values,
        "advertised.listeners",
        lambda: parse_listeners(values.items("advertised.listeners"), protocols) or listeners,
    )
    protocol = values.parsed["security.inter.broker.protocol"]
    inter_broker = values.parsed["inter.broker.listener.name"] or protocol
    client_listeners = tuple(listener for listener in advertised if listener.name not in controllers)
    own = [tuple(one for one in some if one.name in controllers) for some in (advertised, listeners)]
    return Listeners(
        listeners,
        client_listeners,
        controllers,
        str(inter_broker).upper(),
        own[0] or own[1],
        _of_controllers(listeners, controllers, protocols),
    )


def _of_controllers(
    listeners: tuple[Listener, ...], controllers: tuple[str, ...], protocols: Mapping[str, str]
) -> Listener | None:
    """Nodes connect to controllers by the protocol of the first name in `controller.listener.names`, as in Kafka."""
    if not controllers:
        return None
    without_address = Listener(controllers[0], "", 0, protocols.get(controllers[0], "PLAINTEXT"))
    return next((one for one in listeners if one.name == controllers[0]), without_address)


class ListenerProblem(Exception):
    """A list of listeners is invalid, as `problem` describes."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


T = TypeVar("T")


def _read(values: Values, name: str, parse: Callable[[], T]) -> T:
    try:
        return parse()
    except ListenerError as error:
        raise ListenerProblem(values.problem(name, str(error))) from None


def _protocols(values: Values, controllers: tuple[str, ...]) -> dict[str, str]:
    """The security protocol of each listener name.

    If `listener.security.protocol.map` is not given, it is Kafka's default, with PLAINTEXT for controller listeners.
    """
    protocols = protocol_map(str(values.parsed["listener.security.protocol.map"]))
    if "listener.security.protocol.map" not in values.given:
        protocols.update({name: "PLAINTEXT" for name in controllers if name not in protocols})
    return protocols


def _node_ids_agree(values: Values, _: Listeners) -> Iterator[Problem]:
    if values.parsed["broker.id"] not in (-1, values.parsed["node.id"]):
        yield values.problem("broker.id", "must equal node.id if both are set")


def roles_of(values: Values) -> set[str]:
    """The roles of the node (`process.roles`)."""
    return set(values.items("process.roles"))


def _quorum_is_configured(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """A node with both roles and no voters is the whole cluster; every other node must find its controllers."""
    roles, voters = roles_of(values), voter_ids(values)
    node_id = values.number("node.id")
    if not roles:
        yield values.problem("process.roles", "must not be empty (allowed: broker, controller, or both)")
    elif len(roles) == 1 and not voters and not values.items("controller.quorum.bootstrap.servers"):
        yield values.problem(
            "controller.quorum.voters",
            "this or controller.quorum.bootstrap.servers must be set, unless process.roles has both roles",
        )
    if "controller" in roles and voters and node_id not in voters:
        yield values.problem(
            "controller.quorum.voters",
            f"the node id {node_id} must be one of the voters if process.roles contains controller",
        )
    if roles == {"broker"} and node_id in voters:
        yield values.problem(
            "controller.quorum.voters",
            f"the node id {node_id} must not be one of the voters if process.roles is broker",
        )
    if values.parsed["controller.quorum.auto.join.enable"] and "controller" not in roles:
        yield values.problem(
            "controller.quorum.auto.join.enable", "is only supported if process.roles contains controller"
        )
    if len(voters) != len(set(voters)):
        yield values.problem("controller.quorum.voters", "voters must have distinct ids")


def voter_ids(values: Values) -> list[int]:
    """The ids of the voters that `controller.quorum.voters` names."""
    return [int(voter.partition("@")[0]) for voter in values.items("controller.quorum.voters")]


def _ports_are_distinct(values: Values, listeners: Listeners) -> Iterator[Problem]:
    try:
        check_ports(listeners.all)
    except ListenerError as error:
        yield values.problem("listeners", str(error))


def _controller_listeners_exist(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `KafkaConfig.validateValues`."""
    name, roles = "controller.listener.names", roles_of(values)
    known = [listener.name for listener in listeners.all]
    if roles == {"broker"}:
        if not listeners.controller_names:
            yield values.problem(name, "must name the listener of the controllers if process.roles is broker")
        if any(controller in known for controller in listeners.controller_names):
            yield values.problem(name, "must not appear in 'listeners' if process.roles is broker")
    elif any(controller not in known for controller in listeners.controller_names):
        yield values.problem(
            name, f"must only contain names that appear in 'listeners' (allowed: {', '.join(known)})"
        )
    elif not listeners.controller_names and (roles == {"controller"} or len(voter_ids(values)) > 1):
        yield values.problem(name, f"must name the listener for other nodes (allowed: {', '.join(known)})")
    if known and "broker" in roles and not listeners.for_clients:
        yield values.problem("listeners", "must contain a listener for clients besides controller.listener.names")
    if roles == {"controller"} and listeners.for_clients:
        yield values.problem(
            "listeners",
            "must only contain listeners of controller.listener.names if process.roles is controller",
        )


def _early_listeners_exist(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `KafkaConfig.earlyStartListeners`."""
    name, known = "early.start.listeners", {listener.name for listener in listeners.all} | {*listeners.controller_names}
    for listener in values.items(name):
        if listener.upper() not in known:
            yield values.problem(name, f"there is no listener {listener} (allowed: {', '.join(sorted(known))})")


def _advertised_listeners_exist(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `KafkaConfig.validateValues`."""
    name, known = "advertised.listeners", [listener.name for listener in listeners.for_clients]
    if any(listener.name not in known for listener in listeners.advertised):
        yield values.problem(name, f"names must be among those of 'listeners' (allowed: {', '.join(known)})")
    if name not in values.given:
        return
    if known and not listeners.advertised:
        yield values.problem(name, "must contain a listener for clients besides controller.listener.names")
    given = {entry.partition(":")[0].upper() for entry in values.items(name)}
    for listener in (*listeners.advertised, *listeners.advertised_for_controllers):
        if listener.name in given and listener.host in ("0.0.0.0", "::"):
            yield values.problem(
                name, f"must not be the wildcard address {listener.host}, which clients cannot connect to"
            )


def _inter_broker_listener_exists(values: Values, listeners: Listeners) -> Iterator[Problem]:
    name = "inter.broker.listener.name"
    if name in values.given and "security.inter.broker.protocol" in values.given:
        yield values.problem(name, "only one of this and security.inter.broker.protocol should be set")
    known = [listener.name for listener in listeners.advertised]
    given = [one for one in (name, "security.inter.broker.protocol") if one in values.given][:1]
    if given and "broker" in roles_of(values) and listeners.inter_broker not in known:
        yield values.problem(given[0], f"must be an advertised listener (allowed: {', '.join(known)})")


def _times_are_positive(values: Values, _: Listeners) -> Iterator[Problem]:
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values.parsed[name] == 0:
            yield values.problem(name, "must be unlimited (-1) or at least 1")
    for name in ("log.roll.ms", "log.roll.hours"):
        if isinstance(value := values.parsed[name], int) and value < 1:
            yield values.problem(name, "must be at least 1")
    if isinstance(jitter := values.parsed["log.roll.jitter.ms"], int) and jitter < 0:
        yield values.problem("log.roll.jitter.ms", "must be at least 0")


def _directories_are_given(values: Values, _: Listeners) -> Iterator[Problem]:
    directories = values.items("log.dir" if values.parsed["log.dirs"] is None else "log.dirs")
    if not directories:
        yield values.problem("log.dirs", "log.dirs or log.dir must name at least one directory")
    named = values.items("cordoned.log.dirs")
    if "*" in named and len(named) > 1:
        yield values.problem("cordoned.log.dirs", "* must be its only value")
    if any(one != "*" and one not in directories for one in named):
        yield values.problem("cordoned.log.dirs", "all its values must be in log.dirs or log.dir")


def _values_are_in_order(values: Values, _: Listeners) -> Iterator[Problem]:
    for smaller, larger in _IN_ORDER:
        if values.number(smaller) > values.number(larger):
            name, bound = (larger, "at least") if larger in values.given else (smaller, "at most")
            other = smaller if name == larger else larger
            yield values.problem(name, f"must be {bound} {other}, which is {values.number(other)}")
    queue = values.number("queued.max.request.bytes")
    if 0 < queue < values.number("socket.request.max.bytes"):
        yield values.problem("queued.max.request.bytes", "must be at least socket.request.max.bytes, or -1")
    idle = values.number("connections.max.idle.ms")
    if 0 <= idle <= values.number("connection.failed.authentication.delay.ms"):
        yield values.problem(
            "connections.max.idle.ms", "must be above connection.failed.authentication.delay.ms"
        )


def _cleaner_has_memory(values: Values, _: Listeners) -> Iterator[Problem]:
    threads, buffer = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
    if values.number(threads) < 1:
        yield values.problem(threads, "must be at least 1")
    elif values.number(buffer) // values.number(threads) <= DEDUPE_BYTES_PER_THREAD_MIN:
        given = threads if threads in values.given else buffer
        yield values.problem(given, f"{buffer} must be above {DEDUPE_BYTES_PER_THREAD_MIN} for each of {threads}")


def _codecs_are_known(values: Values, _: Listeners) -> Iterator[Problem]:
    """Source: `CompressionType.forId`."""
    name = "offsets.topic.compression.codec"
    if values.number(name) not in list(Codec):
        allowed = ", ".join(f"{codec.value} is {codec.name.lower()}" for codec in Codec)
        yield values.problem(name, f"Unknown compression type id (allowed: {allowed})")


def _between(name: str) -> list[tuple[str, str]]:
    """The pairs of a setting and its bounds, in order: for `group.consumer.session.timeout.ms` the bounds are
    `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`."""
    group, kind, rest = name.split(".", 2)
    low, high = f"{group}.{kind}.min.{rest}", f"{group}.{kind}.max.{rest}"
    return [(low, high), (low, name), (name, high)]


_IN_ORDER = [
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    *(
        pair
        for kind in ("consumer", "share", "streams")
        for what in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
        for pair in _between(f"group.{kind}.{what}")
    ),
    *_between("group.share.delivery.count.limit"),
    *_between("group.share.partition.max.record.locks"),
    *_between("group.share.record.lock.duration.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
]
"""Pairs of settings. The first setting of a pair must not exceed the second."""

RULES: tuple[Callable[[Values, Listeners], Iterator[Problem]], ...] = (
    _node_ids_agree,
    _quorum_is_configured,
    _ports_are_distinct,
    _controller_listeners_exist,
    _early_listeners_exist,
    _advertised_listeners_exist,
    _inter_broker_listener_exists,
    _times_are_positive,
    _directories_are_given,
    _values_are_in_order,
    _cleaner_has_memory,
    _codecs_are_known,
)
"""The rules of this file, in the order in which problems are reported."""
