"""Java reads records compressed by Python: snappy's framing, lz4's independent blocks, gzip and zstd."""

from __future__ import annotations

import pytest
from support.oracle import needs_oracle, tool

from minikafka.client import Producer

pytestmark = [pytest.mark.anyio, pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(300), needs_oracle]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


async def test_java_reads_every_codec(bootstrap: str, topic: str, anyio_backend: str) -> None:
    wanted: list[str] = []
    for codec in CODECS:
        async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for n in range(2000):  # more than one block of any codec
                wanted.append(f"{codec} {n} " + "some text " * (n % 20))
                await producer.send(topic, wanted[-1].encode())
    output = tool(
        "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning",
        "--max-messages", len(wanted), "--timeout-ms", 90_000,
    )  # fmt: skip
    assert output.splitlines() == wanted
