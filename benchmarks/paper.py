"""Run all experiments of the paper with one seed: ``make bench-paper`` (needs all datasets; resumable).

Writes figures, tables and claims to docs/results/paper, and what the run was to docs/results/paper.json.
Finished trials are kept in build/paper-results and are not run again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from _results import FOLDER, ROOT, record

KEPT = ("claims.csv", "claims.json", "tables/*.csv", "figures/*.csv", "figures/*.svg")
PART = "all experiments, one seed"


def run(results: Path, out: Path, jobs: int) -> None:
    """Run the trials that have no result, and write the report."""
    command = [sys.executable, "-m", "manihash", "paper", "--seeds", "1", "--jobs", str(jobs)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([*command, "--results", str(results), "--out", str(out)], env=env, check=True)


def keep(out: Path, folder: Path) -> None:
    """Replace the kept files of the last report by those of a new one."""
    if folder.exists():
        shutil.rmtree(folder)
    for pattern in KEPT:
        for path in sorted(out.glob(pattern)):
            target = folder / path.relative_to(out)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def minutes(results: Path) -> float:
    """The minutes of all trials of a run; those that ran at the same time share them."""
    found = [json.loads(path.read_text("utf-8")) for path in results.rglob("*.json")]
    return sum(each["seconds"]["all"] / int(each["about"]["jobs"]) for each in found) / 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="trials that are measured at once")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "paper-results")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "paper-report")
    options = parser.parse_args()
    run(options.results, options.out, options.jobs)
    keep(options.out, FOLDER / "paper")
    claims: dict[str, Any] = json.loads((options.out / "claims.json").read_text("utf-8"))
    about = claims["about"]
    os.environ["MANIHASH_COMMIT"] = about["commit"]  # of the trials, some of which may have run earlier
    counts = claims["counts"] | {"claims": len(claims["claims"])}
    figures = {"trials": int(about["trials"].replace(",", "")), "minutes": round(minutes(options.results), 1)}
    record("paper", PART, counts | figures, machine={"cores": about["cores"]})


if __name__ == "__main__":
    main()
