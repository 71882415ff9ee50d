"""The simulated world: machines, their clocks, crashes and pauses, and the network between them."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
import trio

from simulation.world.cluster import Cluster
from simulation.world.network import Endpoint, SimulatedNetwork
from simulation.world.world import TooManySteps, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1)
    yield made
    made.close()


def test_a_machine_sleeps_in_virtual_time(world: World) -> None:
    woken: list[float] = []

    async def program() -> None:
        for _ in range(3):
            await trio.sleep(100)
            woken.append(round(world.now))

    world.boot("one", "host", program)
    world.run_until(1000)
    assert woken == [100, 200, 300]


def test_a_sleep_ends_at_its_deadline_or_when_it_is_cancelled(world: World) -> None:
    ends: list[float] = []

    async def program() -> None:
        with trio.move_on_after(5) as scope:
            await trio.sleep_until(trio.current_time() + 10)
        assert scope.cancelled_caught
        ends.append(world.now)
        with trio.move_on_after(20) as scope:
            await trio.sleep(10)
        assert not scope.cancel_called
        ends.append(world.now)
        with trio.move_on_after(1):
            await trio.sleep_forever()
        await trio.sleep_until(trio.current_time() - 1)
        ends.append(world.now)
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.sleep(10)
        ends.append(world.now)

    machine = world.boot("one", "host", program)
    world.run_until(100)
    assert machine.failure is None
    assert [round(end) for end in ends] == [5, 15, 16, 16]


def test_a_paused_machine_does_nothing_and_is_late_afterwards(world: World) -> None:
    woken: list[float] = []

    async def program() -> None:
        await trio.sleep(1)
        woken.append(round(world.now))

    machine = world.boot("one", "host", program)
    world.at(0.5, world.pause, machine, 10.0)
    world.run_until(60)
    assert woken == [10]


def test_no_finally_of_a_killed_machine_has_an_effect_while_it_is_killed(world: World) -> None:
    states: list[bool] = []

    async def program() -> None:
        machine = world.running
        assert machine is not None
        try:
            await trio.sleep(100)
        finally:
            states.append(machine.ended)
            await trio.sleep(1)
            states.append(False)

    machine = world.boot("one", "host", program)
    world.at(50, world.kill, machine)
    world.run_until(200)
    assert states == [True], "it is dead before the first line of its `finally`"
    assert world.machines == {}


def test_a_machine_killed_by_its_own_task_ends_after_the_step(world: World) -> None:
    reached: list[str] = []

    async def program() -> None:
        machine = world.running
        assert machine is not None
        world.kill(machine)
        reached.append("the same step")
        await trio.sleep(0)
        reached.append("the next step")

    world.boot("one", "host", program)
    world.run_until(1)
    assert reached == ["the same step"]


def test_a_machine_that_never_waits_is_reported() -> None:
    world = World(1, steps_max=1000)

    async def program() -> None:
        while True:
            await trio.sleep(0)

    world.boot("one", "host", program)
    with pytest.raises(TooManySteps, match="one"):
        world.run_until(60)
    world.close()


def test_a_machine_that_runs_in_a_circle_for_seconds_is_reported(world: World) -> None:
    async def program() -> None:
        await trio.sleep(60)
        ends_at = trio.current_time() + 8
        while trio.current_time() < ends_at:
            await trio.lowlevel.checkpoint()

    world.boot("busy", "host", program)
    world.boot("idle", "host", trio.sleep, 100)
    busiest = r"busy; [^;]*\.program \(test_world.py:\d+\)"
    with pytest.raises(TooManySteps, match=r"steps within 5 s at \d+\.000 s: " + busiest):
        world.run_until(100)


# -- the network -----------------------------------------------------------------------------------------------------


class Pair:
    """A server that echoes, and a client that sends what it is told to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = SimulatedNetwork(world, world.random("network"))
        self.network.hosts.update({"a": None, "b": None})
        self.log: list[str] = []
        self.client: Endpoint | None = None
        self.server_machine = world.boot("server", "b", self._serve)
        world.run_until(world.now + 1)
        self.client_machine = world.boot("client", "a", self._talk)
        world.run_until(world.now + 1)

    async def _serve(self) -> None:
        machine = self.world.running
        assert machine is not None
        machine.on_end.append(lambda: self.network.process_ended(machine))
        listener = self.network.listen(machine, 1)
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._echo, await listener.accept())

    async def _echo(self, endpoint: Endpoint) -> None:
        try:
            while True:
                await endpoint.wait_readable()
                data = endpoint.receive(100)
                if not data:
                    break
                endpoint.send(data)
        except OSError as error:
            self.log.append(f"server: {type(error).__name__}")
        endpoint.close()

    async def _talk(self) -> None:
        machine = self.world.running
        assert machine is not None
        try:
            endpoint = self.client = await self.network.connect(machine, "b", 1)
            while True:
                await endpoint.wait_readable()
                data = endpoint.receive(100)
                self.log.append(f"client: {data!r}")
                if not data:
                    break
        except OSError as error:
            self.log.append(f"client: {type(error).__name__}")

    def send(self, data: bytes) -> None:
        assert self.client is not None
        self.client.send(data)


@pytest.fixture
def pair(world: World) -> Pair:
    return Pair(world)


def test_data_arrives(world: World, pair: Pair) -> None:
    pair.send(b"one")
    world.run_until(world.now + 1)
    assert pair.log == ["client: b'one'"]


@pytest.mark.parametrize("cut", [("a", "b"), ("b", "a")])
def test_data_that_a_cut_held_up_arrives_late(world: World, pair: Pair, cut: tuple[str, str]) -> None:
    pair.network.cut(*cut)
    pair.send(b"one")
    world.run_until(world.now + 3)
    assert pair.log == []
    pair.network.heal_all()
    world.run_until(world.now + 15)
    assert pair.log == ["client: b'one'"]


def test_a_cut_that_lasts_costs_the_connection(world: World, pair: Pair) -> None:
    pair.network.cut("a", "b")
    pair.send(b"one")
    world.run_until(world.now + 100)
    assert pair.log == ["client: TimeoutError"]


def test_a_killed_server_is_noticed(world: World, pair: Pair) -> None:
    world.kill(pair.server_machine)
    world.run_until(world.now + 1)
    assert pair.log == ["client: b''"]


def test_a_host_without_power_is_noticed_by_sending_only(world: World, pair: Pair) -> None:
    pair.network.power_lost("b")
    world.kill(pair.server_machine)
    world.run_until(world.now + 1000)
    assert pair.log == []
    pair.send(b"one")
    world.run_until(world.now + 100)
    assert pair.log == ["client: TimeoutError"]


def test_a_half_open_connection_is_reset_when_data_is_sent(world: World, pair: Pair) -> None:
    assert pair.network.forget_connections("a", "b") == 1
    world.run_until(world.now + 1000)
    assert pair.log == ["server: ConnectionResetError"]
    pair.send(b"one")
    world.run_until(world.now + 1)
    assert pair.log == ["server: ConnectionResetError", "client: ConnectionResetError"]


def test_a_frame_is_cut_in_the_middle(world: World, pair: Pair) -> None:
    pair.network.link("b", "a").break_next = True
    pair.send(b"twelve bytes")
    world.run_until(world.now + 1)
    assert len(pair.log) >= 2
    assert pair.log[-1].endswith("ConnectionResetError")
    assert pair.log[0] != "client: b'twelve bytes'"


# -- a cluster -------------------------------------------------------------------------------------------------------


def idle_cluster(seed: int) -> str:
    world = World(seed)
    cluster = Cluster(world)
    cluster.add_nodes(3, {})
    for host in cluster.hosts.values():
        cluster.start(host)
    assert world.run_until(30, lambda: all(host.ready for host in cluster.hosts.values()))
    world.at(world.now + 1, cluster.kill, cluster.hosts[1])
    world.at(world.now + 2, cluster.lose_power, cluster.hosts[2])
    world.run_until(world.now + 10)
    cluster.start(cluster.hosts[1])
    cluster.start(cluster.hosts[2])
    assert world.run_until(60, lambda: all(host.ready for host in cluster.hosts.values()))
    assert cluster.failures == []
    world.close()
    return world.trace_hash


@pytest.mark.slow
def test_one_seed_has_one_trace_in_every_process() -> None:
    script = "from simulation.test_world import idle_cluster; print(idle_cluster(3))"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", script], env=_environment(hash_seed), capture_output=True, text=True, check=True
        ).stdout
        for hash_seed in (0, 1, 2)
    }
    assert hashes == {idle_cluster(3) + "\n"}
    assert idle_cluster(4) + "\n" not in hashes


def _environment(hash_seed: int) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": ":".join(sys.path)}


def test_a_cluster_stops_cleanly(world: World) -> None:
    cluster = Cluster(world)
    cluster.add_nodes(3, {})
    for host in cluster.hosts.values():
        cluster.start(host)
    assert world.run_until(30, lambda: all(host.ready for host in cluster.hosts.values()))
    for host in cluster.hosts.values():
        cluster.stop(host)
    assert world.run_until(60, lambda: not any(host.is_running for host in cluster.hosts.values()))
    assert not any(host.ready for host in cluster.hosts.values())
    assert cluster.failures == []


def test_a_closed_world_leaves_the_logging_of_its_process_as_it_was() -> None:
    client = logging.getLogger("minikafka")
    world = World(1)
    Cluster(world)
    assert structlog.is_configured()
    world.close()
    assert not structlog.is_configured()
    assert (client.handlers, client.propagate) == ([], True)


@pytest.mark.slow
def test_nothing_is_left_of_a_closed_world() -> None:
    """Hundreds of seeds run in one process."""

    async def numbers() -> AsyncIterator[int]:
        yield 1
        await trio.sleep_forever()

    async def program() -> None:
        async with trio.Lock():
            async for _ in numbers():
                pass

    world = World(1)
    world.boot("one", "host", program)
    world.run_until(1)
    world.close()
    reference = weakref.ref(world)
    del world
    gc.collect()
    assert reference() is None
