"""What requests took, in parts: of single ones, of several that were received together, of those that wait."""

from __future__ import annotations

import pytest

from minikafka.broker.connections.request_times import EVERY, FOLLOWER, SAMPLES, RequestTimes
from minikafka.broker.metrics.request_metrics import request_metrics

PRODUCE = bytearray(b"\x00\x00\x00\x09" + bytes(96))
FETCH = bytearray(b"\x00\x01\x00\x0c" + bytes(46))


def test_the_parts_of_a_request_that_waited() -> None:
    times = RequestTimes()
    times.add([FETCH[:4]], 50, True, 1, (1.0, 1.25, 1.5, 3.5), 500, 80, 3.75)
    requests = times.by_key[1 << 8 | 12 | FOLLOWER]
    assert requests.sums_s == (0.25, 0.25, 2.0, 0.5, 0.25)
    assert list(requests.latest) == [requests.sums_s]
    assert (requests.count, requests.bytes_in, requests.bytes_out) == (1, 50, 80)


def test_requests_that_were_received_together_count_as_their_mean() -> None:
    times = RequestTimes()
    times.add([PRODUCE] * 4, 400, False, 1, (0.0, 1.0, 0.0, 5.0), 0, 200, 5.5)
    requests = times.by_key[9]
    assert requests.sums_s == (1.0 + 2.0 + 3.0 + 4.0, 4.0, 0, 0, 2.0)
    assert (requests.count, requests.bytes_in, requests.bytes_out) == (4, 400, 200)
    assert list(requests.latest) == [(2.5, 1.0, 0, 0, 0.5)]


def test_requests_of_several_apis_that_were_received_together() -> None:
    times = RequestTimes()
    times.add([PRODUCE, FETCH], 150, False, 1, (0.0, 0.0, 0.0, 2.0), 100, 51, 2.5)
    produce, fetch = times.by_key[9], times.by_key[1 << 8 | 12]
    assert produce.sums_s == (0.0, 1.0, 0, 0, 0.5)
    assert fetch.sums_s == (1.0, 1.0, 0, 0.1, 0.5)
    assert (produce.bytes_in, produce.bytes_out, fetch.bytes_in, fetch.bytes_out) == (100, 25, 50, 26)


def test_of_many_requests_some_are_measured_and_count_for_the_others() -> None:
    times, measured = RequestTimes(), 0
    for _ in range(SAMPLES + 5 * EVERY):
        weight = times.weight(PRODUCE, 60)
        if weight:
            times.add([PRODUCE], 100, False, weight, (0.0, 0.0, 0.0, 2.0), 0, 60, 3.0)
            measured += 1
    requests = times.by_key[9]
    assert measured == SAMPLES + 5
    assert requests.count == SAMPLES + 5 * EVERY
    assert (requests.bytes_in, requests.bytes_out) == (100 * requests.count, 60 * requests.count)
    assert requests.sums_s == (0, 2.0 * requests.count, 0, 0, 1.0 * requests.count)
    assert len(requests.latest) == SAMPLES


@pytest.mark.parametrize("begun", [1, SAMPLES + EVERY - 1, SAMPLES + EVERY])
def test_the_page_of_metrics_has_apis_of_which_no_response_was_sent(begun: int) -> None:
    times = RequestTimes()
    for _ in range(begun):
        times.weight(FETCH, 60)
    times.add([PRODUCE], 100, False, 1, (0.0, 0.0, 0.0, 2.0), 0, 60, 3.0)
    families = [family for family in request_metrics(times, str)() if family is not None]
    samples = {(family.name, *labels): value for family in families for labels, value in family.samples}
    assert samples["kafka_network_requestmetrics_totaltimems", "1", "0.5"] == 0
    assert samples["kafka_network_requestmetrics_totaltimems", "0", "0.5"] == 3000
