"""Helpers for the tests of servers: start one in its own process, and stop it."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

START_SECONDS = 60


class Running:
    """A server in its own process."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.lines: list[str] = []
        self.url = ""
        self._announced = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line)
            if not self.url and (found := re.search(r"http://\S+:\d+", line)):
                self.url = found.group()
                self._announced.set()
        self._announced.set()

    @property
    def output(self) -> str:
        """All lines that the server has printed."""
        return "".join(self.lines)

    def wait_until_ready(self) -> None:
        """Wait until the server has printed its address."""
        assert self._announced.wait(START_SECONDS), self.output
        assert self.url, self.output

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(START_SECONDS)
        self._reader.join()
        return code


@contextmanager
def running(*args: str) -> Iterator[Running]:
    """Run ``python ARGS`` until the end of the block, from when it has printed an address."""
    command = [sys.executable, *args]
    with _ready(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ) as server:
        yield server


@contextmanager
def _ready(process: Any) -> Iterator[Running]:
    server = Running(process)
    try:
        server.wait_until_ready()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@contextmanager
def serving(*args: str) -> Iterator[Running]:
    """Run ``manihash serve ARGS`` on a free port."""
    with running("-m", "manihash", "serve", *map(os.fspath, args), "--port", "0") as server:
        yield server


class _Fork:
    """The command, forked from a process that has its modules; as much of ``Popen`` as is needed here."""

    def __init__(self, args: list[str]) -> None:
        import killed_command

        receiver, sender = killed_command.CONTEXT.Pipe(duplex=False)
        self._process = killed_command.CONTEXT.Process(target=_command, args=(args, sender))
        self._process.start()
        sender.close()
        self.stdout = os.fdopen(os.dup(receiver.fileno()))

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, seconds: float | None = None) -> int | None:
        self._process.join(seconds)
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode


def _command(args: list[str], output: Any) -> None:
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1) for number in (1, 2))
    from manihash.cli import main

    sys.argv = ["manihash", *args]
    main()


@contextmanager
def forked_serving(*args: str) -> Iterator[Running]:
    """As ``serving``, but in a fraction of the time, since the modules of the command are there."""
    with _ready(_Fork(["serve", *map(os.fspath, args), "--port", "0"])) as server:
        yield server
