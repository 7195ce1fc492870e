"""Helpers for the tests of servers: start one in its own process, and stop it."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

START_SECONDS = 60


class Running:
    """A server in its own process."""

    def __init__(self, args: list[str]) -> None:
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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
    server = Running([sys.executable, *args])
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
