"""Received bytes are cut into records of TLS, and records that only cost time are counted."""

from __future__ import annotations

import sys

import pytest

from minikafka.controller.tls_records import (
    DATA_RECORDS_FOR_ANOTHER,
    HELLO_SIZE_BYTES_MAX,
    WITHOUT_DATA_MAX,
    ReceivedRecords,
    RefusedRecord,
)


def record(size: int, kind: int = 23) -> bytes:
    return bytes([kind, 3, 3]) + size.to_bytes(2, "big") + bytes(size)


def cut(*received: bytes) -> list[bytes]:
    """The records of bytes that arrive in these pieces."""
    records, taken = ReceivedRecords(), []
    for data in received:
        records.add(data)
        while (next_record := records.take()) is not None:
            taken.append(bytes(next_record))
            records.brought_data()
    return taken


SENT = [record(0), record(1), record(300), record(16_384 + 256), record(5, 22)]


@pytest.mark.parametrize("size", [1, 2, 5, 7, 100, 16_384, 100_000])
def test_records_are_the_same_in_whatever_pieces_they_arrive(size: int) -> None:
    data = b"".join(SENT)[: HELLO_SIZE_BYTES_MAX + 1000]
    whole = [each for each in SENT if data.find(each) >= 0]
    records = ReceivedRecords()
    records.answered()
    taken = []
    for at in range(0, len(data), size):
        records.add(data[at : at + size])
        while (next_record := records.take()) is not None:
            taken.append(bytes(next_record))
    assert taken == whole
    assert len(taken) >= 4


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\x10\x17\xff\xff", b"\x16\x02\0\xff\xff"])
def test_of_what_is_no_record_openssl_sees_the_beginning_at_once(data: bytes) -> None:
    assert cut(data)[0] == data[:5]


def test_of_a_record_that_is_too_large_openssl_sees_the_header_at_once() -> None:
    assert cut(record(16_384 + 2049)[:100])[0] == b"\x17\x03\x03\x48\x01"


def test_a_part_of_a_record_is_kept() -> None:
    assert cut(b"\x17\x03\x03\0") == []
    assert cut(b"\x17\x03\x03\0", b"\2a") == []
    assert cut(b"\x17\x03\x03\0", b"\2a", b"b\x17") == [b"\x17\x03\x03\0\2ab"]


def test_records_without_data_are_allowed_again_after_others() -> None:
    records = ReceivedRecords()
    records.answered()
    records.add(record(1) * 10_000)
    for _ in range(WITHOUT_DATA_MAX):
        records.take()
    with pytest.raises(RefusedRecord, match=f"more than {WITHOUT_DATA_MAX} records of TLS without data"):
        records.take()
    for _ in range(DATA_RECORDS_FOR_ANOTHER + 1):  # the first makes good for the one that was refused
        records.brought_data()
        if records._without_data_left >= 1:
            records.take()
    assert records._without_data_left < 2


def test_a_peer_begins_with_a_message_of_limited_size() -> None:
    records = ReceivedRecords()
    records.add(record(HELLO_SIZE_BYTES_MAX // 2) * 2)
    records.take()
    with pytest.raises(RefusedRecord, match="begins with a message of more than 16384 bytes"):
        records.take()


def test_after_the_first_answer_messages_may_be_larger() -> None:
    """A chain of certificates may be: OpenSSL allows 100 KiB."""
    records = ReceivedRecords()
    records.answered()
    records.add(record(16_384, 22) * 10)
    assert [records.take() is not None for _ in range(11)] == [True] * 10 + [False]


def test_no_record_of_another_handshake_is_taken() -> None:
    records = ReceivedRecords()
    records.is_established = True
    records.add(record(4, 22))
    with pytest.raises(RefusedRecord, match="another handshake"):
        records.take()


def established() -> ReceivedRecords:
    records = ReceivedRecords()
    records.answered()
    records.is_established = True
    return records


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("room_bytes", [0, 4, 5, 6, 310, 1 << 20])
@pytest.mark.parametrize("size", [1, 7, 300, 100_000])
def test_records_with_data_are_taken_together_and_no_others(size: int, room_bytes: int, most: int) -> None:
    sent = [record(0), record(1), record(5, 21), record(300), record(2), record(16_384 + 256), record(1)] * 3
    data, records, taken = b"".join(sent), established(), b""
    for at in range(0, len(data), size):
        records.add(data[at : at + size])
        while True:
            some, count = records.take_data(room_bytes, most)
            assert count <= most
            assert len(some) <= room_bytes
            assert sum(some[place] == 23 for place in starts(some)) == count
            if not count:
                single = records.take()
                if single is None:
                    break
                some, count = single, 1
            taken += some
            records.brought_data(count)
    assert taken == data


def starts(records: memoryview) -> list[int]:
    """Where the records begin."""
    places, at = [], 0
    while at < len(records):
        places.append(at)
        at += 5 + int.from_bytes(records[at + 3 : at + 5], "big")
    assert at == len(records)
    return places


def test_before_the_handshake_is_done_records_are_taken_singly() -> None:
    records = ReceivedRecords()
    records.add(record(1) + record(1))
    assert records.take_data(1000, 10)[1] == 0
    records.is_established = True
    assert records.take_data(1000, 10)[1] == 0
    records.answered()
    assert records.take_data(1000, 10)[1] == 2


@pytest.mark.parametrize("most", [1, 5, 16])
def test_records_without_data_are_counted_together_as_singly(most: int) -> None:
    """So many in a row are taken, and no more."""
    records, taken = established(), 0
    records.add(record(9) * 3 * WITHOUT_DATA_MAX)
    for _ in range(WITHOUT_DATA_MAX):
        taken += records.take_data(1 << 20, most)[1]
    assert taken == WITHOUT_DATA_MAX
    with pytest.raises(RefusedRecord, match="without data"):
        records.take()


@pytest.mark.parametrize("at_once", [1, 4])
def test_of_much_that_was_received_only_the_rest_of_a_record_is_kept(at_once: int) -> None:
    """The rest of a record may be all that a connection has for hours. Without room, records are taken singly."""
    records, room_bytes = established(), 0 if at_once == 1 else 1 << 20
    records.add(record(1000) * 100 + record(1000)[:-1])
    for _ in range(100 // at_once):
        count = records.take_data(room_bytes, at_once)[1] or records.take() is not None
        records.brought_data(count)
    assert records.take_data(room_bytes, at_once)[1] == 0
    assert records.take() is None
    assert sys.getsizeof(records._bytes) < 2000
