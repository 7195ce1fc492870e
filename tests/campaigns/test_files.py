"""Damaged and crafted files: a clean error or a result, never a crash, and little memory.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from file_mutations import write_originals

CASES = int(os.environ.get("MANIHASH_CASES", "400"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
PROGRAM = Path(__file__).parent.parent / "file_mutations.py"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_a_mutated_file_is_refused_or_read_without_a_crash(tmp_path):
    write_originals(tmp_path)
    faults, start, stop = [], FIRST, FIRST + CASES
    while start < stop and len(faults) < 20:
        ran = subprocess.run(
            [sys.executable, str(PROGRAM), str(tmp_path), str(start), str(stop)],
            capture_output=True,
            text=True,
        )
        lines = ran.stdout.splitlines()
        faults += [line for line in lines if line.startswith("fault")]
        last = [line for line in lines if line.startswith("case")]
        assert last, ran.stderr
        if ran.returncode:
            faults.append(f"{last[-1]} ended the process with {ran.returncode}: {ran.stderr[-300:]}")
        start = int(last[-1].split()[1]) + 1
    assert not faults, "\n".join(faults)
