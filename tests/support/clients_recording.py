"""Records requests of real clients to Apache Kafka as text, and reads them for tests.

    python -m support.clients_recording hostile/recorded_frames.txt       (in tests/; needs Apache Kafka)

Each line contains the client's name, the API key, the version and the frame without its size prefix in base64.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.clients import FOREIGN_CLIENTS, Client, Outgoing, closing, connect, read
from support.oracle import Oracle

SIZE_BYTES_MAX = 4_000
PRODUCE = 0
CHANGES_OF_TOPICS = {19, 20, 37}  # mutated, these may rightly create thousands of partitions


@dataclass(frozen=True, order=True)
class RecordedFrame:
    """One request, without its size prefix."""

    client: str
    api_key: int
    version: int
    body: bytes


def load_frames(path: Path) -> list[RecordedFrame]:
    """The frames that `record` saved."""
    frames: list[RecordedFrame] = []
    for line in path.read_text().splitlines():
        client, api_key, version, body = line.split()
        frames.append(RecordedFrame(client, int(api_key), int(version), base64.b64decode(body)))
    return frames


def record(path: Path) -> None:
    """Has every client use all kinds of requests, and saves one request of each kind."""
    listener = socket.create_server(("127.0.0.1", 0))
    bootstrap = f"127.0.0.1:{listener.getsockname()[1]}"
    kept: dict[tuple[object, ...], RecordedFrame] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Oracle(Path(folder) / "kafka", settings={"advertised.listeners": f"PLAINTEXT://{bootstrap}"}) as kafka,
    ):
        for name in FOREIGN_CLIENTS:
            for body in overheard(name, listener, kafka.address):
                api_key, version = struct.unpack_from(">hh", body)
                key = (name, api_key, version, len(body) if api_key == PRODUCE else 0)
                kept.setdefault(key, RecordedFrame(name, api_key, version, body))
    lines = [
        f"{frame.client} {frame.api_key} {frame.version} {base64.b64encode(frame.body).decode()}\n"
        for frame in sorted(kept.values())
        if len(frame.body) <= SIZE_BYTES_MAX and frame.api_key not in CHANGES_OF_TOPICS
    ]
    path.write_text("".join(lines))


def overheard(name: str, listener: socket.socket, server: tuple[str, int]) -> list[bytes]:
    """The requests of one client's session through the proxy `listener`."""
    streams: list[bytearray] = []
    done = threading.Event()
    proxy = threading.Thread(target=pass_on, args=(listener, server, streams, done), daemon=True)
    proxy.start()
    with connect(name, f"127.0.0.1:{listener.getsockname()[1]}") as client:
        session(client)
    done.set()
    proxy.join()
    return [body for stream in streams for body in frames_of(bytes(stream))]


def session(client: Client) -> None:
    """Uses all kinds of requests."""
    topic = topic_of(client.name)
    client.create_topic(topic)
    records = [Outgoing(b"v " * 90), Outgoing(None, key=b"k"), Outgoing(b"v", key=b"k", headers=(("h", b"v"),))]
    for codec in client.codecs:
        client.produce(topic, records, codec=codec)
    client.produce(topic, records, idempotent=True)
    client.produce(topic, records, acks=0)
    client.describe_settings(topic)
    client.alter_settings(topic, {"retention.ms": "1000000000"})
    client.offset_for_time(topic, 1)
    client.consume(topic, 3)
    client.offsets(topic)
    client.delete_records(topic, before_offset=0)
    with closing(client.member(f"group-{client.name}", [topic])) as member:
        read(member, 3)
        member.commit()
    client.groups()


def topic_of(client: str) -> str:
    """The topic of this client's recorded requests; it has one partition."""
    return f"hostile-{client}"


def pass_on(
    listener: socket.socket, server: tuple[str, int], streams: list[bytearray], done: threading.Event
) -> None:
    """Accepts and forwards connections until `done`; appends the bytes from clients to `streams`."""
    listener.settimeout(0.1)
    while not done.is_set():
        with contextlib.suppress(TimeoutError):
            client, _ = listener.accept()
            upstream = socket.create_connection(server)
            streams.append(bytearray())
            for source, target, note in ((client, upstream, streams[-1]), (upstream, client, bytearray())):
                source.settimeout(None)
                threading.Thread(target=copy, args=(source, target, note), daemon=True).start()


def copy(source: socket.socket, target: socket.socket, note: bytearray) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            note += chunk
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def frames_of(stream: bytes) -> Iterator[bytes]:
    """The complete frames of a stream, without their size prefixes."""
    position = 0
    while position + 4 <= len(stream):
        [size] = struct.unpack_from(">i", stream, position)
        body = stream[position + 4 : position + 4 + size]
        if len(body) == size:
            yield body
        position += 4 + size


if __name__ == "__main__":
    record(Path(sys.argv[1]))
