"""kcat writes, reads alone and in a group, and shows topics by logins over SASL_SSL, and by a certificate.

librdkafka before 2.6.1, as in the kcat of Debian 12, repeats its nonce in the last message of SCRAM (librdkafka 4895).
Kafka since 4.0 refuses that. Debian's kcat also asks no provider of tokens.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from support.guarded_nodes import WAYS, GuardedNode
from support.oracle import KAFKA_ITSELF, needs_oracle

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
    pytest.mark.parametrize("node_kind", ["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])]),
]
PATIENCE_S = 60


REPAIRED = (2, 6, 1)
"""The version of librdkafka whose SCRAM is right."""


class Kcat:
    """kcat with the settings of a file."""

    def __init__(self, file: Path, settings: dict[str, str]) -> None:
        self._file = file
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = ["kcat", "-F", str(self._file), *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def ran(self, *words: str, stdin: str = "") -> str:
        """What kcat prints, which must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@cache
def is_repaired() -> bool:
    """Whether kcat has a librdkafka whose SCRAM is right."""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
    assert version is not None, said
    return tuple(map(int, version.groups())) >= REPAIRED


@pytest.mark.parametrize("way", [way for way in WAYS if way != "OAUTHBEARER"])
def test_records_groups_and_topics(guarded: GuardedNode, own_name: str, way: str, tmp_path: Path) -> None:
    with guarded.admin() as admin:
        admin.create_topic(own_name, partitions=1, replication_factor=1)
    settings = {**guarded.options_of("confluent-kafka", way), "bootstrap.servers": guarded.address_of(way)}
    del settings["group.id"]
    kcat = Kcat(tmp_path / "kcat.conf", settings)
    if way.startswith("SCRAM") and not is_repaired():
        refused = kcat.run("-L")
        assert refused.returncode == 1
        assert f"due to invalid credentials with SASL mechanism {way}" in refused.stderr
        return
    kcat.ran("-P", "-t", own_name, "-K", ":", stdin="k:a\nk:b\n")
    assert kcat.ran("-C", "-t", own_name, "-o", "beginning", "-e", "-q", "-f", "%k=%s ") == "k=a k=b "
    assert kcat.ran("-G", own_name, "-o", "beginning", "-c", "2", "-q", own_name) == "a\nb\n"
    assert f'topic "{own_name}" with 1 partitions' in kcat.ran("-L")
