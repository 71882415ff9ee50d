"""A Spark cluster of two workers in the JVM of the driver: its executors are processes, and speculation works.

Spark speculates neither with the master `local` nor on the same host, so that the workers have addresses of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext

from support.spark_keeper import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS = ("CoarseGrainedExecutorBackend",)
"""Words in the command lines of executors."""
_HOSTS = ("127.0.0.2", "127.0.0.3")
_CORES, _MEMORY_MIB = 2, 512
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2",
}


def speculative_session(folder: Path) -> SparkSession:
    """Starts a cluster and a session with it. FOLDER/events has the event logs, FOLDER/work the executors' output."""
    from pyspark.sql import SparkSession

    events = folder / "events"
    events.mkdir(exist_ok=True)
    settings = small() | _SPECULATION | {
        "spark.executor.memory": f"{_MEMORY_MIB}m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xss4m",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }  # fmt: skip
    configuration = SparkConf()
    for name, value in settings.items():
        configuration.set(name, value)
    SparkContext._ensure_initialized(conf=configuration)
    return SparkSession.builder.master(_started(folder)).config(map=settings).getOrCreate()


def _started(folder: Path) -> str:
    """Starts the master and the workers; returns the master's address."""
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    deploy, configuration = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf()
    configuration.set("spark.deploy.maxExecutorRetries", "-1")
    master: Any = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, configuration)
    address = f"spark://127.0.0.1:{master._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = address
    for number, host in enumerate(_HOSTS):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, _CORES, _MEMORY_MIB, masters, str(folder / "work"), jvm.scala.Option.apply(number),
            configuration, jvm.scala.Option.empty(),
        )  # fmt: skip
    return address


def speculative_attempts(folder: Path) -> Counter[str]:
    """What became of the speculative attempts of tasks, by the event logs of all drivers; `started` counts all."""
    found: Counter[str] = Counter()
    for path in (folder / "events").glob("**/events_*"):
        for line in path.read_text().splitlines():
            if '"Speculative":true' not in line:
                continue
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the last line of a driver that was killed
            if event["Event"] == "SparkListenerTaskStart":
                found["started"] += 1
            elif event["Event"] == "SparkListenerTaskEnd":
                found[event["Task End Reason"]["Reason"]] += 1
    return found
