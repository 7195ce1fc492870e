"""Tasks of the processes in the campaign of threads and processes; light to import."""

import contextlib
import os
import sys
from pathlib import Path

import numpy as np


def write_often(folder, name, versions, seed):
    """Save one of the objects under the name of the target again and again, in a random order.

    A writer of an index that another one writes to is refused and leaves the file as it is.
    """
    rng = np.random.default_rng([seed, os.getpid()])
    for i in rng.integers(len(versions), size=6):
        with contextlib.suppress(BlockingIOError):
            versions[i].save(Path(folder) / name)


def run_command(folder, args, results):
    """Run the command in a folder, and put its exit code and its messages into a queue."""
    os.chdir(folder)
    from typer.testing import CliRunner

    import manihash.files.resumable as resumable
    import manihash.rows.local as local
    from manihash.cli._app import app

    sys.setswitchinterval(1e-6)
    resumable._CHECKPOINT_SECONDS = local._STREAM_SECONDS = 0.001
    done = CliRunner().invoke(app, args)
    results.put((done.exit_code, done.output))


def _commit(path, first, acknowledged):
    """Add rows to an index file until the end of the process, and send the ids that are acknowledged."""
    from manihash.search.durable import DurableIndex
    from manihash.search.journal import ADD, Change

    try:
        durable = DurableIndex(path)
    except BlockingIOError:
        return
    for i in range(first, first + 5000, 2):
        codes = np.zeros((2, durable.index.codes.shape[1]), np.uint8)
        ids = durable.commit([Change(ADD, np.arange(i, i + 2), codes)])[0]
        acknowledged.send(ids.tolist())
        if i % 20 == 0:
            durable.compact()


def killed_committer(path, first, seconds):
    """Add rows to an index file in a process that is killed after some seconds; return acknowledged ids."""
    from killed_command import CONTEXT

    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_commit, args=(str(path), first, sender))
    process.start()
    sender.close()
    process.join(seconds)
    process.kill()
    process.join()
    acknowledged = set()
    try:
        while True:
            acknowledged.update(receiver.recv())
    except (EOFError, OSError):
        return acknowledged
