"""What requests took, in parts: of single ones, of several that were received together, of those that wait."""

from __future__ import annotations

from minikafka.broker.connections.request_times import EVERY, FOLLOWER, SAMPLES, RequestTimes

PRODUCE = bytearray(b"\x00\x00\x00\x09" + bytes(96))
FETCH = bytearray(b"\x00\x01\x00\x0c" + bytes(46))


def test_the_parts_of_a_request_that_waited() -> None:
    times = RequestTimes()
    times.add([FETCH], True, (1.0, 1.25, 1.5, 3.5), 500, 80, 3.75)
    requests = times.by_key[1 << 8 | 12 | FOLLOWER]
    assert requests.sums_s == (0.25, 0.25, 2.0, 0.5, 0.25)
    assert list(requests.latest) == [requests.sums_s]
    assert (requests.count, requests.bytes_in, requests.bytes_out) == (1, 50, 80)


def test_requests_that_were_received_together_count_as_their_mean() -> None:
    times = RequestTimes()
    times.add([PRODUCE] * 4, False, (0.0, 1.0, 0.0, 5.0), 0, 200, 5.5)
    requests = times.by_key[9]
    assert requests.sums_s == (1.0 + 2.0 + 3.0 + 4.0, 4.0, 0, 0, 2.0)
    assert (requests.count, requests.bytes_in, requests.bytes_out) == (4, 400, 200)
    assert list(requests.latest) == [(2.5, 1.0, 0, 0, 0.5)]


def test_requests_of_several_apis_that_were_received_together() -> None:
    times = RequestTimes()
    times.add([PRODUCE, FETCH], False, (0.0, 0.0, 0.0, 2.0), 100, 51, 2.5)
    produce, fetch = times.by_key[9], times.by_key[1 << 8 | 12]
    assert produce.sums_s == (0.0, 1.0, 0, 0, 0.5)
    assert fetch.sums_s == (1.0, 1.0, 0, 0.1, 0.5)
    assert (produce.bytes_in, produce.bytes_out, fetch.bytes_in, fetch.bytes_out) == (100, 25, 50, 26)


def test_the_latest_are_kept_and_of_many_some() -> None:
    times = RequestTimes()
    for number in range(1, SAMPLES + 5 * EVERY + 1):
        times.add([PRODUCE], False, (0.0, float(number), 0.0, float(number)), 0, 1, float(number))
    latest = [queue_s for queue_s, *_ in times.by_key[9].latest]
    assert (len(latest), latest[0]) == (SAMPLES, 6)
    assert latest[-6:] == [SAMPLES + EVERY * one for one in range(6)]
