"""`KafkaCluster`: a Kafka cluster that a test owns, with its contents, its failures and its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from minikafka.testing.client_settings import client_settings
from minikafka.testing.contents import Contents, until
from minikafka.testing.control.http_client import Control, ControlClient, TestingError
from minikafka.testing.fault_handle import FaultHandle
from minikafka.testing.request import Request
from minikafka.testing.server_process import ServerProcess

if TYPE_CHECKING:
    from minikafka.client import ConsumerRecord

__all__ = ["ClockHandle", "KafkaCluster"]

TIMEOUT_S = 10.0


class ClockHandle:
    """The time of the nodes. What clients do by their own clocks they do by their own."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def advance(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move all nodes forward at once: what is due by then happens now. Raises ValueError."""
        self._control.post("/clock/advance", hours=hours, minutes=minutes, seconds=seconds)

    def freeze(self) -> None:
        """Stop the time of all nodes, until `run` or a reset. What waits for a time to pass waits."""
        self._control.post("/clock/freeze")

    def run(self, speed: float = 1.0) -> None:
        """Let the time of all nodes pass `speed` times as fast. Raises ValueError."""
        self._control.post("/clock/run", speed=speed)


class KafkaCluster:
    """A cluster of minikafka for tests: its nodes run in another process, with their data in memory.

        with KafkaCluster(brokers=3) as kafka:
            kafka.create_topic("orders", partitions=3)
            service = Service(bootstrap_servers=kafka.bootstrap_servers)
            with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2):
                service.order("tea")
            assert kafka.records("orders", wait_for=1)[0].value == b"tea"

    All methods block; in an event loop they hold it up for some milliseconds. `async with` starts and ends the cluster
    in a thread.

    Args:
        brokers: How many nodes, 1 to 9; each is a broker and a controller.
        settings: Settings of all nodes, by Kafka's names.
        embedded: Run the nodes in threads of this process, so that a debugger reaches them, and they start within some
            hundredths of a second once they are imported. They share the interpreter with the test.
        log_level: The lowest level of events in the log of the nodes: debug, info, warn or error.

    Attributes:
        clock: The time of the nodes.
        bootstrap_servers: The addresses of the brokers, with commas. A reset may change them.

    Raises:
        ValueError: An argument is not what it may be.
        TestingError: The cluster has not started, or does not do what it is asked for.
    """

    clock: ClockHandle

    def __init__(
        self,
        brokers: int = 1,
        *,
        settings: Mapping[str, object] | None = None,
        embedded: bool = False,
        log_level: str = "warn",
    ) -> None:
        if isinstance(brokers, bool) or not isinstance(brokers, int) or not 1 <= brokers <= 9:
            raise ValueError(f"brokers must be 1 to 9, not {brokers!r}")
        self._brokers = brokers
        self._settings = {name: str(value) for name, value in (settings or {}).items()}
        self._log_level = log_level
        self._embedded = embedded
        self._process: ServerProcess | None = None
        self._control_client: Control | None = None
        self._contents = Contents(lambda: self.bootstrap_servers)
        self._servers = ""

    # -- life ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._embedded:
            from minikafka.testing.control.local_control import LocalControl

            local = LocalControl(self._brokers, self._settings, self._log_level)
            self._control_client, self._servers = local, local.bootstrap_servers
        else:
            self._process = ServerProcess(self._brokers, self._settings, self._log_level)
            self._control_client = ControlClient(self._process.control_address)
            self._servers = self._process.bootstrap_servers
        self.clock = ClockHandle(self._control_client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._contents.close()
        if self._control_client is not None:
            self._control_client.close()
        if self._process is not None:
            self._process.stop()
        self._process = self._control_client = None

    async def __aenter__(self) -> Self:
        from anyio.to_thread import run_sync

        return await run_sync(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from anyio import CancelScope
        from anyio.to_thread import run_sync

        with CancelScope(shield=True):
            await run_sync(self.__exit__, kind, error, trace)

    def reset(self, *, brokers: int | None = None, settings: Mapping[str, object] | None = None) -> list[str]:
        """Replace all nodes by empty ones: topics, groups, faults, requests and changes of the clock are gone.

        Args:
            brokers: How many nodes there are until the next reset; None for those of the constructor.
            settings: Further settings until the next reset, by Kafka's names.

        Returns:
            The clients that were still connected, in words. They are disconnected and cannot come back: the brokers
            have other ports then, and also if there were faults, after which clients may be about to connect again.
        """
        self._contents.close()
        texts = None if settings is None else {name: str(value) for name, value in settings.items()}
        answer = self._control.post("/reset", brokers=brokers, settings=texts)
        self._servers = answer["bootstrap_servers"]
        left: dict[str, list[str]] = {}
        for client in answer["disconnected"]:
            left.setdefault(client["client_id"], []).append(client["address"])
        return [f"{name or 'without a client id'} ({', '.join(found)})" for name, found in sorted(left.items())]

    @property
    def bootstrap_servers(self) -> str:
        self._control  # noqa: B018 (raises if the cluster does not run)
        return self._servers

    @property
    def control_address(self) -> str:
        """`HOST:PORT` of the control server, for programs in other languages; an embedded cluster has none."""
        if self._embedded:
            raise TestingError("an embedded cluster has no control server")
        if self._process is None:
            raise TestingError("the cluster does not run: use it in `with KafkaCluster() as kafka:`")
        return self._process.control_address

    @property
    def log(self) -> str:
        """The end of the log of the nodes; "" for an embedded cluster, whose log is where structlog writes to."""
        return "" if self._process is None else self._process.log_tail()

    @property
    def _control(self) -> Control:
        if self._control_client is None:
            raise TestingError("the cluster does not run: use it in `with KafkaCluster() as kafka:`")
        return self._control_client

    def client_config(self, client: str) -> dict[str, Any]:
        """Settings, by its own names, with which a client is quick in tests, and patient with faults.

        Args:
            client: `confluent`, `aiokafka`, `kafka-python`, `java`, `minikafka` or `spark`.

        Raises ValueError for another client.
        """
        return client_settings(client, self.bootstrap_servers)

    # -- contents ------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; -1 replicas are three, or as many as there are nodes. Raises KafkaError."""
        self._contents.create_topic(name, partitions, replication_factor, config)

    def produce(self, topic: str, records: Iterable[Any], *, partition: int | None = None) -> None:
        """Produce records, and wait until all are acknowledged. Raises KafkaError.

        Args:
            records: Each a value (bytes, or text, which is encoded as UTF-8), a pair of key and value, or a dict of
                `value`, `key`, `headers`, `partition` and `timestamp_ms`.
        """
        self._contents.produce(topic, records, partition)

    def records(self, topic: str, *, wait_for: int | None = None, timeout: float = TIMEOUT_S) -> list[ConsumerRecord]:
        """All committed records of a topic, by partition and offset; none if there is no such topic.

        Args:
            wait_for: Wait until there are so many.
            timeout: In seconds.

        Raises TimeoutError, which says how many there are.
        """
        return self._contents.records(topic, wait_for, timeout)

    @property
    def groups(self) -> list[str]:
        """The ids of all groups."""
        return self._contents.groups

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group, by topic and partition."""
        return self._contents.offsets(group)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """The committed records after a group's offset, by topic and partition, of all partitions that it reads."""
        return self._contents.lag(group)

    def wait_until_consumed(self, group: str, *, timeout: float = TIMEOUT_S) -> None:
        """Wait until a group has committed offsets, and no lag. Raises TimeoutError, which says what its lag is."""
        until(
            lambda: self.lag(group),
            lambda lag: bool(lag) and not any(lag.values()) and bool(self.offsets(group)),
            timeout,
            f"group {group!r} has consumed all, its lag by partition is 0",
        )

    def wait_for_members(self, group: str, members: int, *, timeout: float = TIMEOUT_S) -> None:
        """Wait until a group is stable, with so many members. Raises TimeoutError, which says how many it has."""
        wanted = f"group {group!r} is stable with {members} members"
        until(lambda: self._contents.members(group), lambda found: found == members, timeout, wanted)

    # -- faults of requests --------------------------------------------------------------------------------------

    def fail(self, api: str, error: str, *, applied: bool = False, **which: Any) -> FaultHandle:
        """Answer requests with an error.

        Args:
            api: Kafka's name of the API, such as `Produce`.
            error: Kafka's name of the error, such as `NOT_LEADER_OR_FOLLOWER`.
            applied: The request takes effect all the same.
            which: `times=3` (how many requests; without it, all until it is removed), `topic=`, `partition=`,
                `client_id=`, `node=`, `group=`, `transactional_id=`, `after=2` (so many pass first), `every=3` (each
                third one), `probability=0.1` with `seed=`.

        Raises ValueError for an API, error or argument that there is not, and where such an answer cannot be.
        """
        return self._fault("fail", api=api, error=error, applied=applied, **which)

    def delay(self, api: str, seconds: float, **which: Any) -> FaultHandle:
        """Handle requests later, by the clock of the nodes. For `which` see `fail`."""
        return self._fault("delay", api=api, seconds=seconds, **which)

    def drop(self, api: str, *, applied: bool = False, **which: Any) -> FaultHandle:
        """Do not answer requests, nor those that follow them on their connections, which stay open.

        With `applied`, the request takes effect: its answer is lost. For `which` see `fail`.
        """
        return self._fault("drop", api=api, applied=applied, **which)

    def disconnect(self, api: str, **which: Any) -> FaultHandle:
        """Close the connections of requests: `before=True` (the default) they are handled, `halfway=True` through the
        response, or `after=True` they have taken effect, without a response. For `which` see `fail`."""
        return self._fault("disconnect", api=api, **which)

    def throttle(self, ms: int, api: str | None = None, **which: Any) -> FaultHandle:
        """Throttle clients as a quota does: the response says so, and the connection is muted for so many ms."""
        return self._fault("throttle", ms=ms, api=api, **which)

    def _fault(self, verb: str, **given: Any) -> FaultHandle:
        return FaultHandle(self._control, self._control.post("/faults", verb=verb, **given))

    def requests(self, api: str | None = None, client_id: str | None = None) -> list[Request]:
        """The last 10,000 requests of clients since the reset, oldest first; without those of this library."""
        return [Request(**one) for one in self._control.get("/requests", api=api, client_id=client_id)]

    @contextmanager
    def assert_no_produce_while(self) -> Iterator[None]:
        """Raises AssertionError if a client sends a Produce during the block."""
        before = max((one.number for one in self.requests()), default=0)
        yield
        sent = [one for one in self.requests("Produce") if one.number > before]
        assert not sent, f"{len(sent)} Produce requests, the first of client {sent[0].client_id!r}: {sent[0].request}"

    # -- nodes ---------------------------------------------------------------------------------------------------

    def isolate(self, node: int, from_: int | str | None = None, *, one_way: bool = False) -> FaultHandle:
        """Cut a node off: its connections are closed and refused, as by a firewall that rejects.

        Args:
            from_: Another node; `nodes` for all of them; None for all nodes and all clients.
            one_way: The node cannot connect to other nodes, but they to it.
        """
        return self._fault("isolate", node=node, from_=from_, one_way=one_way)

    def fill_disk(self, node: int) -> FaultHandle:
        """Leave no room on the disk of a node."""
        return self._fault("fill_disk", node=node)

    def fail_disk(self, node: int) -> FaultHandle:
        """Let all writes to the disk of a node fail. A broker whose only directory has failed ends, as in Kafka."""
        return self._fault("fail_disk", node=node)

    def skew_clock(self, node: int, seconds: float) -> FaultHandle:
        """Set the wall clock of a node so far ahead of that of the others; behind it, if `seconds` is negative."""
        return self._fault("skew_clock", node=node, seconds=seconds)

    def elect(self, topic: str, partition: int, node: int, *, timeout: float = TIMEOUT_S) -> None:
        """Make a node, which has a replica, the leader of a partition. Raises ValueError, TimeoutError."""
        self._contents.elect(topic, partition, node, timeout)

    def move_coordinator(self, group: str, *, timeout: float = TIMEOUT_S) -> int:
        """Let another node coordinate a group; returns its id. Raises ValueError if no other node can."""
        return self._contents.move_coordinator(group, timeout)

    def fence(self, transactional_id: str) -> None:
        """Fence the producers of a transactional id, as a new instance of the program does."""
        self._contents.fence(transactional_id)

    def apply_retention(self) -> None:
        """Delete, of all topics, what retention allows to delete now."""
        self._control.post("/logs/apply_retention")

    def roll_segment(self, topic: str | None = None) -> None:
        """Begin new segments, of one topic or of all."""
        self._control.post("/logs/roll_segment", topic=topic)

    def corrupt(self, topic: str, partition: int, offset: int) -> None:
        """Damage the stored batch with an offset: its checksum is wrong then. Raises ValueError if there is none."""
        self._control.post("/logs/corrupt", topic=topic, partition=partition, offset=offset)

    @property
    def nodes(self) -> dict[int, str]:
        """The state of each node, by id: `running`, `paused` or `down`."""
        return {int(node): state for node, state in self._control.get("/cluster")["nodes"].items()}

    def kill(self, node: int) -> None:
        """End a node as SIGKILL does. Its data stays, for `start`."""
        self._control.post(f"/nodes/{node}/kill")

    def stop(self, node: int) -> None:
        """Stop a node as SIGTERM does: it hands over what it leads."""
        self._control.post(f"/nodes/{node}/stop")

    def start(self, node: int) -> None:
        """Start a node that was killed or stopped, with its data."""
        self._control.post(f"/nodes/{node}/start")

    def restart(self, node: int) -> None:
        """Stop a node, if it runs, and start it."""
        self._control.post(f"/nodes/{node}/restart")

    def pause(self, node: int) -> None:
        """Stop a node for a while, as SIGSTOP does: its connections stay open, and it answers nothing."""
        self._control.post(f"/nodes/{node}/pause")

    def resume(self, node: int) -> None:
        """Let a paused node run on."""
        self._control.post(f"/nodes/{node}/resume")
