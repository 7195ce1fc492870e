"""Zip bombs and odd Parquet and HDF5 files: the numbers they hold or a clean error, in little memory.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = int(os.environ.get("MANIHASH_CASES", "200"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
PROGRAM = Path(__file__).parent.parent / "crafted_files.py"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_a_crafted_file_is_refused_or_read_as_it_is(tmp_path):
    for module in ("pyarrow", "h5py"):
        pytest.importorskip(module)
    faults, start, stop = [], FIRST, FIRST + CASES
    while start < stop and len(faults) < 20:
        command = [sys.executable, "-W", "ignore", str(PROGRAM), str(tmp_path), str(start), str(stop)]
        ran = subprocess.run(command, capture_output=True, text=True)
        lines = ran.stdout.splitlines()
        faults += [line for line in lines if line.startswith("fault")]
        last = [line for line in lines if line.startswith("case")]
        assert last, ran.stderr
        if ran.returncode:
            faults.append(f"{last[-1]} ended the process with {ran.returncode}: {ran.stderr[-300:]}")
        start = int(last[-1].split()[1]) + 1
    assert not faults, "\n".join(faults)
