"""Decides when a metadata snapshot is due. Pure."""

__all__ = ["SnapshotSchedule"]


class SnapshotSchedule:
    """Counts the bytes of the metadata log since the last snapshot, or since the last failed attempt.

    Args:
        bytes_between_snapshots: `metadata.log.max.record.bytes.between.snapshots`.
    """

    def __init__(self, bytes_between_snapshots: int) -> None:
        self._bytes_between_snapshots = bytes_between_snapshots
        self._bytes_at_failure = 0

    def is_due(self, bytes_since_snapshot: int) -> bool:
        """Whether to write a snapshot now. After a failed attempt, a snapshot is due once as many bytes again were
        appended."""
        return bytes_since_snapshot - self._bytes_at_failure >= self._bytes_between_snapshots

    def written(self) -> None:
        """Note that a snapshot was written."""
        self._bytes_at_failure = 0

    def failed(self, bytes_since_snapshot: int) -> None:
        """Note that a snapshot could not be written."""
        self._bytes_at_failure = bytes_since_snapshot
