"""`produce --json` takes what `consume --json` gives; `consume --exit` ends by itself."""

from __future__ import annotations

import json

import pytest
from support.clients import Client, Outgoing
from support.command_line import Minikafka

from minikafka.cli.records.json_lines import JsonRecord, parse_record
from minikafka.cli.records.lines import BadLine

FIRST_MS = 1_700_000_000_000
RECORDS = [
    Outgoing(b"plain", b"key", timestamp_ms=FIRST_MS),
    Outgoing(None, b"tombstone", timestamp_ms=FIRST_MS + 1),
    Outgoing(b"", None, timestamp_ms=FIRST_MS + 2),
    Outgoing(b"\xff\x00\n", b"\xfe", (("h", b"\xfd"), ("h", None), ("\u00fc", b"")), timestamp_ms=FIRST_MS + 3),
    Outgoing("tab\tquote\"\n\u2028\U0001f600".encode(), b"{}", (("a", b"1"),), timestamp_ms=FIRST_MS + 4),
    Outgoing(b'{"base64": "AAAA"}', b"null", timestamp_ms=FIRST_MS + 5),
]


def test_a_round_trip_keeps_all_of_a_record(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.produce(topic, RECORDS)
    printed = minikafka("consume", topic, "--from-beginning", "--json", "--exit")
    assert (printed.code, printed.err, printed.out.count("\n")) == (0, "", len(RECORDS))
    judge.create_topic(f"{topic}-copy")
    sent = minikafka("produce", f"{topic}-copy", "--json", "--quiet", stdin=printed.out.encode())
    assert (sent.code, sent.err) == (0, "")
    found = judge.consume(f"{topic}-copy", len(RECORDS))
    assert [Outgoing(one.value, one.key, one.headers, one.timestamp_ms) for one in found] == RECORDS
    again = minikafka("consume", f"{topic}-copy", "--from-beginning", "--json", "--exit")
    assert again.out == printed.out.replace(f'"{topic}"', f'"{topic}-copy"')


def test_headers_and_a_partition_for_all_lines(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.add_partitions(topic, total=2)
    words = ("--json", "--header", "b=2", "--partition", "1")
    lines = b'{"value": "v", "headers": [["a", "1"]], "partition": 7, "timestamp": -1}\n{"key": "k"}'
    assert minikafka("produce", topic, *words, stdin=lines).code == 0
    found = judge.consume(topic, 2, partition=1)
    assert [(one.key, one.value, one.headers) for one in found] == [
        (None, b"v", (("a", b"1"), ("b", b"2"))),
        (b"k", None, (("b", b"2"),)),
    ]


def test_the_lines_before_a_bad_one_are_sent(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("produce", topic, "--json", stdin=b'{"value": "a"}\n{"value": 5}\n{"value": "b"}\n')
    assert ran.code == 1
    assert 'Error: line 2: value is neither a string, nor null, nor {"base64": "…"}: \'5\'' in ran.err
    assert [one.value for one in judge.consume(topic, 1)] == [b"a"]
    assert judge.offsets(topic) == (0, 1)
    small = ("--option", "max_request_size=1000")
    ran = minikafka("produce", topic, "--json", *small, stdin=json.dumps({"value": "x" * 2000}).encode())
    assert (ran.code, "Error: line 1: " in ran.err, "max_request_size" in ran.err) == (1, True, True)
    assert minikafka("produce", topic, "--json", "--null", "-").code == 2


def test_a_group_reads_to_the_end_and_commits(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.produce(topic, [Outgoing(b"%d" % number) for number in range(10)])
    read = ("consume", topic, "--group", topic, "--from-beginning", "--exit")
    assert minikafka(*read, "-n", "4").lines == ["0", "1", "2", "3"]
    assert minikafka(*read).lines == ["4", "5", "6", "7", "8", "9"]
    judge.produce(topic, [Outgoing(b"more")])
    assert minikafka(*read, "--option", "group.protocol=consumer").lines == ["more"]
    ran = minikafka(*read)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads(minikafka("groups", "lag", topic, "--json").out)[0]["lag"] == 0


def test_lines_become_records() -> None:
    assert parse_record(b'{"value": null}') == JsonRecord(None, None, (), None)
    assert parse_record(b'{"key": {"base64": "/w=="}, "timestamp": 5}') == JsonRecord(b"\xff", None, (), 5)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "no JSON object"),
        (b"[1]", 'no JSON object with a "value" or a "key"'),
        (b'{"topic": "t"}', 'no JSON object with a "value" or a "key"'),
        (b'{"value": "a"', "no JSON object"),
        (b"\xff", "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b'{"value": {"a": 1}}', "value is neither"),
        (b'{"value": {"base64": "?"}}', "value: "),
        (b'{"value": "\\ud800"}', "value: "),
        (b'{"value": "a", "headers": {"a": "b"}}', "headers are not a list"),
        (b'{"value": "a", "headers": [["a", 1]]}', "header 'a' is neither"),
        (b'{"value": "a", "headers": [["\\ud800", "1"]]}', "a header's name: "),
        (b'{"value": "a", "timestamp": -2}', "timestamp is not"),
        (b'{"value": "a", "timestamp": true}', "timestamp is not"),
        (b'{"value": "a", "timestamp": 1.5}', "timestamp is not"),
        (b'{"value": "a", "vlaue": "b"}', "unknown field 'vlaue'"),
    ],
)
def test_lines_that_are_no_record_are_refused(line: bytes, error: str) -> None:
    with pytest.raises(BadLine, match=error):
        parse_record(line)
