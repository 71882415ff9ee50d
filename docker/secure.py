"""Makes the files of the cluster of docker-compose.secure.yml, in the image. Files that exist are kept.

    python secure.py files HOST…      an authority, certificates, passwords, and the settings of the nodes
    python secure.py users ADDRESS    the user of client.properties, with ACLs, in the cluster that runs

All nodes mount the volume with the files; server.properties there is the settings file that the image reads. The files
of clients have the authority's certificate in them, so that they work on other machines.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from minikafka.broker.settings.container import MOUNTED_CONFIG
from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.cluster_layout import properties_text
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.client.blocking import Admin

LISTENERS = ("REPLICATION", "INTERNAL", "EXTERNAL")
"""Those of docker-compose.yml, the one of brokers first."""
LOCATION, CERTIFICATES = "ssl.truststore.location", "ssl.truststore.certificates"


def make(config: Path, hosts: list[str]) -> None:
    """Make the files, unless they exist. The group can read them: the nodes run as another user of group 0."""
    if config.exists():
        return
    files = SecureFiles(config.parent)
    shutil.rmtree(files.folder, ignore_errors=True)  # of an attempt that was cut off
    settings = files.make(listeners=LISTENERS, hosts=hosts)
    for path in (files.client, files.admin):
        given = read_properties(path.read_bytes())
        given[CERTIFICATES] = Path(given.pop(LOCATION)).read_text()
        path.write_text(properties_text(given))
    files.folder.chmod(0o750)
    for path in files.folder.iterdir():
        path.chmod(0o640)
    new = config.with_name("server.properties.new")
    new.touch(0o640)
    new.write_text(properties_text(settings))
    new.replace(config)


def add_user(config: Path, address: str) -> None:
    """Set the password of the user of client.properties, and give it its ACLs. Raises KafkaError."""
    files = SecureFiles(config.parent)
    with Admin(address, **files.admin_options()) as admin:
        files.add_client(admin)


def main() -> None:
    match sys.argv[1:]:
        case ["files", *hosts]:
            make(Path(MOUNTED_CONFIG), hosts)
        case ["users", address]:
            add_user(Path(MOUNTED_CONFIG), address)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
