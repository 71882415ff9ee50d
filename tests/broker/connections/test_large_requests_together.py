"""Large requests over many connections at once, on a node with `queued.max.request.bytes`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.clients import eventually
from support.clients_raw import RawConnection, check_served, peak_bytes, request, resident_bytes
from support.node import NodeProcess

from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MIB = 1 << 20
LARGEST, BUDGET, CONNECTIONS = 8 * MIB, 16 * MIB, 16
BEGINNING = MIB
MARGIN = 16 * MIB


@pytest.mark.slow
def test_large_requests_together_take_no_more_memory_than_their_budget(tmp_path: Path) -> None:
    data = PartitionProduceData(index=0, records=bytes(LARGEST - 1000))
    topic = TopicProduceData(name="missing", partition_data=[data])
    whole = request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 9)
    settings = {"socket.request.max.bytes": LARGEST, "queued.max.request.bytes": BUDGET}
    with NodeProcess(tmp_path / "data", settings={**settings, "auto.create.topics.enable": "false"}) as node:
        check_served(node)
        before = resident_bytes(node.pid)
        complete = threading.Event()

        def send() -> bytes:
            with RawConnection(node.address) as connection:
                connection.send(whole[:-1])
                complete.wait()
                connection.send(whole[-1:])
                return connection.receive_frame()[:4]

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            answers = [pool.submit(send) for _ in range(CONNECTIONS)]
            # Others have sent their first part, of which a MiB is taken, and are not read from.
            eventually(lambda: resident_bytes(node.pid) - before > BUDGET, timeout_s=60)
            check_served(node)
            complete.set()
            assert {answer.result() for answer in answers} == {whole[8:12]}
        grown = peak_bytes(node.pid) - before
        assert grown < BUDGET + LARGEST + CONNECTIONS * BEGINNING + MARGIN, f"grew by {grown / MIB:.0f} MiB"
