"""The timeouts and size limits of Raft."""

from dataclasses import dataclass

from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Timeouts in seconds, sizes in bytes.

    Attributes:
        election_timeout: controller.quorum.election.timeout.ms. The next election starts after one to two times
            as long, at random.
        fetch_timeout: controller.quorum.fetch.timeout.ms. A voter without a response from its leader for this time
            starts a pre-vote; a leader from which no majority has fetched for this time resigns.
        retry_backoff: controller.quorum.retry.backoff.ms. The pause before a failed request is repeated.
        request_timeout: how long a Fetch may take in addition to `fetch_wait`; then it is repeated.
        fetch_wait: how long a Fetch may wait at the leader for new records.
        fetch_bytes_max: most bytes of records in one response; a larger first batch is sent nevertheless.
        snapshot_bytes_max: most bytes of a snapshot in one response.
        snapshot_size_max: the largest snapshot that is installed; it is collected in memory.
        observer_session: an observer without a Fetch for this time is removed.
        observers_max: most observers served at the same time.
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
            raise ValueError("fetch_wait and retry_backoff together must be below the fetch timeout")
