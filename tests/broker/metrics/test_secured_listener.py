"""The metrics listener of real nodes with TLS and a login, as Prometheus, probes and strangers meet it."""

from __future__ import annotations

import base64
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.clients import eventually
from support.node import NodeProcess
from support.tls import AUTHORITY, client_of, write_stores

from minikafka.client.blocking import Admin

USER, PASSWORD = "scraper", "scraper-secret"
LOCATION = "listener.name.metrics.ssl.keystore.location"


class Scraped:
    """A node whose metrics listener has TLS and a login."""

    def __init__(self, node: NodeProcess, port: int, key_store: Path) -> None:
        self.node, self.port, self.key_store = node, port, key_store

    def get(self, path: str, password: str | None = None, context: ssl.SSLContext | None = None) -> tuple[int, str]:
        """The status and the text of a page."""
        request = urllib.request.Request(f"https://localhost:{self.port}{path}")
        if password is not None:
            request.add_header("Authorization", f"Basic {base64.b64encode(f'{USER}:{password}'.encode()).decode()}")
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context or client_of())
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def serial_number(self) -> int:
        raw = socket.create_connection(("127.0.0.1", self.port), 30)
        with client_of().wrap_socket(raw, server_hostname="localhost") as tls:
            certificate = tls.getpeercert()
            assert certificate is not None
            return int(str(certificate["serialNumber"]), 16)


@pytest.fixture(params=["broker,controller", "controller"])
def scraped(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scraped]:
    with socket.create_server(("127.0.0.1", 0)) as reserved, socket.create_server(("127.0.0.1", 0)) as other:
        port, controller = reserved.getsockname()[1], other.getsockname()[1]
    stores = {f"listener.name.metrics.{name}": value for name, value in write_stores(tmp_path).items()}
    settings: dict[str, object] = {
        "metrics.listener": f"https://127.0.0.1:{port}",
        "metrics.listener.username": USER,
        "metrics.listener.password": PASSWORD,
        **stores,
        **(alone(controller) if request.param == "controller" else {}),
    }
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        yield Scraped(node, port, Path(stores[LOCATION]))
    log = node.log_path.read_text()
    assert PASSWORD not in log


def alone(port: int) -> Mapping[str, object]:
    """The settings of a node that is the only controller."""
    return {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
    }


def test_prometheus_needs_the_login_and_probes_need_none(scraped: Scraped) -> None:
    status, page = scraped.get("/metrics", PASSWORD)
    assert (status, "minikafka_ready 1.0" in page) == (200, True)
    assert scraped.get("/metrics") == (
        401,
        "/metrics needs a login by HTTP basic authentication: no user and password\n",
    )
    assert scraped.get("/metrics", "wrong")[0] == 401
    assert scraped.get("/healthz") == (200, "ok\n")
    assert scraped.get("/readyz") == (200, "ready\n")


def test_a_client_that_speaks_no_tls_is_named_in_the_log(scraped: Scraped) -> None:
    with socket.create_connection(("127.0.0.1", scraped.port), 30) as raw:
        raw.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert raw.recv(100)[:1] == b"\x15", "an alert of TLS"
        assert raw.recv(100) == b""
    assert scraped.get("/healthz")[0] == 200
    assert "the client speaks no TLS, and the listener has it (client: https://)" in scraped.node.log_path.read_text()


@pytest.mark.parametrize("scraped", ["broker,controller"], indirect=True)
def test_certificates_are_renewed_by_setting_their_location_again(scraped: Scraped) -> None:
    old, new = scraped.serial_number(), AUTHORITY.issue("CN=server")
    new.write_pkcs12(scraped.key_store)
    assert scraped.serial_number() == old, "the file alone"
    with Admin(scraped.node.bootstrap) as admin:
        admin.alter_configs("broker", "1", set={LOCATION: str(scraped.key_store)})
    eventually(lambda: "certificates renewed" in scraped.node.log_path.read_text())
    assert scraped.serial_number() == new.certificate.serial_number
