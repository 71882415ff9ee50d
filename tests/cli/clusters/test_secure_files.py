"""The files of `minikafka cluster --secure`."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest
from cryptography import x509

from minikafka.broker.apis.authorization import TOPIC_OPERATIONS
from minikafka.broker.settings.node_config import load_config
from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters import secure_files
from minikafka.cli.clusters.cluster_layout import ClusterError
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.cli.commands.cluster import secured_line
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import Acl
from minikafka.controller.metadata.acl import Acl as StoredAcl
from minikafka.controller.security.access import Principal
from minikafka.controller.security.decision_log import DecisionLog
from minikafka.controller.security.standard_authorizer import StandardAuthorizer
from minikafka.protocol.acl_codes import AclOperation, AclResourceType


def test_nodes_start_with_the_settings_and_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path / "new")
    assert not files.exist()
    assert files.admin_options() == {}
    cluster = LocalCluster(tmp_path / "new", brokers=1, settings=files.make())
    assert files.exist()
    assert cluster.warnings == []
    node = load_config(properties=read_properties(cluster.config(1).read_bytes()))
    assert [(one.name, one.protocol) for one in node.listeners.all] == [("SASL_SSL", "SASL_SSL"), ("CONTROLLER", "SSL")]
    assert [path.name for path in [files.folder, *files.folder.iterdir()] if path.stat().st_mode & 0o077] == []
    assert cluster.folder(1).stat().st_mode & 0o077 == 0


def test_each_cluster_has_passwords_and_an_authority_of_its_own(tmp_path: Path) -> None:
    made = [SecureFiles(tmp_path / name) for name in "ab"]
    for files in made:
        files.make()
    for name in ("authority.pem", "node.pem", "client.properties", "admin.properties"):
        assert len({(files.folder / name).read_text() for files in made}) == 2, name
    client, admin = (read_properties(path.read_bytes()) for path in (made[0].client, made[0].admin))
    assert client["sasl.jaas.config"].split('password="')[1] != admin["sasl.jaas.config"].split('password="')[1]


def test_the_certificate_is_for_this_machine_and_signed_by_the_authority(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path)
    files.make()
    node, authority = x509.load_pem_x509_certificates((files.folder / "node.pem").read_bytes())
    assert x509.load_pem_x509_certificate((files.folder / "authority.pem").read_bytes()) == authority
    node.verify_directly_issued_by(authority)
    names = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert {str(one) for one in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}
    assert not node.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


class AclAdmin:
    """An admin client that only keeps the ACLs that it is to create."""

    def __init__(self) -> None:
        self.acls: list[Acl] = []

    def upsert_user_scram_credential(self, user: str, password: str, *, mechanism: str) -> None:
        pass

    def create_acls(self, acls: list[Acl]) -> dict[Acl, None]:
        self.acls += acls
        return dict.fromkeys(acls)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_the_user_may_only_read_the_topics_of_the_cluster_whether_they_exist_or_not(tmp_path: Path, topic: str) -> None:
    files, admin = SecureFiles(tmp_path), AclAdmin()
    files.make()
    files.add_client(admin)  # type: ignore[arg-type]
    authorizer = StandardAuthorizer(
        frozenset(), open_without_acls=False, levels={"root": "OFF"}, log=DecisionLog(lambda: 0)
    )
    for acl in admin.acls:
        kind, pattern, operation, permission = acl.codes()
        authorizer.add(StoredAcl(kind, acl.name, pattern, acl.principal, acl.host, operation, permission))

    def may(operation: AclOperation, name: str) -> bool:
        user = Principal("User", "alice")
        return authorizer.allows(user, "127.0.0.1", operation, AclResourceType.TOPIC, name, log_denied=False)

    reading = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}
    assert {operation for operation in TOPIC_OPERATIONS if may(operation, topic)} == reading
    assert all(may(operation, "flights") for operation in TOPIC_OPERATIONS)


def test_a_cluster_without_security_does_not_become_a_secured_one(tmp_path: Path) -> None:
    LocalCluster(tmp_path, brokers=1)
    with pytest.raises(ClusterError, match="use a new directory for --secure"):
        SecureFiles(tmp_path).make()
    assert not SecureFiles(tmp_path).folder.exists()


def test_files_are_taken_back_but_nothing_else(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path / "new")
    files.make()
    files.take_back()
    assert not files.directory.exists()
    files.make()
    (files.directory / "notes.txt").touch()
    files.take_back()
    assert [path.name for path in files.directory.iterdir()] == ["notes.txt"]


def given_of(cluster: LocalCluster, node_id: int) -> dict[str, str]:
    return read_properties(cluster.config(node_id).read_bytes())


@pytest.mark.parametrize("copied", [False, True])
def test_a_directory_that_was_moved_or_copied_gets_its_new_paths_and_keeps_all_else(
    tmp_path: Path, *, copied: bool
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    elsewhere = tmp_path / "secure" / "node.pem"
    of_two = {2: {"ssl.keystore.location": str(elsewhere)}}
    settings = SecureFiles(old).make()
    elsewhere.parent.mkdir()
    elsewhere.write_bytes((old / "secure" / "node.pem").read_bytes())
    before = given_of(LocalCluster(old, brokers=2, settings=settings, node_settings=of_two), 1)
    passwords = [read_properties(path.read_bytes())["sasl.jaas.config"] for path in clients(SecureFiles(old))]
    if copied:
        shutil.copytree(old, new)
    else:
        old.rename(new)
    cluster, files = LocalCluster(new), SecureFiles(new)
    assert sum("new paths" in one for one in cluster.warnings) == 1
    for path, password in zip(clients(files), passwords, strict=True):
        given = read_properties(path.read_bytes())
        assert (given["ssl.truststore.location"], given["sasl.jaas.config"]) == (str(files.authority), password)
        assert path.stat().st_mode & 0o077 == 0
    after = given_of(cluster, 1)
    assert {name for name in before if before[name] != after[name]} == {
        "log.dirs", "ssl.keystore.location", "ssl.truststore.location",
    }  # fmt: skip
    assert given_of(cluster, 2)["ssl.keystore.location"] == str(elsewhere), "chosen by the user"
    assert not [path for path in new.rglob("*.properties") if f"{old}/" in path.read_text()]
    assert LocalCluster(new).warnings == [], "only once"


def clients(files: SecureFiles) -> tuple[Path, Path]:
    return files.client, files.admin


def test_a_broker_that_is_added_is_as_secure_as_the_others(tmp_path: Path) -> None:
    settings = SecureFiles(tmp_path).make()
    LocalCluster(tmp_path, brokers=1, settings=settings)
    second = given_of(LocalCluster(tmp_path, brokers=2, settings={"log.retention.ms": "1000"}), 2)
    assert {name: second.get(name) for name in settings} == settings
    assert second["listeners"].startswith("SASL_SSL://")
    load_config(properties=second)


def test_certificates_that_end_soon_are_replaced_with_their_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SecureFiles(tmp_path)
    monkeypatch.setattr(secure_files, "VALID_FOR", datetime.timedelta(days=29))
    files.make()
    before, passwords = files.authority.read_text(), files.client.read_text()
    monkeypatch.undo()
    assert files.renew()
    years = (files.valid_until - datetime.datetime.now(datetime.UTC)).days // 365
    assert years >= 9
    assert files.authority.read_text() != before
    assert files.client.read_text() == passwords
    node, authority = x509.load_pem_x509_certificates((files.folder / "node.pem").read_bytes())
    node.verify_directly_issued_by(authority)
    assert x509.load_pem_x509_certificate(files.authority.read_bytes()) == authority
    assert not files.renew(), "only once"
    assert [path.name for path in files.folder.iterdir() if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    ("bootstrap", "options"),
    [
        ("127.0.0.1:9092,127.0.0.1:9093", "--command-config c"),
        ("127.0.0.1:9192,127.0.0.1:9193", "-b 127.0.0.1:9192,127.0.0.1:9193 --command-config c"),
    ],
)
def test_all_that_clients_need_is_printed(bootstrap: str, options: str) -> None:
    said = secured_line(bootstrap, Path("c"), datetime.date(2036, 1, 2))
    assert said == f"secured: clients need {options}; certificates are valid until 2036-01-02"
