"""Record batches of conversations as JSON: an encoder that can write malformed batches, and a decoder of every field.

A record set is a list of batches, one batch as an object, or a list of records, which is one batch. A record is an
object or a string, its value. Omitted fields have their default values; `corrupt_crc`, `count`, `last_offset_delta`,
`cut`, `magic` and `raw` produce malformed batches. Independent of the project's codec.
"""

from __future__ import annotations

import base64
import gzip
import struct
from typing import Any

import crc32c

from support.conversation_names import TIME_OF_RUN

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
_HEAD = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")
_NATURAL = {
    "leader_epoch": 0,
    "codec": "none",
    "log_append_time": False,
    "transactional": False,
    "control": False,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
}


def as_bytes(text: str) -> bytes:
    """The bytes of a text; `base64:…` encodes bytes that are not printable ASCII."""
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


def as_text(data: bytes) -> str:
    """Printable ASCII unchanged, other bytes as `base64:…`."""
    if all(32 <= byte < 127 for byte in data) and not data.startswith(b"base64:"):
        return data.decode()
    return "base64:" + base64.b64encode(data).decode()


def encode_batches(value: Any) -> bytes:
    """The bytes of a record set."""
    if isinstance(value, dict):
        value = [value]
    if value and not (isinstance(value[0], dict) and "records" in value[0]):
        value = [{"records": value}]
    return b"".join(_encode_batch(batch) for batch in value)


def decode_batches(data: bytes) -> list[Any]:
    """Every complete batch in its comparable form; `partial` stands for a truncated one at the end."""
    out: list[Any] = []
    while data:
        size_bytes = 12 + int.from_bytes(data[8:12], "big")
        if len(data) < 12 or len(data) < size_bytes:
            return [*out, "partial"]
        out.append(_decode_batch(data[:size_bytes]))
        data = data[size_bytes:]
    return out


def _encode_batch(batch: dict[str, Any]) -> bytes:
    records = [record if isinstance(record, dict) else {"value": record} for record in batch["records"]]
    times = [record.get("timestamp", TIME_OF_RUN) for record in records] or [TIME_OF_RUN]
    body = b"".join(_encode_record(record, n, times[0]) for n, record in enumerate(records))
    if "raw" in batch:
        body = as_bytes(batch["raw"])
    if batch.get("codec") == "gzip":
        body = gzip.compress(body, mtime=0)
    checked = _CHECKED.pack(
        _attributes(batch),
        batch.get("last_offset_delta", len(records) - 1),
        times[0],
        max(times),
        batch.get("producer_id", -1),
        batch.get("producer_epoch", -1),
        batch.get("base_sequence", -1),
        batch.get("count", len(records)),
    )
    checked += body
    crc = crc32c.crc32c(checked) ^ batch.get("corrupt_crc", False)
    rest = struct.pack(">ibI", batch.get("leader_epoch", -1), batch.get("magic", 2), crc) + checked
    whole = struct.pack(">qi", batch.get("base_offset", 0), len(rest)) + rest
    return whole[: len(whole) - batch.get("cut", 0)]


def _attributes(batch: dict[str, Any]) -> int:
    flags = [batch.get(name, False) for name in ("log_append_time", "transactional", "control")]
    return _CODECS.index(batch.get("codec", "none")) | sum(flag << n for n, flag in enumerate(flags, 3))


def _encode_record(record: dict[str, Any], number: int, base_timestamp: int) -> bytes:
    headers = record.get("headers", {})
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    body = b"\0" + _zigzag(record.get("timestamp", TIME_OF_RUN) - base_timestamp)
    body += _zigzag(record.get("offset_delta", number)) + _blob(record.get("key")) + _blob(record.get("value"))
    body += _zigzag(len(pairs)) + b"".join(_blob(key) + _blob(value) for key, value in pairs)
    return _zigzag(len(body)) + body


def _blob(text: str | None) -> bytes:
    if text is None:
        return _zigzag(-1)
    data = as_bytes(text)
    return _zigzag(len(data)) + data


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _decode_batch(data: bytes) -> dict[str, Any]:
    base, _, epoch, _, crc, attributes, delta, first, last, *producer, count = _HEAD.unpack_from(data)
    codec, append_time = _CODECS[attributes & 7], bool(attributes & 8)
    batch: dict[str, Any] = {"base_offset": base, "leader_epoch": epoch, "codec": codec}
    batch |= {"log_append_time": append_time, "transactional": bool(attributes & 16), "control": bool(attributes & 32)}
    batch |= dict(zip(("producer_id", "producer_epoch", "base_sequence"), producer, strict=True))
    if crc != crc32c.crc32c(data[21:]):
        batch["bad_crc"] = True
    records: list[Any] = []
    if codec in ("none", "gzip"):
        body = _Reader(gzip.decompress(data[61:]) if codec == "gzip" else data[61:])
        records = [
            body.record(first, append_time=last if append_time else None, control=batch["control"])
            for _ in range(count)
        ]
    batch = {k: v for k, v in batch.items() if v != _NATURAL.get(k)}
    if count != len(records) or delta != count - 1:
        batch |= {"count": count, "last_offset": base + delta}
    return batch | {"records": records}


class _Reader:
    """Reads the records of a batch."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def record(self, base_timestamp: int, *, append_time: int | None, control: bool) -> dict[str, Any]:
        """The next record without default values."""
        self._zigzag()
        self._take(1)
        timestamp = base_timestamp + self._zigzag()
        self._zigzag()
        key, value = self._blob(), self._blob()
        pairs = [[(self._blob() or b"").decode(), self._text(self._blob())] for _ in range(self._zigzag())]
        out: dict[str, Any] = {"timestamp": append_time if append_time is not None else timestamp}
        if out["timestamp"] == TIME_OF_RUN:
            del out["timestamp"]
        if control:
            return out | {"key": {0: "abort", 1: "commit"}.get(int.from_bytes((key or b"")[2:4], "big"), "other")}
        headers = dict(pairs) if len(dict(pairs)) == len(pairs) else pairs
        shown = {"key": self._text(key), "value": self._text(value), "headers": headers or None}
        return out | {name: what for name, what in shown.items() if what is not None}

    def _text(self, data: bytes | None) -> str | None:
        return None if data is None else as_text(data)

    def _take(self, size_bytes: int) -> bytes:
        if size_bytes > len(self._data) - self._at:
            raise ValueError(f"{size_bytes} bytes wanted at {self._at} of {len(self._data)}")
        self._at += size_bytes
        return self._data[self._at - size_bytes : self._at]

    def _zigzag(self) -> int:
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def _blob(self) -> bytes | None:
        size_bytes = self._zigzag()
        return None if size_bytes < 0 else self._take(size_bytes)
