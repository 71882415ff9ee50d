"""The image of this checkout, and the cluster of docker-compose.yml. Skips where there is no engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import SET_UP, ComposeCluster, judges, why_no_engine

PROJECT, PORT = "minikafka-test", 29092


@pytest.fixture(scope="session")
def image() -> None:
    """The image of this checkout is built."""
    reason = why_no_engine()
    if reason:
        pytest.skip(reason)
    subprocess.run([sys.executable, str(SET_UP)], check=True)


@pytest.fixture(scope="module")
def cluster(image: None, request: pytest.FixtureRequest) -> Iterator[ComposeCluster]:
    """The three brokers, running, with empty volumes; the parameter says whether they are secured."""
    made = ComposeCluster(PROJECT, PORT, is_secured=getattr(request, "param", False))
    made.down(volumes=True)
    try:
        made.up()
        yield made
    finally:
        made.down(volumes=True)


@pytest.fixture(scope="session")
def judge(image: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with confluent-kafka for containers."""
    return judges(tmp_path_factory.mktemp("judge"))
