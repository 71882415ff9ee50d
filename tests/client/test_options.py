"""Options: errors name the argument, its value and the allowed values; type checkers see the same options."""

from __future__ import annotations

import re
import string
from dataclasses import fields
from enum import IntEnum, StrEnum
from typing import Any, get_type_hints

import pytest
from support.client_options import ARGUMENTS, PAGE, arguments, page

from minikafka.client import Admin, Consumer, InvalidOption, Producer
from minikafka.client.arguments import AdminArguments, ConsumerArguments, ProducerArguments
from minikafka.client.option_checks import parse_addresses
from minikafka.client.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions, make


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Producer, {"linger": 5}, "Producer has no argument 'linger'; did you mean linger_ms?"),
        (Producer, {"batch.size": 5}, "did you mean batch_size?"),
        (Producer, {"xyzzy": 5}, "it takes acks, "),
        (Producer, {"acks": 2}, r"acks=2\): must be one of 'all', -1, 0, 1"),
        (Producer, {"linger_ms": -1}, "a whole number from 0 to"),
        (Producer, {"linger_ms": 1.5}, "a whole number"),
        (Producer, {"linger_ms": True}, "a whole number"),
        (Producer, {"compression_type": "zip"}, "'none', 'gzip', 'snappy', 'lz4', 'zstd'"),
        (Producer, {"delivery_timeout_ms": 1000}, "linger_ms . request_timeout_ms, that is 30005"),
        (Producer, {"acks": 1, "enable_idempotence": True}, "acks=1.*not allowed with enable_idempotence"),
        (Producer, {"retries": 0, "enable_idempotence": True}, "retries=0"),
        (Producer, {"partitioner": "murmur2"}, "a callable, or None"),
        (Producer, {"security_protocol": "TLS"}, "one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'"),
        (Consumer, {"auto_offset_reset": "first"}, "'earliest', 'latest', 'none'"),
        (Consumer, {"group_instance_id": "a"}, "needs a group_id"),
        (Consumer, {"group_id": ""}, "a non-empty string"),
        (Consumer, {"heartbeat_interval_ms": 60_000}, "less than session_timeout_ms"),
        (Consumer, {"partition_assignment_strategy": ["fair"]}, "'range', 'roundrobin', 'cooperative-sticky'"),
        (Admin, {"bootstrap_servers": "localhost"}, "'localhost' is not HOST:PORT"),
        (Admin, {"bootstrap_servers": "a:9092;b:9092"}, "'a:9092;b:9092' is not HOST:PORT"),
        (Admin, {"bootstrap_servers": None}, "None is neither a string nor a list of strings"),
        (Consumer, {"bootstrap_servers": None}, "None is neither a string nor a list of strings"),
        (Producer, {"bootstrap_servers": None}, "None is neither a string nor a list of strings"),
        (Admin, {"bootstrap_servers": []}, "no address"),
        (Admin, {"acks": 1}, "Admin has no argument 'acks'"),
    ],
)
def test_invalid_arguments_are_explained(kind: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        kind(**arguments)


def test_addresses() -> None:
    assert parse_addresses("a:1, b:2,") == [("a", 1), ("b", 2)]
    assert parse_addresses(["[::1]:9092"]) == [("::1", 9092)]
    assert parse_addresses("PLAINTEXT://a:1,plaintext://[::1]:2") == [("a", 1), ("::1", 2)]
    ports = ("0", "65536", "b", "²", "1" * 5000, "1/b")
    hosts = ("a", ":1", "", "PLAINTEXT://", "PLAINTEXT://a", "a b:1", "PLAINTEXT:///a:1")
    lists = [f"a:1{separator}b:1" for separator in string.punctuation if separator not in "-%._:[],"]
    for bad in (*hosts, *lists, *(f"a:{port}" for port in ports)):
        with pytest.raises(ValueError, match=r"HOST:PORT|no address"):
            parse_addresses(bad)
    assert parse_addresses("SASL_SSL://a:1,ssl://b:2") == [("a", 1), ("b", 2)]
    for protocol in ("TLS", "http", "", "PLAINTEXT://PLAINTEXT"):
        with pytest.raises(ValueError, match=r"a:1' has the protocol .*: must be one of PLAINTEXT, SSL, SASL_PLAIN"):
            parse_addresses(f"{protocol}://a:1")
    for wrong in (b"a:1", 5, ["a:1", 5], None, {"a:1": 1}):
        with pytest.raises(ValueError, match="neither a string nor a list of strings"):
            parse_addresses(wrong)  # type: ignore[arg-type]


def test_weaker_acks_turn_idempotence_off_as_in_kafka() -> None:
    options = make(ProducerOptions, {"acks": 1}, "Producer")
    assert (options.enable_idempotence, options.required_acks) == (False, 1)
    assert make(ProducerOptions, {}, "Producer").enable_idempotence


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("consumer_timeout_ms", "stop_at='end'"),
        ("api_version", "negotiated"),
        ("api.version.request", "negotiated"),
        ("broker.version.fallback", "negotiated"),
        ("sasl_plain_username", "sasl_username"),
        ("sasl.kerberos.service.name", "there is no GSSAPI"),
        ("sasl.oauthbearer.client.id", "sasl_oauth_token_provider"),
        ("ssl_cafile", "ssl_ca_location"),
        ("ssl.password", "ssl_key_password"),
        ("on_delivery", "send()"),
        ("dr_cb", "send()"),
        ("bootstrap_server", "did you mean bootstrap_servers?"),
    ],
)
@pytest.mark.parametrize("kind", [ProducerOptions, ConsumerOptions])
def test_options_of_other_clients_get_a_hint_of_their_own(kind: type[ClientOptions], name: str, hint: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        make(kind, {name: 5}, "Client")
    assert hint in str(refused.value)
    assert hint.startswith("did") or "did you mean" not in str(refused.value)
    assert "it takes" not in str(refused.value)


@pytest.mark.parametrize("kind", [ClientOptions, ProducerOptions, ConsumerOptions])
def test_every_default_passes_its_own_check(kind: type[ClientOptions]) -> None:
    make(kind, kind.defaults(), "Client")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [(AdminArguments, AdminOptions), (ProducerArguments, ProducerOptions), (ConsumerArguments, ConsumerOptions)],
)
def test_type_checkers_see_the_declared_options(arguments: Any, options: type[ClientOptions]) -> None:
    declared = get_type_hints(options)
    del declared["bootstrap_servers"]  # an explicit parameter of the constructors
    assert get_type_hints(arguments) == declared
    assert not arguments.__required_keys__


@pytest.mark.anyio
async def test_a_client_that_is_not_open_raises_an_error() -> None:
    with pytest.raises(RuntimeError, match="use it inside `async with Producer"):
        await Producer().send("t", b"")
    with pytest.raises(RuntimeError, match="use it inside `async with Consumer"):
        await Consumer().poll()
    with pytest.raises(RuntimeError, match="use it inside `async with Admin"):
        await Admin().list_topics()


OPTIONS = [AdminOptions, ProducerOptions, ConsumerOptions]


def test_each_option_is_declared_with_what_an_editor_and_the_site_show() -> None:
    assert ARGUMENTS.read_text() == arguments(), "run `make pages`"
    assert PAGE.read_text() == page(), "run `make pages`"
    for kind in OPTIONS:
        for one in fields(kind):
            meaning = one.metadata["meaning"]
            assert meaning[0].isupper() or meaning[0] in "\"`"
            assert meaning.endswith(".")
            assert f"| `{one.name}` |" in page()
            assert one.name == "bootstrap_servers" or f"    {one.name}: {one.type}\n    \"\"\"" in arguments()
            if one.name.endswith("_ms"):
                assert "in ms" in meaning or "in ms" in " ".join(meaning.split())
            if "bytes" in one.name or one.name in ("batch_size", "buffer_memory", "max_request_size"):
                assert "bytes" in meaning


NASTY: list[Any] = [
    None, True, -1, 0, 7, 1 << 63, 10**5000, 1.5, float("nan"), 1j, "", "x", "\ud800", "x" * 40_000, b"x",
    bytearray(b"x"), [], [5], ["x", 5], ["range", object], ("a:1", b"x"), {}, {"x": 1}, object(), object, iter("x"),
    range(2), re.compile("x"),
]  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONS)
def test_any_value_of_any_option_is_taken_or_refused_by_name(kind: type[ClientOptions]) -> None:
    for one in fields(kind):
        for value in NASTY:
            try:
                make(kind, {one.name: value}, "Client")
            except InvalidOption as error:
                text = str(error)
                assert text.startswith(f"Client({one.name}=") or "not allowed with" in text or "must be" in text
                assert len(text) < 2_000
    with pytest.raises(InvalidOption, match=r"client_id.*32767 bytes"):
        make(kind, {"client_id": "x" * 40_000}, "Client")
    with pytest.raises(InvalidOption, match=r"client_id.*lone surrogates"):
        make(kind, {"client_id": "\ud800"}, "Client")


def test_integers_of_other_libraries_and_subclasses_of_strings_are_taken() -> None:
    class Index:
        def __index__(self) -> int:
            return 7

    class Codec(StrEnum):
        ZSTD = "zstd"

    given = {"linger_ms": Index(), "compression_type": Codec.ZSTD, "acks": Level.ONE}
    options = make(ProducerOptions, given, "Producer")
    assert (options.linger_ms, type(options.linger_ms)) == (7, int)
    assert (options.compression_type, type(options.compression_type)) == ("zstd", str)
    assert options.required_acks == 1


class Level(IntEnum):
    ONE = 1


LEVELS = {
    "none": (range(-131_072, 23), "compression_level"),
    "gzip": ((-1, *range(1, 10)), r"those of gzip are \[1,...,9\] or -1"),
    "snappy": ((), "snappy has no levels"),
    "lz4": (range(1, 18), r"those of lz4 are \[1,...,17\]"),
    "zstd": (range(-131_072, 23), r"those of zstd are \[-131072,...,22\]"),
}


@pytest.mark.parametrize("codec", LEVELS)
def test_a_level_is_one_of_the_codec_as_in_kafka(codec: str) -> None:
    allowed, words = LEVELS[codec]
    for level in (-131_073, -131_072, *range(-3, 25)):
        if level in allowed:
            assert make(ProducerOptions, {"compression_type": codec, "compression_level": level}, "Producer")
        else:
            message = words if -131_072 <= level <= 22 else "compression_level"
            with pytest.raises(InvalidOption, match=message):
                make(ProducerOptions, {"compression_type": codec, "compression_level": level}, "Producer")
