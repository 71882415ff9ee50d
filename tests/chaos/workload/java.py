"""Programs that use a cluster with Kafka's Java client, and record what they did. Each is a JVM, driven by a thread.

`Agent.java` does what its standard input says. So an operation is in the history before it can take effect, and its
result after that.
"""

from __future__ import annotations

import base64
import queue
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from support.logins import Login

from chaos.checks.counted import count_of
from chaos.history import (
    AbortTransaction,
    Action,
    BeginTransaction,
    CommitOffsets,
    CommitTransaction,
    Event,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    Recorder,
)
from chaos.workload.plan import COUNTING, JAVA_GROUP
from chaos.workload.threads import Program, ThreadedRun
from chaos.workload.transformers import OUTPUT
from chaos.workload.values import KEY_COUNT, name_in, name_of
from minikafka.protocol.names import TopicPartition

ANSWER_S = 120
ATTEMPTS_MAX = 5
OUTPUT_PARTITION = TopicPartition(OUTPUT, 0)
NOTHING_DONE = "Cannot execute transactional method because we are in an error state"
"""Kafka's client says so before it sends anything."""


class AgentEnded(Exception):
    """The client can do no more."""


class JavaRun(ThreadedRun):
    """The threads of one run. `command` runs `Agent.java`."""

    CLIENT = "java"
    ENDS_A_LIFE = (AgentEnded,)

    def __init__(
        self, command: Sequence[str], login: Login, recorder: Recorder, seed: str, topic: str, partitions: int
    ) -> None:
        super().__init__(login, recorder, seed, topic, partitions)
        self.command = list(command)
        self._folder = TemporaryDirectory()
        self.properties = login.write(Path(self._folder.name, "client.properties"))
        self.done = {"records": 0, "transactions": 0, "aborted": 0, "reads": 0, "offsets": 0, "transformed": 0}

    def programs(self) -> list[Program]:
        return [self.produce, self.transact, self.member, self.transform]

    def produce(self, name: str, process: str, chance: Random) -> None:
        """An idempotent producer."""
        with Agent(self, process, chance) as agent:
            while not self.stopping.wait(0.03):
                agent.send()
            agent.ask("flush")

    def transact(self, name: str, process: str, chance: Random) -> None:
        """A transactional producer, which is killed now and then. One transaction in six is aborted."""
        with Agent(self, process, chance, transactional_id=name) as agent:
            for _ in range(chance.randint(50, 300)):
                agent.begin()
                for _ in range(chance.choice((1, 2, 5, 10))):
                    agent.send()
                commits = chance.random() > 1 / 6
                if commits and agent.end("commit", CommitTransaction()):
                    self.done["transactions"] += 1
                elif agent.end("abort", AbortTransaction()):
                    self.done["aborted"] += 1
                if self.stopping.wait(chance.random() * 0.3):
                    break

    def member(self, name: str, process: str, chance: Random) -> None:
        """A member of a group, which commits what it has read. It ends without leaving the group."""
        with Agent(self, process, chance, group=JAVA_GROUP) as agent:
            for _ in range(chance.randint(100, 400)):
                agent.poll()
                if chance.random() < 0.3:
                    agent.commit_offsets()
                if self.stopping.wait(0.05):
                    break

    def transform(self, name: str, process: str, chance: Random) -> None:
        """Reads, processes and writes as `chaos.workload.transformers` does, in the same group."""
        with Agent(self, process, chance, transactional_id=name, group=COUNTING.name) as agent:
            for _ in range(chance.randint(50, 200)):
                reads = agent.poll()
                if reads and not self._count(agent, reads):
                    break
                if self.stopping.wait(0.05):
                    break

    def _count(self, agent: Agent, reads: Sequence[Read]) -> bool:
        """One transaction with an output for each record; whether it is committed. Raises AgentEnded."""
        agent.begin()
        for read in reads:
            agent.send(OUTPUT_PARTITION, count_of(read.partition, read.offset))
        if agent.commit_offsets() and agent.end("commit", CommitTransaction()):
            self.done["transformed"] += len(reads)
            return True
        agent.end("abort", AbortTransaction())
        return False


class Agent:
    """A JVM with a client. It is killed at the end of the block.

    Args:
        transactional_id: Of its producer. Without it the producer is idempotent.
        group: The group of its consumer, which has then no producer, unless there is a transactional id.

    Raises:
        AgentEnded: There is no producer id.
    """

    def __init__(
        self, run: JavaRun, process: str, chance: Random, *, transactional_id: str = "-", group: str = "-"
    ) -> None:
        self.run = run
        self.process = process
        self._chance = chance
        self._group = group
        self._transactional = transactional_id != "-"
        self._consuming = f"{process}.input" if self._transactional else process
        self._sent: dict[str, Event] = {}
        self._next: dict[TopicPartition, int] = {}
        self._answers: queue.Queue[str] = queue.Queue()
        words = [*run.command, str(run.properties), transactional_id, group, run.partitions[0].topic]
        self._jvm = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Agent:
        with ExitStack() as failing:
            failing.push(self)
            if self._transactional and self.answer() != "done":
                raise AgentEnded("no producer id")
            failing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._jvm.kill()
        self._jvm.wait()
        self._reader.join()

    def ask(self, line: str) -> str:
        """The answer to a line. Raises AgentEnded."""
        self._say(line)
        return self.answer()

    def answer(self) -> str:
        """The next answer. Raises AgentEnded if there is none within two minutes, or the JVM has ended."""
        try:
            answer = self._answers.get(timeout=ANSWER_S)
        except queue.Empty:
            raise AgentEnded("no answer") from None
        if not answer:
            raise AgentEnded("the JVM has ended")
        return answer

    # -- producing -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction. Raises AgentEnded."""
        answer = self.ask("begin")
        if answer != "done":
            raise AgentEnded(answer)
        self.run.note(self.process, BeginTransaction())

    def send(self, partition: TopicPartition | None = None, key: str | None = None) -> None:
        """Send a record, with any partition and key if none is given; its result is recorded when it comes."""
        number = str(len(self._sent) + 1)
        tp, value = partition or self._chance.choice(self.run.partitions), name_of(self.process, int(number))
        if partition is None and self._chance.random() < 0.5:
            key = f"key-{self._chance.randrange(KEY_COUNT)}"
        self._sent[number] = self.run.recorder.invoke(self.process, Produce(tp, key, value))
        self._say(f"send {number} {tp.topic} {tp.partition} {_encoded(key)} {value}")

    def end(self, how: str, action: Action) -> bool:
        """Commit or abort. False: the transaction must be aborted. Raises AgentEnded if the outcome is unknown."""
        invocation = self.run.recorder.invoke(self.process, action)
        for _ in range(ATTEMPTS_MAX):
            answer = self.ask(how)
            if answer == "done":
                self.run.recorder.complete(invocation, Outcome.OK)
                return True
            if NOTHING_DONE in answer:
                self.run.recorder.complete(invocation, Outcome.FAIL, info=answer)
                return False
            if not answer.startswith("error retry"):
                break
        self.run.recorder.complete(invocation, Outcome.UNKNOWN, info=answer)
        raise AgentEnded(answer)

    # -- consuming -------------------------------------------------------------------------------------------------

    def poll(self) -> tuple[Read, ...]:
        """The records of a poll; rebalances are recorded before the records that they allow. Raises AgentEnded."""
        invocation = self.run.recorder.invoke(self._consuming, Poll())
        answer = self._after_moves("poll")
        reads = tuple(_read_of(word) for word in answer.split(" ")[1:]) if answer.startswith("records") else ()
        self.run.recorder.complete(invocation, Outcome.OK, Poll(reads), info="" if reads else answer[:200])
        self.run.done["reads"] += len(reads)
        self._next |= {one.partition: one.offset + 1 for one in reads}
        if answer.startswith("error fatal"):
            raise AgentEnded(answer)
        return reads

    def commit_offsets(self) -> bool:
        """Commit what was read, in the transaction if there is one. False: perhaps it was not stored.

        Raises AgentEnded.
        """
        if not self._next:
            return True
        offsets, self._next = dict(self._next), {}
        invocation = self.run.recorder.invoke(self.process, CommitOffsets(self._group, tuple(offsets.items())))
        words = " ".join(f"{tp.topic}:{tp.partition}:{offset}" for tp, offset in offsets.items())
        answer = self._after_moves(f"store {words}")
        if answer == "done":
            self.run.recorder.complete(invocation, Outcome.OK)
            self.run.done["offsets"] += len(offsets)
        else:
            self.run.recorder.complete(invocation, Outcome.UNKNOWN, info=answer[:200])
        return answer == "done"

    def _after_moves(self, line: str) -> str:
        """The answer to a line, after those that tell of rebalances."""
        answer = self.ask(line)
        while answer.startswith("moved"):
            _, cause, *places = answer.split(" ")
            moved = [_partition_of(place) for place in places]
            for tp in moved:
                self._next.pop(tp, None)
            self.run.note(self._consuming, Position(tuple((tp, None) for tp in moved), cause))
            answer = self.answer()
        return answer

    # -- the JVM ---------------------------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        assert self._jvm.stdin is not None
        try:
            self._jvm.stdin.write(f"{line}\n")
            self._jvm.stdin.flush()
        except OSError as error:
            raise AgentEnded("the JVM has ended") from error

    def _read(self) -> None:
        """In a thread: records the results of records, and passes all other lines on."""
        assert self._jvm.stdout is not None
        for line in self._jvm.stdout:
            words = line.rstrip("\n").split(" ")
            if words[0] == "sent":
                self._acknowledged(self._sent[words[1]], int(words[2]))
            elif words[0] == "failed":
                info = " ".join(words[2:])
                self.run.recorder.complete(self._sent[words[1]], Outcome.UNKNOWN, info=info)
            else:
                self._answers.put(line.rstrip("\n"))
        self._answers.put("")

    def _acknowledged(self, invocation: Event, offset: int) -> None:
        sent = invocation.action
        assert isinstance(sent, Produce)
        known = Produce(sent.partition, sent.key, sent.value, offset if offset >= 0 else None)
        self.run.recorder.complete(invocation, Outcome.OK, known)
        self.run.done["records"] += 1


def _encoded(key: str | None) -> str:
    return "-" if key is None else base64.b64encode(key.encode()).decode()


def _partition_of(place: str) -> TopicPartition:
    topic, _, partition = place.rpartition(":")
    return TopicPartition(topic, int(partition))


def _read_of(word: str) -> Read:
    topic, partition, offset, key, value = word.split(":")
    named = name_in(b"" if value == "-" else base64.b64decode(value))
    read_key = None if key == "-" else base64.b64decode(key).decode()
    return Read(TopicPartition(topic, int(partition)), int(offset), read_key, named)
