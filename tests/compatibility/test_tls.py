"""Clients of others over TLS: with and without certificates of their own, and what the server knows of them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.certificates import PASSWORD, Authority, Issued
from support.node import NodeProcess
from support.oracle import needs_oracle, run_tool

CAROL = "CN=carol,OU=hr,O=acme"
COUNT = 200


class Secured:
    """A node whose only listener has TLS and requests certificates, and the files of its clients."""

    def __init__(self, node: NodeProcess, folder: Path, carol: Issued) -> None:
        self.node, self.folder, self.carol = node, folder, carol
        self.authority = folder / "authority.pem"

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    def principals(self, client_id: str) -> set[str]:
        """The principals of a client id in the node's log of requests."""
        lines = [line for line in self.log().splitlines() if f'"client": "{client_id}"' in line]
        return {line.split('"principal": "')[1].split('"')[0] for line in lines if '"principal": "' in line}

    def log(self) -> str:
        return self.node.log_path.read_text()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    server, carol = authority.issue("CN=server"), authority.issue(CAROL)
    server.write_authority_pem(folder / "authority.pem")
    carol.write_pkcs12(folder / "carol.p12")
    carol.write_pem(folder / "carol.pem")
    (folder / "carol.key").write_text(carol.key_pem())
    (folder / "carol.crt").write_text(carol.chain_pem)
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": server.write_pkcs12(folder / "server.p12"),
        "ssl.keystore.password": PASSWORD,
        "listener.name.ssl.ssl.truststore.type": "PEM",
        "listener.name.ssl.ssl.truststore.location": folder / "authority.pem",
        "listener.name.ssl.ssl.client.auth": "requested",
    }
    with NodeProcess(folder / "data", settings=settings, arguments=("--log-level", "debug")) as node:
        yield Secured(node, folder, carol)


def by_confluent(secured: Secured, topic: str, *, with_certificate: bool) -> int:
    from confluent_kafka import Consumer, Producer

    common = {
        "bootstrap.servers": secured.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority),
        "client.id": topic,
    }
    if with_certificate:
        common["ssl.certificate.location"] = str(secured.folder / "carol.crt")
        common["ssl.key.location"] = str(secured.folder / "carol.key")
    producer = Producer(common)
    for number in range(COUNT):
        producer.produce(topic, str(number).encode() * 100)
    assert producer.flush(60) == 0
    consumer = Consumer(common | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return len(consumer.consume(COUNT, 60))
    finally:
        consumer.close()


def by_kafka_python(secured: Secured, topic: str, *, with_certificate: bool) -> int:
    from kafka import KafkaConsumer, KafkaProducer

    common: dict[str, object] = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.authority),
        "client_id": topic,
    }
    if with_certificate:
        common["ssl_certfile"], common["ssl_keyfile"] = secured.folder / "carol.crt", secured.folder / "carol.key"
    producer = KafkaProducer(**common)
    for number in range(COUNT):
        producer.send(topic, str(number).encode() * 100)
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **common)
    found = 0
    for _ in consumer:
        found += 1
        if found == COUNT:
            break
    consumer.close()
    return found


def by_aiokafka(secured: Secured, topic: str, *, with_certificate: bool) -> int:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    context = ssl.create_default_context(cafile=str(secured.authority))
    if with_certificate:
        context.load_cert_chain(secured.folder / "carol.crt", secured.folder / "carol.key")
    common = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": context,
        "client_id": topic,
    }

    async def main() -> int:
        producer = AIOKafkaProducer(**common)
        await producer.start()
        for number in range(COUNT):
            await producer.send(topic, str(number).encode() * 100)
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common)
        await consumer.start()
        found = 0
        while found < COUNT:
            found += len(await asyncio.wait_for(anext(consumer), 60) and [1])
        await consumer.stop()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("with_certificate", [False, True], ids=["ANONYMOUS", "carol"])
@pytest.mark.parametrize("client", [by_confluent, by_kafka_python, by_aiokafka])
def test_records_pass(secured: Secured, client: Callable[..., int], with_certificate: bool) -> None:
    topic = f"{client.__name__}-{with_certificate}"
    assert client(secured, topic, with_certificate=with_certificate) == COUNT
    assert secured.principals(topic) == {f"User:{CAROL}" if with_certificate else "User:ANONYMOUS"}


def test_a_client_that_does_not_know_the_authority_is_told_in_time_and_named_in_the_log(secured: Secured) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": secured.bootstrap, "security.protocol": "SSL", "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    expected = "the client does not know the authority of this node's certificate"
    assert expected in secured.log()


def test_a_client_without_tls_is_named_in_the_log(secured: Secured) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": secured.bootstrap, "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    assert "(client: security.protocol=SSL)" in secured.log()


FORMS = {
    "PKCS12": "ssl.keystore.location={folder}/carol.p12\nssl.keystore.password=store-secret\n",
    "PEM": "ssl.keystore.type=PEM\nssl.keystore.location={folder}/carol.pem\n",
    "no": "",
}


@pytest.mark.oracle
@pytest.mark.slow
@needs_oracle
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", FORMS)
def test_kafkas_tools_connect_with_a_key_store(secured: Secured, tmp_path: Path, form: str) -> None:
    config = tmp_path / "client.properties"
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={secured.authority}\n"
    topic = f"tools-{form}"
    config.write_text(
        f"security.protocol=SSL\nclient.id={topic}\n" + trust + FORMS[form].format(folder=secured.folder)
    )
    place = ("--bootstrap-server", secured.bootstrap, "--command-config", config)
    assert run_tool("topics", *place, "--create", "--topic", topic).returncode == 0
    produced = run_tool("console-producer", *place, "--topic", topic, stdin="a\nb\nc\n")
    assert produced.returncode == 0, produced.stderr
    options = ("--from-beginning", "--max-messages", 3, "--timeout-ms", 60_000)
    consumed = run_tool("console-consumer", *place, "--topic", topic, *options)
    assert consumed.stdout.split() == ["a", "b", "c"], consumed.stderr
    assert secured.principals(topic) == {f"User:{CAROL}" if form != "no" else "User:ANONYMOUS"}


@pytest.mark.oracle
@pytest.mark.slow
@needs_oracle
@pytest.mark.timeout(300)
def test_kafkas_tools_say_that_they_do_not_know_the_authority(secured: Secured, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    began = time.monotonic()
    done = run_tool("topics", "--bootstrap-server", secured.bootstrap, "--command-config", config, "--list")
    assert done.returncode != 0
    assert "SSL handshake failed" in done.stdout + done.stderr
    assert time.monotonic() - began < 30, "not at the first try"
