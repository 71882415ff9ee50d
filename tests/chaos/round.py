"""`Round`: one run of the workload on a real cluster under faults, from its seed to its judgement.

    found = Round(cluster, "a title", "seed", folder, minutes=1).run()
    assert found.anomalies == []

It leaves `history.jsonl`, `journal.jsonl` and `report.html` in the folder, also if it fails.
"""

from __future__ import annotations

import contextlib
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import trio
from support.logins import Login, Logins

from chaos.answered_as_duplicate import answered_as_duplicate
from chaos.checker import Anomaly, check
from chaos.history import Event, write_lines
from chaos.journal import Journal, write_journal
from chaos.nemesis import Cluster, Nemesis
from chaos.observer import observe
from chaos.report.page import report_page
from chaos.report.run_facts import RunFacts
from chaos.workload.confluent import ConfluentRun
from chaos.workload.java import JavaRun
from chaos.workload.plan import FOREIGN
from chaos.workload.run import Run
from chaos.workload.threads import ThreadedRun
from chaos.written_anew import written_anew

FAULTS_MAX = 10_000
TOPIC, PARTITIONS = "steady", 3
CALM_S = 2.0


class RealCluster(Cluster, Protocol):
    """A cluster of processes or containers."""

    @property
    def bootstrap(self) -> str: ...
    def address(self, node_id: int) -> str: ...
    def heal(self) -> None: ...


@dataclass(slots=True)
class Found:
    """What a round has found: the history, its anomalies, and how often each thing was done.

    Attributes:
        written_anew: Duplicates that librdkafka wrote itself (`chaos.written_anew`), which are not among the anomalies.
        answered_as_duplicate: What librdkafka lost itself (`chaos.answered_as_duplicate`), not among the anomalies.
    """

    events: list[Event] = field(default_factory=list[Event])
    anomalies: list[Anomaly] = field(default_factory=list[Anomaly])
    written_anew: list[Anomaly] = field(default_factory=list[Anomaly])
    answered_as_duplicate: list[Anomaly] = field(default_factory=list[Anomaly])
    faults: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])


class Round:
    """See above.

    Args:
        folder: For the files.
        minutes: The time in which faults begin.
        pause_s: The longest pause between two faults.
        pace_s: The mean pause of a client of ours between two operations.
        waits: The factor of the duration of faults.
        logins: The users of a cluster with security.
        java: The command that runs `workload/Agent.java`; empty for no Java client.
        check_running: Raises AssertionError if a node has ended by itself; called after each fault.
    """

    def __init__(
        self,
        cluster: RealCluster,
        title: str,
        seed: str,
        folder: Path,
        *,
        minutes: float,
        pause_s: float = 8.0,
        pace_s: float = 0.3,
        waits: float = 1.0,
        logins: Logins | None = None,
        java: Sequence[str] = (),
        check_running: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster = cluster
        self.title = title
        self.seed = seed
        self.folder = folder
        self.minutes = minutes
        self.pause_s = pause_s
        self.found = Found()
        self.journal = Journal(time.monotonic_ns)
        self.logins = logins or Logins.open(cluster.bootstrap)
        self.programs = Run(self.logins, len(cluster.node_ids), seed, pace_s=pace_s)
        self.programs.plan.committed_offsets_are_fresh = False  # an isolated coordinator does not know later commits
        self._nemesis = Nemesis(cluster, random.Random(seed), self.journal, waits)
        self._java = java
        self._check_running = check_running

    def run(self) -> Found:
        """Run everything, and judge it. Raises what ended it early: an error of a program, or NoProgress."""
        try:
            self.found.events = trio.run(self._observed)
            self._judge()
        except BaseException as error:
            self._write("".join(traceback.format_exception(error)))
            raise
        self._write()
        return self.found

    def _judge(self) -> None:
        compacted = self.programs.plan.compacted
        anomalies = check(self.found.events, compacted=compacted, keeping=compacted)
        anew = self.found.written_anew = written_anew(anomalies, self._brokers)
        lost = self.found.answered_as_duplicate = answered_as_duplicate(anomalies, self.found.events, self._brokers)
        self.found.anomalies = [one for one in anomalies if one not in anew and one not in lost]
        if anew:
            self.found.done["written twice by librdkafka, with a new producer epoch"] = len(anew)
        if lost:
            self.found.done["anomalies of sequence numbers that librdkafka used again"] = len(lost)

    @property
    def _brokers(self) -> list[Login]:
        """An administrator's login at each broker."""
        return [self.logins.admin.at(self.cluster.address(node_id)) for node_id in self.cluster.node_ids]

    async def _observed(self) -> list[Event]:
        async with trio.open_nursery() as observing:
            observing.start_soon(observe, self.journal, self._brokers, list(self.programs.plan.topics))
            events = await self.programs.run(self._faults, ended=FOREIGN)
            observing.cancel_scope.cancel()
        return events

    async def _faults(self) -> None:
        usual = (self.logins.load, self.programs.recorder, self.seed, TOPIC, PARTITIONS)
        runs: dict[str, ThreadedRun] = {"confluent-kafka": ConfluentRun(*usual)}
        if self._java:
            runs["Java"] = JavaRun(self._java, *usual)
        await trio.to_thread.run_sync(self._inject_beside, list(runs.values()))
        for client, run in runs.items():
            self.found.done.update({f"{client}: {what}": count for what, count in run.done.items()})

    def _inject_beside(self, runs: Sequence[ThreadedRun]) -> None:
        """In a thread: our own clients go on while the end of these programs is waited for."""
        with contextlib.ExitStack() as running:
            for run in runs:
                running.enter_context(run.running())
            self._inject()

    def _inject(self) -> None:
        """Faults for the time of the run, with pauses, calm before and after; then the cluster is whole."""
        time.sleep(CALM_S)
        until = time.monotonic() + 60 * self.minutes
        for number, fault in enumerate(self._nemesis.faults(FAULTS_MAX)):
            if time.monotonic() > until:
                break
            began = time.monotonic()
            self._nemesis.do(fault)
            self.found.faults[fault.__name__] += 1
            print(f"{number}: {fault.__name__}, {time.monotonic() - began:.1f} s", flush=True)
            self._check_running()
            self._nemesis.wait(self.pause_s)
        self.cluster.heal()
        time.sleep(CALM_S)

    def _write(self, ended_early: str = "") -> None:
        events, entries = self.programs.recorder.events, self.journal.entries
        facts = RunFacts(
            self.title,
            self.seed,
            self.cluster.node_ids,
            events,
            entries,
            self.found.anomalies,
            self.cluster.cannot,
            self.found.done,
            ended_early,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "history.jsonl").write_text("".join(f"{line}\n" for line in write_lines(events)))
        (self.folder / "journal.jsonl").write_text("".join(f"{line}\n" for line in write_journal(entries)))
        (self.folder / "report.html").write_text(report_page(facts))
        print(f"the report: {self.folder / 'report.html'}")
