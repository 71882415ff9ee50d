"""Runs the code blocks of a page, in order, in a folder of their own, against a node on ports of the test.

The ports of the pages (9092, those of a cluster and of metrics) are replaced by free ones, in what runs and in what it
prints. A page whose blocks start no node finds one at 127.0.0.1:9092. Python blocks share their names; `await` may
stand outside a function. A shell block is run by bash, which ends at the first error; what it exports is known to later
ones.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from minikafka.cli.clusters.cluster_layout import layout, ports
from minikafka.cli.local_cluster import free_port
from support.clients import eventually
from support.pages import BESIDE, OUTPUT, Block

PATIENCE_S = 240.0
"""For one block: a machine may be busy with other tests."""
PORT = 9092
METRICS_PORT = 9404
SECOND_PORT = 9192
"""Of a cluster beside a node."""
NODE = f"minikafka server --port {PORT} --data-dir kafka --set metrics.listener=http://127.0.0.1:{METRICS_PORT}"
"""For pages whose blocks start none."""

STARTS_A_NODE = re.compile(r"^minikafka (server|cluster --)", re.MULTILINE)


class BlockFailed(AssertionError):
    """A block of a page failed, or printed something else than the page says."""

    def __init__(self, block: Block, why: str) -> None:
        super().__init__(f"{block.place}: {why}\n\n{block.text}")


class Ports:
    """The ports of a page and those of the test, for each other."""

    def __init__(self) -> None:
        documented = {METRICS_PORT}
        for port in (PORT, SECOND_PORT):
            documented.update(ports(layout(brokers=3, controllers=3, isolated=False, port=port, metrics=True)))
        base = free_port(lambda base: [*(base + port - PORT for port in documented)])
        self._there = {str(port): str(base + port - PORT) for port in documented}
        self._back = {value: key for key, value in self._there.items()}

    def there(self, text: str) -> str:
        """The text of a page with the ports of the test."""
        return self._replaced(text, self._there)

    def back(self, text: str) -> str:
        """What was printed, with the ports of the page."""
        return self._replaced(text, self._back)

    @staticmethod
    def _replaced(text: str, table: dict[str, str]) -> str:
        return re.sub(rf"\b({'|'.join(table)})\b", lambda found: table[found[0]], text)


SLOW = "still waiting: "
"""Clients say so on a machine that is slower than that of the page."""


class PageRunner:
    """One page: its folder, its ports, and what runs beside its blocks.

    Args:
        folder: of the blocks; what the page saves is in it.
        programs: a folder with the command `minikafka`.
        names: what Python blocks know already.

    `/data/` in a Python block is a folder beside that of the blocks, for programs that have another working folder.
    """

    def __init__(self, folder: Path, programs: Path, names: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True)
        self._data = folder.with_name("data")
        self._names = {"__name__": "__page__", **(names or {})}
        self._beside: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._ports = Ports()
        path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "PATH": os.pathsep.join(path),
            "MINIKAFKA_BOOTSTRAP_SERVER": self._ports.there(f"127.0.0.1:{PORT}"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _output in reversed(self._beside):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process, _output in self._beside:
            try:
                process.wait(PATIENCE_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, page: Sequence[Block]) -> None:
        """Run all blocks. Raises BlockFailed."""
        if not any(STARTS_A_NODE.search(block.text) for block in page if block.language == "bash"):
            first = page[0]
            self._start(Block(first.page, first.line, "bash", BESIDE, NODE))
        said: str | Path = ""
        for block in page:
            if block.language == "text" and block.title == OUTPUT:
                self._compare(block, said)
            elif block.is_file:
                (self._folder / block.title).write_text(self._ports.there(block.text))
            elif block.language == "bash":
                said = self._start(block) if block.title == BESIDE else self._shell(block)
            elif block.language == "python":
                said = self._python(block)

    def _shell(self, block: Block) -> str:
        left = self._folder.with_name("environment")
        keep = f"trap 'env -0 >{shlex.quote(str(left))}' EXIT\n"
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", keep + self._ports.there(block.text)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        if ran.returncode:
            raise BlockFailed(block, f"exit code {ran.returncode}\n{ran.stdout}")
        self._environment = dict(one.split("=", 1) for one in left.read_text().split("\0") if one)
        return ran.stdout

    def _start(self, block: Block) -> Path:
        """Start a block that goes on beside the others; waits until a node is ready. Returns the file of its output."""
        output = self._folder / f"output-{len(self._beside)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self._ports.there(block.text)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._beside.append((process, output))
        if STARTS_A_NODE.search(block.text):

            def is_ready() -> bool:
                if process.poll() is not None:
                    raise BlockFailed(block, f"exit code {process.returncode}\n{output.read_text()}")
                return re.search("^ready ", output.read_text(), re.MULTILINE) is not None

            eventually(is_ready, timeout_s=PATIENCE_S)
        return output

    def _python(self, block: Block) -> str:
        output = io.StringIO()
        filename = f"<{block.place}>"
        try:
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            text = self._ports.there(block.text).replace("/data/", f"{self._data}/")
            code = compile(text, filename, "exec", flags, dont_inherit=True)
            with contextlib.redirect_stdout(output), contextlib.chdir(self._folder):
                result = eval(code, self._names)
                if inspect.iscoroutine(result):
                    asyncio.run(asyncio.wait_for(result, PATIENCE_S))
        except Exception as error:
            raise BlockFailed(block, f"{type(error).__name__}: {error}\n{output.getvalue()}") from error
        return output.getvalue()

    def _compare(self, block: Block, said: str | Path) -> None:
        expected = "".join(map(_pattern, block.text.strip().splitlines()))

        def found() -> str:
            text = said.read_text() if isinstance(said, Path) else said
            lines = [line.rstrip() for line in text.strip().splitlines() if not line.startswith(SLOW)]
            return self._ports.back("\n".join(lines)) + "\n"

        def matches() -> bool:
            return re.fullmatch(expected, found()) is not None

        if isinstance(said, Path):
            with contextlib.suppress(AssertionError):
                eventually(matches, timeout_s=PATIENCE_S)
        if not matches():
            raise BlockFailed(block, f"the block before printed\n{found()}\nand the page says")


def _pattern(line: str) -> str:
    """What a line of output has to match; a line that is … stands for any lines."""
    return r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + r"\n"
