"""Planted bugs in what bounds a node's memory and time: what stays of a refused request, or is kept for a client."""

from mutations import Mutation

_FREED = "tests/broker/connections/test_frames_are_freed.py"

MUTATIONS = (
    Mutation(
        "a list of a setting grows without bound as it is appended to",
        "controller/decisions/config_changes.py",
        "VALUE_SIZE_BYTES_MAX = 32_767\n",
        "VALUE_SIZE_BYTES_MAX = 1 << 30\n",
        ("tests/controller/decisions/test_config_changes.py",),
    ),
    Mutation(
        "a response repeats without bound what its request names again",
        "broker/apis/repeats.py",
        "        if self._left_bytes < 0:\n",
        "        if self._left_bytes < -(1 << 40):\n",
        ("tests/broker/apis/test_repeats.py",),
    ),
    Mutation(
        "an exception that is raised in a worker thread is a cycle that keeps the request",
        "storage/disk.py",
        "            del error  # A frame",
        "            pass  # A frame",
        ("tests/storage/test_disk.py::test_what_a_failed_call_was_given_is_freed_with_its_exception",),
    ),
    Mutation(
        "each refusal of a stranger is remembered for ever",
        "controller/quorum/peers.py",
        "                self._logged_refusals.clear()\n",
        "                pass\n",
        ("tests/controller/quorum/test_peers.py::test_what_is_kept_of_refused_strangers_is_bounded",),
    ),
    Mutation(
        "a frame of a stranger that is no text ends the controller",
        "controller/quorum/peer_frames.py",
        "except (ValueError, msgpack.UnpackException)",
        "except msgpack.UnpackException",
        ("tests/hostile/test_cluster.py::test_an_attack_harms_no_node[mutated frames of peers]",),
    ),
    Mutation(
        "a path that is not ASCII ends the metrics listener",
        "broker/metrics/http_server.py",
        'decode("ascii", errors="replace")',
        'decode("ascii")',
        ("tests/hostile/test_cluster.py::test_an_attack_harms_no_node[mutated HTTP requests]",),
    ),
    Mutation(
        "a malformed request is kept by the connection that it ends",
        "broker/connections/connection.py",
        "            self._failure = without_frames(error)\n",
        "            self._failure = error\n",
        (f"{_FREED}::test_a_malformed_request_is_freed", "tests/test_kept_errors.py"),
    ),
    Mutation(
        "a request that is cancelled while it waits is kept",
        "broker/connections/before_waiting.py",
        "            del value",
        "            pass",
        (f"{_FREED}::test_a_request_is_freed_however_its_handler_ends",),
    ),
    Mutation(
        "a refusal keeps the frames of its handler",
        "broker/connections/dispatcher.py",
        "    without_frames(error)\n    return refusal_of(",
        "    return refusal_of(",
        (f"{_FREED}::test_a_request_is_freed_however_its_handler_ends",),
    ),
    Mutation(
        "the fields of pushed metrics are not counted",
        "broker/telemetry/otlp.py",
        "            self._fields_left -= 1\n",
        "",
        ("tests/broker/telemetry/test_otlp.py",),
    ),
    Mutation(
        "pushed metrics are bounded as they are sent only",
        "broker/telemetry/clients.py",
        "decompress(codec, metrics, size_bytes_max)",
        "decompress(codec, metrics, 16 * size_bytes_max)",
        ("tests/broker/telemetry/test_clients.py",),
    ),
    Mutation(
        "long names of pushed metrics count like short ones",
        "broker/telemetry/pushed.py",
        " + 4 * letters",
        "",
        ("tests/broker/telemetry/test_clients.py",),
    ),
    Mutation(
        "clients with long names are kept without a bound in bytes",
        "broker/telemetry/clients.py",
        " or self._names_size_bytes > CLIENTS_SIZE_BYTES_MAX:",
        ":",
        ("tests/broker/telemetry/test_clients.py",),
    ),
    Mutation(
        "slow clients of the metrics listener keep their places",
        "broker/metrics/http_server.py",
        "                        self._close_one()\n",
        "                        transport.close()\n                        continue\n",
        ("tests/broker/metrics/test_http_server.py::test_a_health_check_is_answered_however_many_clients_are_slow",),
    ),
    Mutation(
        "nobody watches for a stuck event loop after SIGTERM",
        "broker/node/stuck_loop.py",
        "            self._begin()\n",
        "",
        ("tests/broker/node/test_stuck_loop.py",),
    ),
    Mutation(
        "each scraper has metrics of its own made, all at the same time",
        "broker/metrics/endpoints.py",
        "            if made is None or self._begun == asked_at:\n",
        "            if True:\n",
        ("tests/broker/metrics/test_http_server.py::test_however_many_ask_for_metrics_one_is_made_at_a_time",),
    ),
    Mutation(
        "an lz4 frame that is followed by another one is accepted, and stops consumers",
        "protocol/records/compression.py",
        "    if position < len(data):\n        raise CorruptRecords(f\"lz4 frame of",
        "    if position > len(data):\n        raise CorruptRecords(f\"lz4 frame of",
        ("tests/protocol/records/test_compression.py::test_lz4_that_decompresses_but_that_some_consumers_cannot_read",),
    ),
    Mutation(
        "the page of metrics fails while an API has no response that was sent",
        "broker/metrics/request_metrics.py",
        " or [NOTHING_SENT]",
        "",
        ("tests/broker/connections/test_request_times.py::test_the_page_of_metrics_has_apis_of_which_no_response_was_sent",),
    ),
)
