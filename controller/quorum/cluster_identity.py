"""`ClusterIdentity`: the cluster id of this node, known from its directories, the other nodes or the metadata log."""

from collections.abc import Sequence

import structlog

from minikafka.controller.metadata.records import ClusterRecord, Record
from minikafka.storage.directories.directory_identity import WrongDirectory

__all__ = ["ClusterIdentity"]

log = structlog.get_logger("minikafka.controller")


class ClusterIdentity:
    """The cluster that this node belongs to.

    Attributes:
        id: the cluster id; None until the first leader has generated it and this node has learned it.
    """

    def __init__(self, known: str | None) -> None:
        self.id = known

    def learn(self, cluster_id: str) -> None:
        """Take over the cluster id that another node has told."""
        log.info("cluster id learned", cluster_id=cluster_id)
        self.id = cluster_id

    async def check_records(self, records: Sequence[Record]) -> None:
        """Call `check` for each cluster id in committed records of the metadata log."""
        for named in _named(records):
            self.check(named)

    def check(self, named: str) -> None:
        """Check and take over the cluster id that the metadata log names.

        Raises:
            WrongDirectory: the data directories belong to another cluster.
        """
        self._refuse_other(named)
        self.id = named

    def refuse_others(self, records: Sequence[Record]) -> None:
        """As `check_records`, but take over nothing: the records may not be committed."""
        for named in _named(records):
            self._refuse_other(named)

    def _refuse_other(self, named: str) -> None:
        if self.id not in (None, named):
            raise WrongDirectory(
                f"the data directories belong to cluster {self.id}, the metadata log to "
                f"{named}: set other log.dirs or metadata.log.dir"
            )


def _named(records: Sequence[Record]) -> list[str]:
    return [record.cluster_id for record in records if isinstance(record, ClusterRecord)]
