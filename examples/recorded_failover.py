"""Records a terminal as `docs/failover.svg`: three brokers, a killed leader, and a consumer that reads on.

    python examples/recorded_failover.py

The commands are really run, in a temporary folder; the picture shows their lines at the times when they came.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

from minikafka.client.blocking import Admin

PICTURE = Path(__file__).parents[1] / "docs" / "failover.svg"
MINIKAFKA = str(Path(sys.executable).with_name("minikafka"))
LINE_PX, MARGIN_PX, WIDTH_PX = 19, 18, 860
BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
RECORDS, INTERVAL_S, KILLED_AFTER = 16, 0.5, 5
PAUSE_S = 4.0
"""How long the last picture stands before it begins again."""


class Recording:
    """Lines of a terminal with the seconds at which they appeared."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str, str]] = []
        self._began = time.monotonic()

    def add(self, text: str, kind: str = "out") -> None:
        """A line appears now: `kind` is "in" for a command, "out" for what one printed."""
        self.lines.append((time.monotonic() - self._began, kind, text))

    def follow(self, process: subprocess.Popen[str]) -> None:
        """Add what a process prints, until it ends."""
        assert process.stdout is not None
        for line in process.stdout:
            self.add(line.rstrip())

    def svg(self) -> str:
        """The picture: each line becomes visible at its time, again and again."""
        whole_s = self.lines[-1][0] + PAUSE_S
        height = 2 * MARGIN_PX + LINE_PX * len(self.lines)
        rules, texts = [], []
        for number, (at_s, kind, text) in enumerate(self.lines):
            begins = 100 * at_s / whole_s
            rules.append(f"@keyframes l{number}{{0%,{begins:.2f}%{{opacity:0}}{begins + 0.01:.2f}%,100%{{opacity:1}}}}")
            shown = "$ " + text if kind == "in" else text
            y = MARGIN_PX + LINE_PX * (number + 1) - 5
            style = f"animation:l{number} {whole_s:.1f}s infinite"
            texts.append(f'<text x="{MARGIN_PX}" y="{y}" class="{kind}" style="{style}">{escape(shown)}</text>')
        return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{height}" role="img">
<title>Three brokers; the leader is killed, and the consumer reads on</title>
<style>text{{font:14px monospace;white-space:pre}}.in{{fill:#7ee787}}.out{{fill:#e6edf3}}
{"".join(rules)}
@media (prefers-reduced-motion:reduce){{text{{animation:none!important}}}}</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
{chr(10).join(texts)}
</svg>
"""


def start(arguments: Sequence[str], folder: Path, **streams: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "MINIKAFKA_BOOTSTRAP_SERVER": BOOTSTRAP}
    streams = {"stdout": subprocess.PIPE, **streams}
    return subprocess.Popen([MINIKAFKA, *arguments], cwd=folder, env=environment, text=True, **streams)


def run(recording: Recording, folder: Path, *arguments: str) -> None:
    """Run a command, shown with what it prints."""
    recording.add("minikafka " + " ".join(arguments), "in")
    with start(arguments, folder) as process:
        recording.follow(process)


def record(recording: Recording, folder: Path) -> None:
    """Start the cluster, read, kill the leader, and show the brokers."""
    arguments = ("cluster", "--brokers", "3", "--data-dir", "three")
    recording.add("minikafka " + " ".join(arguments) + " &", "in")
    cluster = start(arguments, folder, stderr=subprocess.DEVNULL)
    try:
        assert cluster.stdout is not None
        recording.add(cluster.stdout.readline().rstrip())
        recording.add(f"export MINIKAFKA_BOOTSTRAP_SERVER={BOOTSTRAP}", "in")
        run(recording, folder, "topics", "create", "flights", "--partitions", "1", "--replication-factor", "3")
        recording.add("minikafka consume flights &", "in")
        consumer = start(("consume", "flights", "--from-beginning", "-n", str(RECORDS)), folder)
        follower = threading.Thread(target=recording.follow, args=(consumer,))
        follower.start()
        produce_and_kill(recording, folder)
        follower.join()
        run(recording, folder, "brokers")
    finally:
        cluster.terminate()
        cluster.wait()


def produce_and_kill(recording: Recording, folder: Path) -> None:
    """Records at even intervals; the leader is killed between two of them."""
    producer = start(("produce", "flights"), folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert producer.stdin is not None
    for number in range(RECORDS):
        if number == KILLED_AFTER:
            pid = Path("three", f"node-{leader()}", "pid")
            recording.add(f"kill -9 $(cat {pid})        # the leader", "in")
            os.kill(int((folder / pid).read_text()), signal.SIGKILL)
        producer.stdin.write(f"flight {number + 1}, written at {time.strftime('%H:%M:%S')}\n")
        producer.stdin.flush()
        time.sleep(INTERVAL_S)
    producer.stdin.close()
    producer.wait()


def leader() -> int:
    """The node that leads the only partition."""
    with Admin(BOOTSTRAP) as admin:
        return admin.describe_topic("flights").partitions[0].leader


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording()
        record(recording, Path(folder))
    PICTURE.write_text(recording.svg())


if __name__ == "__main__":
    main()
