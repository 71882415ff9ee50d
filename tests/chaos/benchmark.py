"""Measures the checker with a random legal history: `PYTHONPATH=tests python -m chaos.benchmark [operations]`.

A million operations by default; the time is that of one processor.
"""

from __future__ import annotations

import random
import resource
import sys
import time

from chaos.checker import check
from chaos.history import Event
from chaos.model import COMPACTED, Chances, Model

STEPS_PER_OPERATION = 2.2


def long_history(operations: int) -> list[Event]:
    """About so many operations. Nothing is deleted, as the model's compaction is slow."""
    return Model(random.Random(1), Chances(unknown=0.02, deletion=0)).run(int(operations * STEPS_PER_OPERATION))


def main() -> None:
    wanted = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
    history = long_history(wanted)
    began = time.process_time()
    anomalies = check(history, compacted={COMPACTED})
    seconds = time.process_time() - began
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    count = len({event.operation for event in history})
    print(f"{count} operations, {len(anomalies)} anomalies, {seconds:.1f} s, {memory_mb} MB")


if __name__ == "__main__":
    main()
