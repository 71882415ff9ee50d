"""Loads and checks the settings of a node; has the defaults that differ from Kafka's, as that of `listeners`.

The sources are a `.properties` file with Kafka's names, the environment and `--set`.

A `server.properties` written for Apache Kafka works unchanged. All problems are reported together, each with name,
value and allowed values. Unknown names are warnings, as in Kafka, and so are settings without effect; one without
effect that is about security refuses the start. Without any setting, a node is a single-node cluster:
see `OWN_DEFAULTS`.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from minikafka.broker.settings.access_rules import ACCESS_RULES
from minikafka.broker.settings.container import container_defaults
from minikafka.broker.settings.environment import from_environment, variables
from minikafka.broker.settings.listeners import Listener, is_setting_of_listeners, listener_prefix
from minikafka.broker.settings.own_settings import (
    INITIAL_METADATA_VERSION,
    OWN_SETTINGS,
    InvalidMetricsSetting,
    MetricsLogin,
    metrics_listener,
    metrics_login,
    why_no_metadata_version,
)
from minikafka.broker.settings.rules import (
    RULES,
    ListenerProblem,
    Listeners,
    Problem,
    Values,
    is_alone,
    read_listeners,
)
from minikafka.broker.settings.sasl_settings import is_sasl_setting_of_listeners
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.settings.registry import (
    NODE_SETTINGS,
    STATIC_SETTINGS,
    TOPIC_SETTINGS,
    InvalidSetting,
    SettingValue,
    listener_base_name,
)

__all__ = ["OWN_DEFAULTS", "ConfigError", "NodeConfig", "load_config"]

OWN_DEFAULTS: dict[str, tuple[str, str]] = {
    "node.id": ("1", "a single node needs no explicit id"),
    "process.roles": ("broker,controller", "a single node is the whole cluster"),
    "controller.listener.names": ("", "a single node has no peers"),
    "listeners": (
        "PLAINTEXT://127.0.0.1:9092",
        "without security a node only listens on the loopback address by default",
    ),
    "log.dirs": ("minikafka-data/node-{node.id}", "/tmp may be emptied, and nodes must not share a directory"),
    "group.initial.rebalance.delay.ms": ("0", "the first consumer of a group starts without delay"),
}
"""By name, (minikafka's default, why it differs from Kafka's). All other settings have Kafka's defaults.

Replication factors and min.isr of internal topics have Kafka's defaults, too, but such a default is lowered to the
number of live brokers (`NodeConfig.for_internal_topic`).
"""

_IN_ANY_FILE = ("node.id", "process.roles", "controller.listener.names")
"""Settings that Kafka requires. If they are missing, minikafka's defaults are treated as given in the file."""


class ConfigError(Exception):
    """A node cannot start with these settings.

    Attributes:
        problems: All problems, of settings and of rules.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The checked settings of one node.

    Attributes:
        static: The given texts and the defaults, for decisions and DescribeConfigs.
        listeners: The listeners of the node, and the advertised listeners.
        values: The parsed value of every Kafka setting, including internal settings.
        unknown: The given names that are no settings of Kafka, each with the closest known name, or "".
        ignored: The given settings that minikafka does not support: they have no effect.
        origins: The environment variable, or the file and line, of each setting that has one, in words.
        metrics_listener: The address at which metrics are served; None if no metrics are served.
        metrics_login: Who may read the metrics; None if everybody may.
    """

    static: StaticSettings
    listeners: Listeners
    values: Mapping[str, SettingValue]
    unknown: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    metrics_listener: Listener | None = None
    metrics_login: MetricsLogin | None = None

    @property
    def node_id(self) -> int:
        return self.number("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The data directories; the first also holds files that belong to no log."""
        return self.items("log.dir" if self.values["log.dirs"] is None else "log.dirs")

    @property
    def metadata_log_dir(self) -> str:
        """The path of the directory that holds `__cluster_metadata-0`."""
        return self.text("metadata.log.dir") or self.log_dirs[0]

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients."""
        return self.listeners.for_clients

    @property
    def is_broker(self) -> bool:
        return "broker" in self.items("process.roles")

    @property
    def is_controller(self) -> bool:
        return "controller" in self.items("process.roles")

    @property
    def is_alone(self) -> bool:
        """Whether this node is the whole cluster, with a standalone controller."""
        return is_alone(self.values, self.listeners)

    def number(self, name: str) -> int:
        """The value of a setting that is an integer and not null."""
        value = self.values[name]
        assert isinstance(value, int), f"{name} is {value!r}"
        return value

    def flag(self, name: str) -> bool:
        """The value of a setting that is a boolean."""
        value = self.values[name]
        assert isinstance(value, bool), f"{name} is {value!r}"
        return value

    def text(self, name: str) -> str | None:
        """The value of a setting that is a string; None for null."""
        value = self.values[name]
        assert isinstance(value, str) or value is None, f"{name} is {value!r}"
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """The value of a setting that is a list; the empty list for null."""
        value = self.values[name]
        assert isinstance(value, tuple) or value is None, f"{name} is {value!r}"
        return value or ()

    def for_internal_topic(self, name: str, *, live_brokers: int) -> int:
        """The replication factor or min.isr of an internal topic, from the setting `name`.

        A given value is used unchanged; a default is lowered to the number of live brokers.
        """
        wanted = self.number(name)
        return wanted if name in self.static.given else max(1, min(wanted, live_brokers))

    @property
    def open_listeners(self) -> tuple[Listener, ...]:
        """The listeners that other machines reach and that authenticate no client."""
        every = (*self.listeners.all, *filter(None, [self.metrics_listener]))
        return tuple(one for one in every if not one.is_local and not self._authenticates(one))

    def _authenticates(self, listener: Listener) -> bool:
        given, name = self.static.given, "ssl.client.auth"
        client_auth = given.get(f"{listener_prefix(listener.name)}{name}", "")
        match listener.protocol:
            case "SSL":
                return (client_auth or given.get(name, "")) == "required"
            case "HTTP" | "HTTPS":
                return self.metrics_login is not None or (listener.protocol == "HTTPS" and client_auth == "required")
            case protocol:
                return protocol.startswith("SASL_")

    def warnings(self) -> Iterator[str]:
        """The warnings about the settings, for the log of the start."""
        name = "log.dir" if self.values["log.dirs"] is None else "log.dirs"
        named = [one.strip() for one in self.static.given.get(name, "").split(",")]
        if twice := [one for one in self.log_dirs if named.count(one) > 1]:
            yield f"{name} names {' and '.join(twice)} more than once"
        for name, meant in self.unknown:
            origin = f" in {self.origins[name]}" if name in self.origins else ""
            yield f"unknown setting {name}{origin}" + (f" (did you mean {meant}?)" if meant else "")
        if self.ignored:
            yield f"settings that minikafka does not support: {', '.join(self.ignored)}"


def load_config(
    *,
    properties: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    in_container: bool = False,
    places: Mapping[str, str] | None = None,
) -> NodeConfig:
    """Merge and check the settings of a node.

    Args:
        properties: The settings in the file (`properties_file.read_properties`).
        environment: The environment variables of the process (`environment.py`); they override the file.
        settings: The settings from `--set` and other options; they override the file and the environment.
        in_container: Whether to use the defaults of the image (`container.py`).
        places: The place of each of `properties` in words, for messages.

    Raises:
        ConfigError: The settings are invalid; the error has all problems.
    """
    given = {**(properties or {}), **from_environment(environment or {}), **(settings or {})}
    if in_container:
        given = container_defaults(given)
    named = {name: f"the environment variable {one}" for name, one in variables(environment or {}).items()}
    origins = {name: one for name, one in {**(places or {}), **named}.items() if name not in (settings or {})}
    try:
        return _checked(given, origins)
    except ConfigError as error:
        problems = tuple(_with_origins(error.problems, origins))
        replaced = {**(properties or {}), **from_environment(environment or {})}.get("listeners")
        if replaced and "listeners" in (settings or {}) and any("listener" in str(problem) for problem in problems):
            place = {**(places or {}), **named}.get("listeners")
            problems = (_replaced_listeners(given["listeners"], replaced, place), *problems)
        raise ConfigError(problems) from None


def _checked(given: Mapping[str, str], origins: Mapping[str, str]) -> NodeConfig:
    static = _with_defaults({name: text for name, text in given.items() if text is not None})
    parsed, problems = _parse_all(static)
    if problems:
        raise ConfigError(tuple(problems))
    values = Values(parsed, static.given)
    try:
        listeners = read_listeners(values)
    except ListenerProblem as error:
        raise ConfigError((error.problem,)) from None
    problems = [problem for rule in (*RULES, *ACCESS_RULES) for problem in rule(values, listeners)]
    metrics = login = None
    try:
        metrics, login = metrics_listener(static.given, listeners.names), metrics_login(static.given)
    except InvalidMetricsSetting as error:
        problems.append(Problem(error.name, error.value, str(error)))
    if why := why_no_metadata_version(given.get(INITIAL_METADATA_VERSION, "")):
        problems.append(values.problem(INITIAL_METADATA_VERSION, why))
    if problems:
        raise ConfigError(tuple(problems))
    return NodeConfig(static, listeners, parsed, _unknown(given), _ignored(given), origins, metrics, login)


def _replaced_listeners(text: str, replaced: str, place: str | None) -> Problem:
    """Says that --port replaced all listeners, with which other settings of a file and the environment may conflict."""
    origin = f" (from {place})" if place else ""
    return Problem("listeners", text, f"--port, --host or --set replaces all of listeners={replaced}{origin}")


def _with_origins(problems: Iterable[Problem], origins: Mapping[str, str]) -> Iterator[Problem]:
    """The problems, each with the origin of its setting."""
    for problem in problems:
        yield replace(problem, origin=origins.get(problem.name, ""))


def _with_defaults(given: dict[str, str]) -> StaticSettings:
    """The given settings with minikafka's defaults, and with `broker.id`, the older name of `node.id`."""
    given = {**given}
    if "broker.id" in given and given["broker.id"].strip() != "-1":
        given.setdefault("node.id", given["broker.id"])
    for name in _IN_ANY_FILE:
        given.setdefault(name, OWN_DEFAULTS[name][0])
    given.setdefault("broker.id", given["node.id"])
    own = {name: text for name, (text, _) in OWN_DEFAULTS.items() if name not in _IN_ANY_FILE}
    own["log.dirs"] = own["log.dirs"].replace("{node.id}", given["node.id"].strip())
    if "log.dir" in given:
        del own["log.dirs"]
    node_id = given["node.id"].strip()
    return StaticSettings(int(node_id) if node_id.isdecimal() else -1, given, own)


def _parse_all(static: StaticSettings) -> tuple[dict[str, SettingValue], list[Problem]]:
    parsed: dict[str, SettingValue] = {}
    problems: list[Problem] = []
    for name, setting in STATIC_SETTINGS.items():
        try:
            parsed[name] = static.value(name)
        except InvalidSetting as error:
            problems.append(Problem(name, error.value, f"{error.reason} (allowed: {setting.allowed})"))
    for name, text in static.given.items():
        base = listener_base_name(name)
        if base in NODE_SETTINGS:
            problems.extend(_listener_setting_problems(name, base, text))
    return parsed, problems


def _listener_setting_problems(name: str, base: str, text: str) -> Iterator[Problem]:
    setting = NODE_SETTINGS[base]
    try:
        setting.parse(text)
    except InvalidSetting as error:
        yield Problem(name, error.value, f"{error.reason} (allowed: {setting.allowed})")


def _unknown(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    known = (*STATIC_SETTINGS, *OWN_SETTINGS)
    names = [name for name in given if name not in known and not _is_listener_setting(name)]
    return tuple((name, _meant(name, known)) for name in names)


def _meant(name: str, known: Collection[str]) -> str:
    """The setting of a node with the most similar name; "" if no name is similar.

    For the name of a topic config it is the setting with the default of that config.
    """
    found = "".join(difflib.get_close_matches(name, (*known, *TOPIC_SETTINGS), 1, 0.85))
    return found if found in known or not found else TOPIC_SETTINGS[found].synonym or ""


def _is_listener_setting(name: str) -> bool:
    """Whether the setting has a `listener.name.<listener>.` prefix, with or without a SASL mechanism."""
    base = listener_base_name(name)
    return base is not None and (base in NODE_SETTINGS or base.partition(".")[2] in NODE_SETTINGS)


def _ignored(given: Mapping[str, str]) -> tuple[str, ...]:
    idle = [name for name, setting in NODE_SETTINGS.items() if name in given and not setting.supported]
    of_listeners = [name for name in given if _is_listener_setting(name) and not _works_for_listeners(name)]
    return tuple(sorted([*idle, *of_listeners]))


def _works_for_listeners(name: str) -> bool:
    base = listener_base_name(name) or ""
    if is_sasl_setting_of_listeners(name):
        return True
    return is_setting_of_listeners(base) and base in NODE_SETTINGS and NODE_SETTINGS[base].supported
