"""A node's settings: Apache Kafka's files, invalid values, defaults, the environment."""

from contextlib import suppress
from dataclasses import MISSING, fields

import pytest

from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.broker.replication.follower_fetch_state import FetchSettings
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node_config import ConfigError, NodeConfig, load_config
from minikafka.broker.settings.properties_file import read_properties
from minikafka.protocol.settings.dataclass_fields import from_values
from minikafka.protocol.settings.registry import NODE_SETTINGS, SECURITY_NAMES
from minikafka.storage.log_config import LogConfig

FOR_KAFKA = """
############################# Server Basics #############################
process.roles=broker,controller
node.id=3
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
"""

_TWO = "PLAINTEXT://:1,CONTROLLER://:2"


def config(**given: str) -> NodeConfig:
    """A configuration; underscores in names stand for dots."""
    return load_config(settings={name.replace("_", "."): text for name, text in given.items()})


def problems(text: str) -> list[str]:
    """The problems of a file, one line each."""
    with pytest.raises(ConfigError) as caught:
        load_config(properties=read_properties(text))
    return str(caught.value).splitlines()


def test_a_node_needs_no_settings() -> None:
    node = load_config()
    assert (node.node_id, node.log_dirs) == (1, ("minikafka-data/node-1",))
    assert node.client_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    assert list(node.warnings()) == []


def test_the_configuration_file_of_apache_kafka_works_unchanged() -> None:
    node = load_config(properties=read_properties(FOR_KAFKA))
    assert (node.node_id, node.log_dirs) == (3, ("/tmp/kraft-combined-logs",))
    assert node.client_listeners == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert node.listeners.advertised == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert node.listeners.controller_names == ("CONTROLLER",)
    (warning,) = node.warnings()
    assert warning.startswith(
        "settings that minikafka does not support: num.io.threads, num.network.threads, "
    )


@pytest.mark.parametrize(
    ("listener", "is_open"),
    [
        ("PLAINTEXT://127.0.0.1:9092", False),
        ("PLAINTEXT://[::1]:9092", False),
        ("PLAINTEXT://localhost:9092", False),
        ("PLAINTEXT://:9092", True),
        ("PLAINTEXT://0.0.0.0:9092", True),
        ("PLAINTEXT://[::]:9092", True),
        ("PLAINTEXT://192.0.2.1:9092", True),
        ("PLAINTEXT://kafka.example:9092", True),
    ],
)
def test_a_listener_without_authentication_that_others_reach_is_open(listener: str, *, is_open: bool) -> None:
    names = [str(one) for one in config(listeners=listener, advertised_listeners="PLAINTEXT://h:1").open_listeners]
    assert names == ([listener] if is_open else [])


def test_a_data_directory_that_is_named_twice_counts_once() -> None:
    node = config(log_dirs="/a, /b,/a")
    assert node.log_dirs == ("/a", "/b")
    assert list(node.warnings()) == ["log.dirs names /a more than once"]
    assert list(config(log_dirs="/a,/b").warnings()) == []


def test_broker_id_is_an_older_name_of_node_id() -> None:
    node = config(broker_id="7")
    assert (node.node_id, node.log_dirs) == (7, ("minikafka-data/node-7",))
    assert config(node_id="7").static.given["broker.id"] == "7"


def test_log_dir_is_used_without_log_dirs() -> None:
    assert config(log_dir="/a").log_dirs == ("/a",)
    assert config(log_dir="/a", log_dirs="/b, /c").log_dirs == ("/b", "/c")
    assert config(log_dirs="/b,/c").metadata_log_dir == "/b"
    assert config(log_dirs="/b,/c", metadata_log_dir="/d").metadata_log_dir == "/d"


def test_listener_names_are_upper_case_and_hosts_may_be_ipv6() -> None:
    (listener,) = config(listeners="plaintext://[::1]:9092").client_listeners
    assert listener == Listener("PLAINTEXT", "::1", 9092, "PLAINTEXT")
    assert str(listener) == "PLAINTEXT://[::1]:9092"


def test_a_port_may_serve_ipv4_and_ipv6() -> None:
    text = "listeners=A://127.0.0.1:1,B://[::1]:1\nlistener.security.protocol.map=A:PLAINTEXT,B:plaintext"
    node = load_config(properties=read_properties(f"{text}\ninter.broker.listener.name=A"))
    assert [listener.name for listener in node.client_listeners] == ["A", "B"]


def test_a_controller_that_is_not_advertised_may_listen_everywhere() -> None:
    node = config(
        listeners="PLAINTEXT://:1,CTRL://0.0.0.0:2",
        controller_listener_names="CTRL",
        advertised_listeners="PLAINTEXT://h:1",
    )
    assert [one.host for one in node.listeners.advertised_for_controllers] == ["0.0.0.0"]


def test_a_controller_listener_is_plaintext_unless_mapped_otherwise() -> None:
    node = config(listeners="PLAINTEXT://:1,CTRL://:2", controller_listener_names="CTRL")
    assert node.listeners.all[1].protocol == "PLAINTEXT"


BASE = "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://h:1,CONTROLLER://h:2\n"
REFUSED = [
    (
        "log.retention.ms=soon",
        ["log.retention.ms=soon: Not a number of type LONG (allowed: a 64-bit integer)"],
    ),
    ("listeners=PLAINTEXT://h:1,PLAINTEXT://h:2", ["PLAINTEXT occurs twice"]),
    ("listeners=PLAINTEXT://h:1,CONTROLLER://h:1", ["share port 1"]),
    ("listeners=PLAINTEXT//h:1", ["Unable to parse PLAINTEXT//h:1 to a listener; allowed: NAME://host:port"]),
    ("listeners=PLAINTEXT://h:65536,CONTROLLER://h:2", ["has an invalid port"]),
    ("listeners=INSIDE://h:1,CONTROLLER://h:2", ["No security protocol defined for listener INSIDE"]),
    ("listeners=CONTROLLER://h:2", ["must contain a listener for clients"]),
    (
        "listeners=SASL_SSL://h:1,CONTROLLER://h:2",
        ["GSSAPI (Kerberos) of the listener SASL_SSL is not supported (allowed: PLAIN, "],
    ),
    (
        "listener.name.PlainText.ssl.client.auth=none",
        ["listener.name.PlainText.ssl.client.auth: has no effect: the name of the listener must be in lower case"],
    ),
    ("listener.security.protocol.map=PLAINTEXT:PLAIN", ["PLAINTEXT:PLAIN is not NAME:PROTOCOL"]),
    ("advertised.listeners=SSL://x:1", ["names must be among those of 'listeners' (allowed: PLAINTEXT)"]),
    ("advertised.listeners=PLAINTEXT://0.0.0.0:1", ["must not be the wildcard address 0.0.0.0"]),
    (
        "advertised.listeners=CONTROLLER://h:2",
        ["CONTROLLER://h:2: must contain a listener for clients besides controller.listener.names"],
    ),
    (
        "advertised.listeners=PLAINTEXT://h:1,CONTROLLER://0.0.0.0:2",
        ["advertised.listeners=PLAINTEXT://h:1,CONTROLLER://0.0.0.0:2: must not be the wildcard address 0.0.0.0"],
    ),
    ("inter.broker.listener.name=CONTROLLER", ["must be an advertised listener (allowed: PLAINTEXT)"]),
    (
        "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
        ["only one of this and security.inter.broker.protocol"],
    ),
    (
        "security.inter.broker.protocol=SSL",
        ["security.inter.broker.protocol=SSL: must be an advertised listener (allowed: PLAINTEXT)"],
    ),
    (
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
        ["GSSAPI (Kerberos) of the listener CONTROLLER is not supported (allowed: PLAIN, "],
    ),
    (
        "controller.listener.names=CONTROLLER,SSL",
        ["must only contain names that appear in 'listeners' (allowed: PLAINTEXT, CONTROLLER)"],
    ),
    ("controller.quorum.voters=2@h:2", ["the node id 1 must be one of the voters"]),
    ("controller.quorum.voters=1@h:2,1@h:3", ["voters must have distinct ids"]),
    ("controller.quorum.voters=h:2", ["each must be of the form id@host:port"]),
    ("broker.id=2\nnode.id=1", ["must equal node.id"]),
    ("node.id=-1", ["node.id=-1: Value must be at least 0"]),
    ("process.roles=broker", ["must not appear in 'listeners' if process.roles is broker"]),
    ("log.retention.minutes=0", ["must be unlimited (-1) or at least 1"]),
    ("log.roll.ms=0", ["log.roll.ms=0: must be at least 1"]),
    ("log.roll.jitter.ms=-1", ["must be at least 0"]),
    ("log.dirs=", ["at least one"]),
    ("replica.lag.time.max.ms=100", ["must be at least replica.fetch.wait.max.ms, which is 500"]),
    ("group.consumer.session.timeout.ms=1000", ["must be at least group.consumer.min.session.timeout.ms"]),
    ("queued.max.request.bytes=5", ["must be at least socket.request.max.bytes"]),
    ("connections.max.idle.ms=50", ["must be above connection.failed.authentication.delay.ms"]),
    ("listener.name.plaintext.ssl.client.auth=maybe", ["String must be one of: required, requested, none"]),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text for text, _ in REFUSED])
def test_an_invalid_file_is_refused(text: str, words: list[str]) -> None:
    found = problems(BASE + text)
    assert any(word in line for line in found for word in words), found


def test_all_problems_are_reported_together() -> None:
    found = problems(
        "log.retention.ms=x\nnum.partitions=0\nauto.create.topics.enable=maybe\nssl.key.password=s"
    )
    assert found == [
        "auto.create.topics.enable=maybe: Expected value to be either true or false (allowed: true or false)",
        "log.retention.ms=x: Not a number of type LONG (allowed: a 64-bit integer)",
        "num.partitions=0: Value must be at least 1 (allowed: a 32-bit integer, [1,...])",
    ]


def test_unknown_settings_are_warnings_with_the_closest_name() -> None:
    node = config(log_retention_hour="5", zookeeper_connect="x")
    assert list(node.warnings()) == [
        "unknown setting log.retention.hour (did you mean log.retention.hours?)",
        "unknown setting zookeeper.connect",
    ]


def test_for_a_setting_of_a_topic_the_one_of_a_node_is_named() -> None:
    node = load_config(settings={"retentoin.ms": "1", "max.message.bytes": "1", "min.insync.replica": "1"})
    assert [meant for _, meant in node.unknown] == ["log.retention.ms", "message.max.bytes", "min.insync.replicas"]


def test_settings_of_a_listener_are_known_and_ignored() -> None:
    name = "listener.name.inside.num.network.threads"
    node = load_config(settings={name: "3"})
    assert (node.unknown, node.ignored) == ((), (name,))


def test_options_override_the_environment_which_overrides_the_file() -> None:
    node = load_config(
        properties={"num.partitions": "2", "log.roll.hours": "2", "log.segment.bytes": "2000000"},
        environment={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_ROLL_HOURS": "3"},
        settings={"num.partitions": "4"},
    )
    assert (node.number("num.partitions"), node.number("log.roll.hours")) == (4, 3)
    assert node.number("log.segment.bytes") == 2_000_000


@pytest.mark.parametrize(
    ("below", "origin"),
    [
        ({"properties": {"listeners": _TWO}, "places": {"listeners": "it, line 3"}}, " (from it, line 3)"),
        ({"properties": {"listeners": _TWO}}, ""),
        ({"environment": {"KAFKA_LISTENERS": _TWO}}, " (from the environment variable KAFKA_LISTENERS)"),
    ],
)
@pytest.mark.parametrize(
    "other",
    [
        {"controller.listener.names": "CONTROLLER"},
        {"advertised.listeners": "B://x:1", "listener.security.protocol.map": "B:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
        {"inter.broker.listener.name": "CONTROLLER"},
    ],
)
def test_what_conflicts_with_a_port_option_is_preceded_by_what_the_option_replaced(
    below: dict[str, dict[str, str]], origin: str, other: dict[str, str]
) -> None:
    below = {"properties": {}, **below}
    below["properties"] = {**below["properties"], **other}
    with pytest.raises(ConfigError) as refused:
        load_config(**below, settings={"listeners": "PLAINTEXT://:1"})
    first, *_ = str(refused.value).splitlines()
    assert first == f"listeners=PLAINTEXT://:1: --port, --host or --set replaces all of listeners={_TWO}{origin}"


def test_an_option_for_listeners_is_not_blamed_for_other_problems() -> None:
    with pytest.raises(ConfigError, match=r"^num\.partitions=0") as refused:
        load_config(properties={"listeners": _TWO, "num.partitions": "0"}, settings={"listeners": "PLAINTEXT://:1"})
    assert len(refused.value.problems) == 1


def test_defaults_of_internal_topics_follow_the_number_of_live_brokers() -> None:
    name = "offsets.topic.replication.factor"
    assert [load_config().for_internal_topic(name, live_brokers=live) for live in (0, 1, 2, 3, 5)] == [
        1,
        1,
        2,
        3,
        3,
    ]
    assert config(offsets_topic_replication_factor="3").for_internal_topic(name, live_brokers=1) == 3


@pytest.mark.parametrize(("text", "why"), [("3.9", "eligible leader replicas"), ("4.9-IV7", "no such level")])
def test_a_metadata_version_that_a_new_cluster_cannot_have_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config(settings={"initial.metadata.version": text})
    assert load_config(settings={"initial.metadata.version": "4.2"}).unknown == ()


def test_only_a_controller_joins_the_voters_by_itself() -> None:
    settings = {"controller_quorum_auto_join_enable": "true", "controller_quorum_bootstrap_servers": "h:1"}
    names = {"controller_listener_names": "CONTROLLER", "process_roles": "broker"}
    with pytest.raises(ConfigError, match="is only supported if"):
        config(**settings, **names)
    listeners = {"listeners": "CONTROLLER://127.0.0.1:1", "process_roles": "controller"}
    assert config(**settings, **names | listeners).flag("controller.quorum.auto.join.enable")


SECURITY_OF_LISTENERS = [
    "listener.name.x.ssl.keystore.location",
    "listener.name.x.ssl.keystore.key",
    "listener.name.x.plain.sasl.jaas.config",
]


@pytest.mark.parametrize("name", [*sorted(SECURITY_NAMES), *SECURITY_OF_LISTENERS])
def test_a_node_that_is_told_to_be_secure_is_secure_or_does_not_start(name: str) -> None:
    """A setting is supported, or its default, or refuses the start with a sentence that has no secret."""
    base = next(known for known in SECURITY_NAMES if name.endswith(known))
    setting = NODE_SETTINGS[base]
    for text in ("SSL", "SASL_SSL", "/secret", "true", "1", "100", "0.9", "required", "a=b", "PLAIN"):
        refused = ""
        try:
            load_config(settings={name: text})
        except ConfigError as error:
            refused = str(error)
        if refused:
            assert name in refused
            assert not setting.sensitive or text not in refused.replace(name, "")
        else:
            assert setting.supported or setting.parse(text) == setting.default


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"authorizer.class.name": "com.acme.Authorizer"}, rf"no such authorizer \(allowed: {AUTHORIZER}\)"),
        ({"authorizer.class.name": AUTHORIZER, "super.users": "User:a;bob"}, "'bob' is no principal: write User:bob"),
        ({"allow.everyone.if.no.acl.found": "perhaps"}, "allow.everyone.if.no.acl.found"),
        ({"early.start.listeners": "OUTSIDE"}, r"there is no listener OUTSIDE \(allowed: "),
    ],
)
def test_what_an_authorizer_cannot_honour_is_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config(settings=settings)


SEVERAL = {
    "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:2,2@127.0.0.1:3",
    "authorizer.class.name": AUTHORIZER,
}
BY_PASSWORD = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    'required username="node" password="secret" user_node="secret";',
}


@pytest.mark.parametrize("quorum", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"])
@pytest.mark.parametrize(("login", "user"), [({}, "User:ANONYMOUS"), (BY_PASSWORD, "User:node")])
def test_controllers_that_would_refuse_each_other_do_not_start(quorum: str, login: dict[str, str], user: str) -> None:
    settings = {name: value for name, value in SEVERAL.items() if name != "controller.quorum.voters"} | login
    servers = "127.0.0.1:2,127.0.0.1:3"
    settings[quorum] = SEVERAL.get(quorum, servers)
    with pytest.raises(ConfigError, match=f"super.users=User:admin: must contain {user}, .* listener CONTROLLER"):
        load_config(settings={**settings, "super.users": "User:admin"})
    load_config(settings={**settings, "super.users": f"User:admin;{user}"})
    load_config(settings={**settings, "authorizer.class.name": ""})
    settings[quorum] = settings[quorum].partition(",")[0]
    load_config(settings=settings)  # the only controller


def test_the_settings_of_an_authorizer_are_supported() -> None:
    settings = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin;User:CN=a,O=b",
        "allow.everyone.if.no.acl.found": "true",
        "early.start.listeners": "plaintext",
    }
    node = load_config(settings=settings)
    assert (node.ignored, node.unknown) == ((), ())


def test_a_setting_of_security_with_its_default_starts() -> None:
    assert load_config(settings={"authorizer.class.name": "", "sasl.kerberos.kinit.cmd": "/usr/bin/kinit"}).ignored == (
        "sasl.kerberos.kinit.cmd",
    )


NUMBERS = [-(1 << 63), -(1 << 31), -(1 << 15), -2, -1, *range(6), (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1]
WORDS = ["", "x", "x,y", "none", "classic", "range,range"]


@pytest.mark.parametrize("cls", [GroupSettings, TransactionSettings, LogConfig, FetchSettings])
def test_a_setting_that_is_accepted_has_a_value_that_a_node_can_use(cls: type) -> None:
    """Whatever the numbers and words, a node is refused with a sentence, or its parts take the value."""
    names = {item.metadata.get("setting") for item in fields(cls)} & NODE_SETTINGS.keys()
    assert names
    used = {item.name: 1 for item in fields(cls) if "setting" not in item.metadata and item.default is MISSING}
    for name in names:
        for text in [*map(str, NUMBERS), *WORDS]:
            with suppress(ConfigError):
                from_values(cls, load_config(settings={name: text}).values, **used)


def test_an_unknown_codec_is_refused() -> None:
    assert problems("offsets.topic.compression.codec=5") == [
        "offsets.topic.compression.codec=5: Unknown compression type id (allowed: 0 is none, 1 is gzip, 2 is snappy, "
        "3 is lz4, 4 is zstd)"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metrics.listener=ftp://h:1", "metrics.listener=ftp://h:1: not an address"),
        ("metrics.listener=https://h:65536", "metrics.listener=https://h:65536: not an address"),
        ("metrics.listener=http://h:1\nmetrics.listener.username=u", "metrics.listener.password: is required"),
        ("metrics.listener=http://h:1\nmetrics.listener.password=secret", "metrics.listener.username: is required"),
        (
            "metrics.listener=http://h:1\nmetrics.listener.username=u\nmetrics.listener.password=",
            "metrics.listener.password: is required",
        ),
        (
            "metrics.listener.username=u\nmetrics.listener.password=secret",
            "metrics.listener.username: has no effect without metrics.listener",
        ),
        (
            "metrics.listener=http://h:1\nmetrics.listener.username=u:v\nmetrics.listener.password=secret",
            "metrics.listener.username: must have no colon",
        ),
        (
            "metrics.listener=http://h:1\nlistener.name.metrics.ssl.keystore.key=secret",
            "listener.name.metrics.ssl.keystore.key: has no effect unless metrics.listener begins with https://",
        ),
        (
            "metrics.listener=https://h:1\nlistener.name.METRICS.ssl.keystore.key=secret",
            "listener.name.METRICS.ssl.keystore.key: has no effect: the name of the listener must be in lower case",
        ),
        (
            "metrics.listener=https://h:1\nlisteners=METRICS://:1\nlistener.security.protocol.map=METRICS:PLAINTEXT\n"
            "inter.broker.listener.name=METRICS",
            "metrics.listener=https://h:1: a listener of Kafka's protocol has the name METRICS",
        ),
    ],
)
def test_a_login_or_tls_of_metrics_that_is_not_whole_refuses_the_start(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(expected)
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("given", "is_open"),
    [
        ({"metrics.listener": "http://127.0.0.1:1"}, False),
        ({"metrics.listener": "http://:1"}, True),
        ({"metrics.listener": "https://:1"}, True),
        ({"metrics.listener": "https://:1", "ssl.client.auth": "required"}, True),  # It is not inherited.
        ({"metrics.listener": "https://:1", "listener.name.metrics.ssl.client.auth": "required"}, False),
        (
            {"metrics.listener": "http://:1", "metrics.listener.username": "u", "metrics.listener.password": "secret"},
            False,
        ),
    ],
)
def test_metrics_that_others_can_read_without_a_login_are_open(given: dict[str, str], *, is_open: bool) -> None:
    node = load_config(settings=given)
    assert [str(one) for one in node.open_listeners] == (["METRICS://:1"] if is_open else [])
    assert "secret" not in repr(node.metrics_login)
