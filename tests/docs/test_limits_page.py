"""`docs/operations/limits.md` states the bounds that the code has."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from minikafka.broker import apis
from minikafka.broker.connections.connection import READY_BYTES_MAX, UNCOUNTED_SIZE_BYTES_MAX
from minikafka.broker.connections.idle_connections import IN_THE_WAY_RATE_MIN, IN_THE_WAY_S_MAX
from minikafka.broker.connections.large_messages import (
    ELEMENT_SIZE_BYTES,
    ELEMENTS_AT_ONCE,
    ELEMENTS_MAX,
    ELEMENTS_MAX_WITH_PAUSES,
    FETCH_WAITS_MS_MAX,
    MEMORY_SIZE_BYTES_MAX,
    UNCOUNTED,
)
from minikafka.broker.connections.long_polls import COPIED_SIZE_BYTES_MAX
from minikafka.broker.connections.transport import PIECE_SIZE_BYTES_MIN, SENDFILE_SIZE_BYTES_MIN
from minikafka.broker.coordinator.groups.offsets.request_parts import PARTITIONS_AT_ONCE
from minikafka.broker.metrics.http_server import HEAD_SIZE_BYTES_MAX
from minikafka.broker.node.descriptors import STRANGERS_MAX
from minikafka.broker.node.log_writer import SIZE_MAX
from minikafka.broker.node.step_watch import BUDGET_S
from minikafka.broker.partitions.batch_validation import AT_ONCE_SIZE_BYTES, Rules, decompressed_size_bytes_max
from minikafka.broker.partitions.fetch_sessions import PARTITIONS_MAX
from minikafka.broker.partitions.large_batches import AT_ONCE
from minikafka.broker.telemetry.clients import CLIENTS_MAX
from minikafka.broker.telemetry.otlp import FIELDS_MAX, POINTS_MAX
from minikafka.broker.telemetry.pushed import SAMPLES_MAX
from minikafka.controller.active.forwarded_requests import ELEMENTS_MAX as FORWARDED_ELEMENTS_MAX
from minikafka.controller.active.request_queue import BATCH_SIZE_BYTES_MAX
from minikafka.controller.decisions.decision import RECORDS_MAX
from minikafka.controller.patterns import BRANCHES_MAX, COSTLY_MAX, DEPTH_MAX, OPTIONAL_MAX, REPEATED_MAX
from minikafka.controller.quorum.handshake import HANDSHAKE_SIZE_MAX
from minikafka.controller.quorum.peer_frames import ITEMS_SIZE_MAX
from minikafka.controller.quorum.peers import FRAME_SIZE_MAX
from minikafka.controller.quorum.strangers import STRANGERS_MIN
from minikafka.controller.raft.raft import EPOCH_ADOPTED_MAX, EPOCHS_AHEAD_MAX
from minikafka.protocol.settings.registry import NODE_SETTINGS, TOPIC_SETTINGS

PAGE = (Path(__file__).parents[2] / "docs" / "operations" / "limits.md").read_text()
MIB = 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        f"at most {BUDGET_S * 1000:.0f} ms of processor time",
        f"more than {PARTITIONS_AT_ONCE:,} partitions is decided in parts",
        f"{RECORDS_MAX:,} records for a request",
        f"{ELEMENTS_MAX:,} elements, {ELEMENTS_MAX_WITH_PAUSES:,} in ",
        f"{MEMORY_SIZE_BYTES_MAX // MIB} MiB and one request",
        f"{', '.join(UNCOUNTED.values())} up to {ELEMENTS_MAX:,}",
        f"more than {ELEMENTS_AT_ONCE:,} elements wait",
        f"waits at most {FETCH_WAITS_MS_MAX} ms for records",
        f"{ELEMENTS_MAX * ELEMENT_SIZE_BYTES // 10**6} MiB for each connection",
        f"{UNCOUNTED_SIZE_BYTES_MAX // MIB} MiB for each connection",
        f"`socket.request.max.bytes` ({NODE_SETTINGS['socket.request.max.bytes'].default // MIB} MiB)",
        f"{AT_ONCE} batches, each of {decompressed_size_bytes_max(Rules(0)) // AT_ONCE_SIZE_BYTES} times",
        f"{AT_ONCE * decompressed_size_bytes_max(Rules()) // MIB} MiB |",
        f"{PARTITIONS_MAX:,} partitions together",
        f"copies of up to {COPIED_SIZE_BYTES_MAX >> 10} KiB",
        f"a connection has {2 * (PIECE_SIZE_BYTES_MIN + SENDFILE_SIZE_BYTES_MIN) >> 10} KiB at a time",
        f"those of up to {READY_BYTES_MAX >> 10} KiB whose client",
        f"takes less than {IN_THE_WAY_RATE_MIN >> 10} KiB a second for {IN_THE_WAY_S_MAX:.0f} s is disconnected",
        f"more than {COSTLY_MAX} classes of Unicode",
        f"counts of more than {REPEATED_MAX:,} in sum",
        f"more than {OPTIONAL_MAX:,} `?`",
        f"more than {BRANCHES_MAX:,} `\\|`",
        f"more than {DEPTH_MAX:,} parentheses",
        f"{SIZE_MAX // MIB} MiB of lines wait",
        f"{FIELDS_MAX:,} protobuf fields, {POINTS_MAX:,} values",
        f"32 MiB and {SAMPLES_MAX:,}, with the names",
        f"{CLIENTS_MAX:,} clients",
        f"shaken hands yet | a sixteenth of the descriptors, {STRANGERS_MIN} at least and {STRANGERS_MAX} at most |",
        f"handshake at the controller listener | {HANDSHAKE_SIZE_MAX >> 10} KiB |",
        f"records that a request makes | {BATCH_SIZE_BYTES_MAX // MIB} MiB together",
        f"a node that has shaken hands | {FRAME_SIZE_MAX // MIB} MiB |",
        f"records, snapshots and forwarded requests | {ITEMS_SIZE_MAX >> 10} KiB |",
        f"a broker forwards to the controller | {FORWARDED_ELEMENTS_MAX:,} elements",
        f"up to epoch 2^{EPOCH_ADOPTED_MAX.bit_length() - 1}; beyond it {EPOCHS_AHEAD_MAX:,} |",
        f"head of a request to the metrics listener | {HEAD_SIZE_BYTES_MAX >> 10} KiB |",
    ],
)
def test_a_bound_is_that_of_the_code(text: str) -> None:
    assert text in PAGE


def test_the_apis_with_pauses_are_named() -> None:
    modules = [import_module(f"{apis.__name__}.{found.name}") for found in iter_modules(apis.__path__)]
    pausing = {
        module.REQUEST.__name__.removesuffix("Request")
        for module in modules
        if getattr(module, "ELEMENTS_MAX", 0) == ELEMENTS_MAX_WITH_PAUSES
    }
    names = PAGE.split(f"{ELEMENTS_MAX_WITH_PAUSES:,} in ")[1].split(" |")[0]
    assert set(names.replace(" and ", ", ").split(", ")) == pausing


DEFAULTS = {
    "no limit": {-1, (1 << 31) - 1},
    "100 MiB": {100 * MIB},
    "1 MiB": {MIB, MIB + 12},  # Kafka's batches may be 12 bytes larger.
    "1,000": {1000},
    "45 s": {45_000},
    "1 day": {86_400_000},
}


def test_the_settings_of_the_page_have_the_defaults_that_it_names() -> None:
    rows = re.findall(r"^\| .+ \| (.*`.+`.*) \| (.+) \|$", PAGE.split("\n## ")[1], re.MULTILINE)
    assert {default for _, default in rows} == set(DEFAULTS)
    for names, default in rows:
        for name in re.findall(r"`([a-z.]+)`", names):
            assert (NODE_SETTINGS | TOPIC_SETTINGS)[name].default in DEFAULTS[default], name
