"""The connector reaches secured brokers with the options of Spark's own, and secrets stay in its processes."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from support.secured_nodes import (
    PASSWORD,
    SCRAM_PASSWORD,
    SCRAM_USER,
    Certificates,
    SecuredNode,
    jaas_of_oauth,
    jaas_of_plain,
    jaas_of_scram,
    secured_kafka,
)

from minikafka.protocol.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import KafkaOptions, parse

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]
SECRET = "not-the-password"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as node:
        yield node


def options(node: SecuredNode, listener: str, **more: str) -> dict[str, str]:
    """The options that reach a listener, with files in the node's folder."""
    trusted = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "ca.pem"}
    protocol = node.protocol(listener)
    given = {
        "kafka.bootstrap.servers": node.address(listener),
        "kafka.security.protocol": protocol,
        **(trusted if protocol.endswith("SSL") else {}),
        **{f"kafka.{name.replace('_', '.')}": value for name, value in more.items()},
    }
    return {
        name: str(node.files.folder / value) if name.endswith(".location") else value
        for name, value in given.items()
        if value
    }


def kafka_options(node: SecuredNode, listener: str, **more: str) -> KafkaOptions:
    return parse({**options(node, listener, **more), "subscribe": "x"}).kafka


SCRAM = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": jaas_of_scram()}
WAYS: list[tuple[str, dict[str, str]]] = [
    ("TLS", {}),
    ("MUTUAL", {"ssl_keystore_location": "client.pem", "ssl_keystore_type": "PEM"}),
    ("STRANGE", {"ssl_endpoint_identification_algorithm": "none", "ssl_enabled_protocols": "TLSv1.2,TLSv1.3"}),
    ("LOGIN", {"sasl_mechanism": "PLAIN", "sasl_jaas_config": jaas_of_plain()}),
    ("LOGIN", {"sasl_jaas_config": jaas_of_oauth()}),
    ("BOTH", SCRAM),
]


@pytest.mark.parametrize("way", range(len(WAYS)), ids=lambda way: WAYS[way][0])
def test_a_reader_reaches_each_listener(secured: SecuredNode, way: int) -> None:
    listener, given = WAYS[way]
    reader = OffsetReader(kafka_options(secured, listener, **given))
    try:
        reader.refresh(())
        assert [f"{broker.host}:{broker.port}" for broker in reader.metadata.brokers.values()]
    finally:
        reader.close()


ERRORS: list[tuple[str, dict[str, str], type[AuthenticationError], str]] = [
    ("TLS", {"ssl_truststore_location": "stranger-ca.pem"}, SslAuthenticationError, "not trusted: .*truststore"),
    ("STRANGE", {}, SslAuthenticationError, "not valid for '127.0.0.1'"),
    ("MUTUAL", {}, SslAuthenticationError, "refused the TLS handshake: .*keystore"),
    ("MUTUAL", {"ssl_enabled_protocols": "TLSv1.2"}, SslAuthenticationError, "refused the TLS handshake: .*keystore"),
    ("TLS", {"security_protocol": "PLAINTEXT", "ssl_truststore_type": "", "ssl_truststore_location": ""},
     SslAuthenticationError, r"127.0.0.1:\d+ answers with TLS: security.protocol must be SSL or SASL_SSL"),
    ("PLAINTEXT", {"security_protocol": "SSL"}, SslAuthenticationError, "speaks plain text, no TLS"),
    ("LOGIN", {"security_protocol": "PLAINTEXT"}, IllegalSaslStateError,
     r"127.0.0.1:\d+ expects a login by SASL .*PLAIN.*: security.protocol must be SASL_PLAINTEXT"),
    ("BOTH", {"security_protocol": "SSL"}, IllegalSaslStateError, "by SASL .*: security.protocol must be SASL_SSL"),
    ("LOGIN", {"sasl_jaas_config": jaas_of_plain(SECRET)}, SaslAuthenticationFailedError, "Invalid username or passw"),
    ("BOTH", {**SCRAM, "sasl_jaas_config": jaas_of_scram(SECRET)}, SaslAuthenticationFailedError, "SCRAM-SHA-512 for"),
    ("BOTH", {"sasl_jaas_config": jaas_of_oauth()}, UnsupportedSaslMechanismError, "not enable OAUTHBEARER .*PLAIN"),
    ("PLAINTEXT", {"security_protocol": "SASL_PLAINTEXT", "sasl_jaas_config": jaas_of_plain()}, IllegalSaslStateError,
     "takes no login by SASL"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_name_the_cause_at_the_first_attempt(
    secured: SecuredNode, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, given, kind, message = ERRORS[case]
    connected, attempts = sockets._connected, list[int]()

    def counted(host: str, port: int, timeout_s: float) -> Any:
        attempts.append(port)
        return connected(host, port, timeout_s)

    monkeypatch.setattr(sockets, "_connected", counted)
    with pytest.raises(kind, match=message) as refused:
        OffsetReader(kafka_options(secured, listener, **given)).refresh(())
    assert SECRET not in repr(refused.value)
    assert len(attempts) == (2 if "speaks plain" in message or "by SASL ." in message else 1)  # the other one asks


@pytest.mark.spark
@pytest.mark.slow
def test_records_pass_and_secrets_are_in_no_plan_log_or_checkpoint(
    spark: Any, secured: SecuredNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    given = options(secured, "BOTH", **SCRAM)
    frame = spark.createDataFrame([(b"k", b"v1"), (b"k", b"v2")], "key binary, value binary")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        frame.write.format("minikafka").mode("append").options(**given, topic="secured").save()
        read = spark.read.format("minikafka").options(**given, subscribe="secured").load()
        assert sorted(bytes(row.value) for row in read.collect()) == [b"v1", b"v2"]
        read.explain(extended=True)
        stream = spark.readStream.format("minikafka").options(**given, subscribe="secured", startingOffsets="earliest")
        query = (
            stream.load()
            .writeStream.format("minikafka")
            .options(**given, topic="secured-copy")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        query.explain(extended=True)
        plan = str(query.lastProgress) + read._jdf.queryExecution().toString()
        copies = spark.read.format("minikafka").options(**given, subscribe="secured-copy").load()
        assert copies.count() == 2
    written = b"".join(path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file())
    assert b"secured" in written
    assert SCRAM_USER not in written.decode(errors="replace")
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith("py4j")]  # what it sends
    for text in (said.getvalue(), plan, written.decode(errors="replace"), "\n".join(logged)):
        assert SCRAM_PASSWORD not in text
    wrong = {**given, "kafka.sasl.jaas.config": jaas_of_scram(SECRET)}
    with pytest.raises(Exception, match="refused SCRAM-SHA-512 for user") as refused:
        spark.read.format("minikafka").options(**wrong, subscribe="secured").load().collect()
    assert SECRET not in str(refused.value)


def test_options_show_no_secrets(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    files.write()
    kafka = kafka_options(SecuredNode(1, files), "BOTH", **SCRAM)
    assert SCRAM_PASSWORD not in repr(kafka)
    assert PASSWORD not in repr(kafka.security.connection_security())
