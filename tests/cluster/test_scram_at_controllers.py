"""A controller by itself whose listener has SASL over TLS: a broker logs in by SCRAM, as a user of the format."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.oracle import needs_oracle, run_tool
from support.scram_controller import MODULES, PREFIX, STORE, Apart
from support.tls import AUTHORITY

from minikafka.client.blocking import Admin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    made = Apart(tmp_path_factory.mktemp("apart"))
    with made.controller, made.broker:
        yield made


def test_a_broker_logs_in_as_a_user_of_the_format_again_and_again(apart: Apart) -> None:
    for number in range(2):
        with Admin(apart.broker.bootstrap) as admin:
            admin.create_topic(f"t{number}")
            assert {f"t{number}"} <= set(admin.list_topics())
        apart.broker.restart()
    assert "authentication failed" not in apart.controller.log_path.read_text()
    for node in (apart.controller, apart.broker):
        assert "among-us" not in node.log_path.read_text()


@pytest.mark.oracle
@needs_oracle
def test_the_certificate_of_a_controller_is_renewed_by_kafkas_tool_at_the_controller(apart: Apart) -> None:
    file = apart.folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={apart.folder}/authority.pem\n"
        f'sasl.jaas.config={MODULES}.plain.PlainLoginModule required username="admin" password="admin-secret";\n'
    )
    old, end = apart.serial_number(), time.monotonic() + 30
    AUTHORITY.issue("CN=server").write_pkcs12(apart.key_store)
    place = ("--bootstrap-controller", apart.address, "--command-config", file, "--entity-type", "brokers")
    changed = f"{PREFIX}.{STORE}={apart.key_store}"
    done = run_tool("configs", *place, "--entity-name", 1, "--alter", "--add-config", changed)
    assert done.returncode == 0, done.stderr
    while apart.serial_number() == old:
        assert time.monotonic() < end, apart.controller.log_tail()
        time.sleep(0.05)
