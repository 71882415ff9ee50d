"""How long the quorum waits for what, and how much it sends at once."""

from dataclasses import dataclass

from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Times are in seconds, sizes in bytes.

    Attributes:
        election_timeout: controller.quorum.election.timeout.ms. An election is given this long to twice as long, at
            random, before the next is tried.
        fetch_timeout: controller.quorum.fetch.timeout.ms. A voter that got nothing from its leader for so long asks for
            an election; a leader that no majority has fetched from for so long resigns.
        retry_backoff: controller.quorum.retry.backoff.ms. The pause before something that failed is asked again.
        request_timeout: how long a Fetch may take beyond the time it may wait at the leader; then it is sent again.
        fetch_wait: how long a Fetch may wait at the leader for news.
        fetch_bytes_max: of records in one answer; a larger batch is sent nevertheless.
        snapshot_bytes_max: of a snapshot in one answer.
        snapshot_size_max: no larger snapshot is installed; it is collected in memory.
        observer_session: observers that have not fetched for so long are forgotten.
        observers_max: no more of them are served at the same time.
    """

    election_timeout: float
    fetch_timeout: float
    retry_backoff: float
    request_timeout: float
    fetch_wait: float
    fetch_bytes_max: int = setting_field(NODE_SETTINGS["controller.quorum.fetch.max.bytes"])
    snapshot_bytes_max: int = setting_field(NODE_SETTINGS["controller.quorum.fetch.snapshot.max.bytes"])
    snapshot_size_max: int = 1 << 30
    observer_session: float = 300.0
    observers_max: int = 1000

    def __post_init__(self) -> None:
        if min(self.election_timeout, self.fetch_timeout, self.retry_backoff, self.request_timeout) <= 0:
            raise ValueError("the quorum's timeouts must be greater than 0")
        if self.fetch_wait + self.retry_backoff >= self.fetch_timeout:
            raise ValueError("a fetch that waits for news must be over well within the fetch timeout")
