"""The commands `minikafka` and `python FILE` for tests that run many: each is a fork of one process.

That process has imported everything.

    with ForkedCommands(folder) as commands:
        run(["bash", "-c", "minikafka topics list"], PATH=f"{commands.bin}:{PATH}")

A command costs a tenth of what a new process costs. The command in `bin` passes its descriptors, arguments, environment
and folder to the server, then the signals that it gets; it ends with the exit code of the fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

SHIM = """\
#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
told = json.dumps([[{name!r}, *sys.argv[1:]], dict(os.environ), os.getcwd()]).encode()
socket.send_fds(server, [len(told).to_bytes(4, "big")], [0, 1, 2])
server.sendall(told)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: server.send(bytes([number])))
sys.exit(int(server.recv(16) or b"70"))
"""


class ForkedCommands:
    """The server process, and the folder `bin` with the command."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        path = folder / "commands"
        for name in ("minikafka", "python"):
            shim = self.bin / name
            shim.write_text(SHIM.format(python=sys.executable, path=str(path), name=name))
            shim.chmod(0o755)
        command = [sys.executable, __file__, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        """The server ends, and kills its forks, at the end of its input, also if this process dies."""
        with self._process:
            pass


class Server:
    """Forks a command for each connection, until its standard input ends. Each fork ends with its connection."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._woken, wake = socket.socketpair()
        for one in (self._woken, wake):
            one.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._on(self._listener, self._accept)
        self._on(self._woken, self._reap)
        self._on(sys.stdin, self._end)

    def run(self) -> None:
        print("ready", flush=True)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _on(self, file: Any, call: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, call)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        size, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        told = json.loads(_exactly(connection, int.from_bytes(size, "big")))
        pid = os.fork()
        if pid == 0:
            self._become(descriptors, *told)
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[pid] = connection
        self._on(connection, lambda: self._hear(connection, pid))

    def _become(self, descriptors: list[int], arguments: list[str], environment: dict[str, str], folder: str) -> None:
        """The rest of the life of the fork: the command."""
        code: object = 70
        try:
            self._selector.close()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
            for one in (self._listener, self._woken, self._wake, *self._children.values()):
                one.close()
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            _run(*arguments)
            code = 0
        except SystemExit as end:
            code = end.code
        finally:
            if (error := sys.exc_info()[1]) is not None:
                traceback.print_exception(error)
            with contextlib.suppress(BrokenPipeError):
                sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else int(code is not None))

    def _hear(self, connection: socket.socket, pid: int) -> None:
        """A signal for the fork; or the command has been killed, and the fork is."""
        numbers = connection.recv(16) or bytes([signal.SIGKILL])
        if pid in self._children:
            for number in numbers:
                os.kill(pid, number)
        if signal.SIGKILL in numbers:
            self._selector.unregister(connection)

    def _reap(self) -> None:
        self._woken.recv(64)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                connection = self._children.pop(ended[0])
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                code = os.waitstatus_to_exitcode(ended[1])
                with connection, contextlib.suppress(OSError):
                    connection.send(b"%d" % (code if code >= 0 else 128 - code))

    def _end(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        sys.exit()


def _run(name: str, *arguments: str) -> None:
    if name == "minikafka":
        sys.argv = [name, *arguments]
        importlib.import_module("minikafka.cli.main").main(list(arguments))
    sys.argv = list(arguments)
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def _import_everything() -> None:
    main = importlib.import_module("minikafka.cli.main")
    for command in main.COMMANDS:
        importlib.import_module(main.module_of(command))
    for name in ("broker.node.main", "broker.node.node", "client.blocking", "client", "controller.quorum_controller"):
        importlib.import_module(f"minikafka.{name}")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_everything()
    Server(sys.argv[1]).run()
