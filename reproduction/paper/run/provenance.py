"""Where and when something was measured."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

from threadpoolctl import threadpool_info

from manihash import __version__


@cache
def machine() -> dict[str, str]:
    """Versions, commit, processor and instruction set: what a number may depend on besides its trial."""
    return {
        "manihash": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "processor": _processor(),
        "cores": str(cores()),
        "instructions": _instructions(),
    }


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _commit() -> str:
    """The commit of a checkout, "unknown" for an installed package."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _instructions() -> str:
    """The instruction set that BLAS chose its kernels for."""
    import numpy as np  # noqa: F401  # loads BLAS

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    kernels = pools[0].get("architecture", "unknown") if pools else "unknown"
    known = {"AVX-512": ("SkylakeX", "Cooperlake", "Sapphire"), "AVX2": ("Haswell", "Zen")}
    return next((name for name, names in known.items() if kernels.startswith(names)), kernels)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
