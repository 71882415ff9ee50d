"""Records written by one client and read by another: every pair of clients, every codec."""

from __future__ import annotations

import pytest
from support.clients import CLIENTS, CODECS, Outgoing, Received, connect
from support.node import ServerProcess

NULL_HEADER = Outgoing(b"h", headers=(("a", b"1"), ("n", None)), timestamp_ms=1_700_000_000_003)
RECORDS = [
    NULL_HEADER,
    Outgoing(b"plain", timestamp_ms=1_700_000_000_000),
    Outgoing(None, key=b"tombstone", timestamp_ms=1_700_000_000_500),
    Outgoing(b"", key=b"", timestamp_ms=1_699_999_999_000),
    Outgoing(b"x" * 30_000, key=b"big", timestamp_ms=1_700_000_000_001),
    Outgoing(b"h", headers=(("a", b"1"), ("a", b"")), timestamp_ms=1_700_000_000_002),
    *[Outgoing(f"{n}".encode() * 9, key=b"many", timestamp_ms=1_700_000_001_000 + n) for n in range(100)],
]


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_one_client_reads_what_another_wrote(
    node: ServerProcess, name: str, writer: str, reader: str, codec: str
) -> None:
    with connect(writer, node.bootstrap) as writing, connect(reader, node.bootstrap) as reading:
        if codec not in writing.codecs or codec not in reading.codecs:
            pytest.skip(f"{writer} or {reader} was built without {codec}")
        writing.create_topic(name)
        sent = [record for record in RECORDS if writing.writes_null_headers or record != NULL_HEADER]
        writing.produce(name, sent, codec=codec)
        got = reading.consume(name, len(sent))
    assert [_content(record) for record in got] == [_content(record) for record in sent]
    assert [record.offset for record in got] == list(range(len(sent)))


def _content(record: Outgoing | Received) -> tuple[object, ...]:
    return (record.key, record.value, record.headers, record.timestamp_ms)
