"""The declared settings equal Kafka's tables, and values are parsed as by Kafka's ConfigDef."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.settings.registry import (
    GROUP_SETTINGS,
    NODE_SETTINGS,
    QUOTA_SETTINGS,
    REQUIRED,
    TOPIC_SETTINGS,
    InvalidSetting,
    Setting,
    SettingType,
    listener_base_name,
    node_synonyms,
)

TABLES = Path(__file__).parents[4] / "shared" / "kafka-configs"
KINDS = {
    "broker-configs.txt": NODE_SETTINGS,
    "topic-configs.txt": TOPIC_SETTINGS,
    "group-configs.txt": GROUP_SETTINGS,
    "quota-configs.txt": QUOTA_SETTINGS,
}


def rows(file: str) -> dict[str, list[str]]:
    """The rows of one of Kafka's tables by name: name, type, default, valid, importance, mode or synonym."""
    text = (TABLES / file).read_text()
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {cells[0]: [*cells, "", ""][:6] for cells in lines}


def spelled_default(setting: Setting) -> str:
    """A default in the notation of the tables."""
    if setting.default is REQUIRED:
        return "required"
    if setting.default is None:
        return "null"
    if isinstance(setting.default, tuple):
        return f"[{', '.join(setting.default)}]"
    text = setting.render(setting.default)
    prefix = "class " if setting.type is SettingType.CLASS else ""
    return '""' if text == "" else f"{prefix}{text}"


@pytest.mark.skipif(not TABLES.is_dir(), reason="no ../shared/kafka-configs beside the checkout")
@pytest.mark.parametrize("file", KINDS)
def test_every_setting_is_declared_as_in_kafkas_table(file: str) -> None:
    declared, table = KINDS[file], rows(file)
    assert list(declared) == sorted(table)
    for name, setting in declared.items():
        last = setting.update_mode if declared is NODE_SETTINGS else setting.synonym or ""
        ours = [
            name,
            setting.type.name.lower(),
            spelled_default(setting),
            setting.valid.text if setting.valid else "",
            setting.importance,
            last,
        ]
        assert ours == table[name]


@pytest.mark.parametrize("declared", KINDS.values(), ids=KINDS)
def test_every_setting_is_described_in_one_sentence(declared: dict[str, Setting]) -> None:
    for setting in declared.values():
        assert re.fullmatch(r"[A-Z].{10,110}\.", setting.doc), setting.name


@pytest.mark.parametrize("declared", KINDS.values(), ids=KINDS)
def test_every_default_reads_back_as_itself(declared: dict[str, Setting]) -> None:
    for setting in declared.values():
        if setting.default not in (None, REQUIRED):
            assert setting.parse(setting.default_text) == setting.default


def test_a_synonym_is_a_node_setting() -> None:
    for setting in [*TOPIC_SETTINGS.values(), *GROUP_SETTINGS.values()]:
        assert setting.synonym is None or setting.synonym in NODE_SETTINGS


READ = [
    ("retention.ms", " 5 ", 5),
    ("retention.ms", "+5", 5),
    ("retention.ms", "-1", -1),
    ("retention.ms", "٣", 3),
    ("retention.ms", "0000000000000000000000000000007", 7),
    ("preallocate", "TRUE", True),
    ("min.cleanable.dirty.ratio", "1e-1", 0.1),
    ("min.cleanable.dirty.ratio", "0x1p-2", 0.25),
    ("min.cleanable.dirty.ratio", "0.5f", 0.5),
    ("cleanup.policy", " compact , delete ", ("compact", "delete")),
    ("cleanup.policy", "delete,delete", ("delete",)),
    ("cleanup.policy", "", ()),
    ("compression.type", " gzip", "gzip"),
    ("compression.gzip.level", "-1", -1),
    ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
    ("leader.replication.throttled.replicas", "*", ("*",)),
    ("leader.replication.throttled.replicas", "0:1,0:1", ("0:1", "0:1")),
]


@pytest.mark.parametrize(("name", "text", "value"), READ)
def test_a_value_is_parsed_as_by_kafka(name: str, text: str, value: object) -> None:
    assert TOPIC_SETTINGS[name].parse(text) == value


REFUSED = [
    ("retention.ms", "soon", "Not a number of type LONG"),
    ("retention.ms", "", "Not a number of type LONG"),
    ("retention.ms", "1_000", "Not a number of type LONG"),
    ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
    ("retention.ms", "9" * 5000, "Not a number of type LONG"),
    ("retention.ms", "-2", "Value must be at least -1"),
    ("retention.ms", None, "Value must be non-null"),
    ("max.message.bytes", "0x10", "Not a number of type INT"),
    ("segment.bytes", "2147483648", "Not a number of type INT"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("compression.zstd.level", "23", "Value must be no more than 22"),
    ("preallocate", "yes", "Expected value to be either true or false"),
    ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
    ("min.cleanable.dirty.ratio", "abc", "Not a number of type DOUBLE"),
    ("cleanup.policy", "shred", "String must be one of: compact, delete"),
    ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
    ("compression.type", "GZIP", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("leader.replication.throttled.replicas", "none", "must be the literal '*' or a list of replicas"),
]


@pytest.mark.parametrize(("name", "text", "reason"), REFUSED)
def test_an_invalid_value_has_kafkas_error_message(name: str, text: str | None, reason: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        TOPIC_SETTINGS[name].parse(text)
    assert (caught.value.name, caught.value.value) == (name, text)
    assert caught.value.reason.startswith(reason)


def test_the_error_names_value_setting_and_bound() -> None:
    with pytest.raises(InvalidSetting) as caught:
        TOPIC_SETTINGS["retention.ms"].parse("soon")
    assert str(caught.value) == (
        "Invalid value soon for configuration retention.ms: Not a number of type LONG "
        "(allowed: a 64-bit integer, [-1,...])"
    )


@pytest.mark.parametrize("text", ["latest", "earliest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_valid_offset_resets_of_share_groups(text: str) -> None:
    assert GROUP_SETTINGS["share.auto.offset.reset"].parse(text) == text


@pytest.mark.parametrize(
    "text", ["never", "by_duration:xx", "by_duration:P", "by_duration:PT", "by_duration:", "by_duration:-PT1H"]
)
def test_invalid_offset_resets_of_share_groups(text: str) -> None:
    with pytest.raises(InvalidSetting):
        GROUP_SETTINGS["share.auto.offset.reset"].parse(text)


@pytest.mark.parametrize("text", ["1@localhost:9093", "1@a:1,2@b:2", "1@[::1]:9093", ""])
def test_voters_are_ids_at_addresses(text: str) -> None:
    NODE_SETTINGS["controller.quorum.voters"].parse(text)


@pytest.mark.parametrize("text", ["localhost:9093", "1@localhost", "x@localhost:1", "1@a:1,,2@b:2"])
def test_malformed_voters_are_rejected(text: str) -> None:
    with pytest.raises(InvalidSetting):
        NODE_SETTINGS["controller.quorum.voters"].parse(text)


def test_a_case_insensitive_setting_accepts_any_case() -> None:
    assert NODE_SETTINGS["group.consumer.migration.policy"].parse("Upgrade") == "Upgrade"
    with pytest.raises(InvalidSetting):
        NODE_SETTINGS["group.consumer.migration.policy"].parse("sideways")


def test_a_password_is_not_shown_in_an_error() -> None:
    setting = NODE_SETTINGS["ssl.key.password"]
    assert setting.sensitive
    assert "hunter2" not in str(setting.invalid("hunter2", "some reason"))


SHOWN = [
    (0.5, "0.5"),
    (1e-05, "1.0E-5"),
    (0.001, "0.001"),
    (1e7, "1.0E7"),
    (9999999.0, "9999999.0"),
    (0.0, "0.0"),
    (2147483647.0, "2.147483647E9"),
    (-1.25e-10, "-1.25E-10"),
    (float("inf"), "Infinity"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_double_is_rendered_as_in_java(value: float, text: str) -> None:
    assert TOPIC_SETTINGS["min.cleanable.dirty.ratio"].render(value) == text


@given(st.floats(allow_nan=False))
def test_a_double_round_trips(value: float) -> None:
    ratio = NODE_SETTINGS["log.cleaner.io.buffer.load.factor"]
    assert ratio.parse(ratio.render(value)) == value


@given(st.sampled_from([*NODE_SETTINGS.values(), *TOPIC_SETTINGS.values()]), st.text())
def test_any_text_is_parsed_or_rejected(setting: Setting, text: str) -> None:
    try:
        value = setting.parse(text)
    except InvalidSetting as problem:
        refused = problem.name
    else:
        refused = None if setting.parse(setting.render(value)) == value or value != value else "not the same"
    assert refused in (None, setting.name)


def test_synonyms_are_in_order_of_precedence() -> None:
    names = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert all(node_synonyms(name) == names for name in names)
    assert node_synonyms("log.flush.interval.ms") == (
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    )
    assert node_synonyms("node.id") == ("node.id",)


def test_the_base_name_of_a_listener_setting() -> None:
    assert listener_base_name("listener.name.internal.ssl.keystore.location") == "ssl.keystore.location"
    assert listener_base_name("listeners") is None
