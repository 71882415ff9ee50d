"""`Observer`: asks the coordinators for groups and committed offsets, again and again, and notes what is wrong."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from minikafka.client.blocking import Admin
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

PAUSE_S = 0.2


class Observer:
    """Looks at groups in a thread, until `stop`.

    Attributes:
        wrong: A partition that is with two members, an epoch that decreased while a member stayed, a committed offset
            that went back. A consumer group that was empty may have been a classic one meanwhile, and then begins with
            a low epoch again, as in Kafka.
        looks: How many descriptions there were.
    """

    def __init__(self, bootstrap: str, groups: Sequence[str]) -> None:
        self.wrong: list[str] = []
        self.looks = 0
        self._bootstrap, self._groups = bootstrap, groups
        self._epochs: dict[str, tuple[int, frozenset[str]]] = {}
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Raises what ended it before."""
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with Admin(self._bootstrap, request_timeout_ms=3_000) as admin:
                while not self._stopping.wait(PAUSE_S):
                    for group in self._groups:
                        self._look(admin, group)
        except BaseException as error:
            self._failure = error
            raise

    def _look(self, admin: Admin, group: str) -> None:
        try:
            described = admin.describe_group(group)
            committed = admin.list_group_offsets(group)
        except KafkaError:
            return
        self.looks += 1
        owned = Counter(tp for member in described.members for tp in member.assignment)
        self.wrong += [f"{group}: {tp} is with {count} members" for tp, count in owned.items() if count > 1]
        if described.group_type == "consumer":
            members = frozenset(member.member_id for member in described.members)
            epoch, before = self._epochs.get(group, (0, members))
            if described.epoch < epoch and members & before:
                self.wrong.append(f"{group}: epoch {described.epoch} after {epoch}, with {sorted(members & before)}")
            self._epochs[group] = described.epoch, members
        else:
            self._epochs.pop(group, None)
        for tp, one in committed.items():
            if one.offset < self._committed.get((group, tp), 0):
                self.wrong.append(f"{group}: {tp} back from {self._committed[group, tp]} to {one.offset}")
            self._committed[group, tp] = one.offset
