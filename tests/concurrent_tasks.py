"""Tasks of the processes in the campaign of threads and processes; light to import."""

import os
import sys
from pathlib import Path

import numpy as np


def write_often(folder, name, versions, seed):
    """Save one of the objects under the name of the target again and again, in a random order."""
    rng = np.random.default_rng([seed, os.getpid()])
    for i in rng.integers(len(versions), size=6):
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
