"""Settings of the quorum for tests: shorter timeouts than Kafka's defaults."""

from typing import Any

from minikafka.controller.raft.raft_settings import RaftSettings

TIMEOUTS_S = {
    "election_timeout": 0.4,
    "fetch_timeout": 0.8,
    "retry_backoff": 0.05,
    "request_timeout": 0.3,
    "fetch_wait": 0.3,
}


def raft_settings(**changes: Any) -> RaftSettings:
    """Settings with `TIMEOUTS_S`, in seconds, and with `changes`."""
    return RaftSettings(**{**TIMEOUTS_S, **changes})
