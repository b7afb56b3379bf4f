"""Two versions of genelin on the workloads of default.py, in turns.

python benchmarks/before_after.py OTHER/src                    # all, this tree against the other
python benchmarks/before_after.py OTHER/src --only mnist ptb   # some of them

A process of its own for each version loads a workload and solves it when it is told to, so that
both meet the same drift of the machine. The table has medians, and the ratio of the medians and of
the quickest runs: below one, this tree is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from harness import write

HERE = Path(__file__).resolve().parent
VERSIONS = ("before", "after")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the folder src of the version before")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORKLOAD")
    parser.add_argument("--seconds", type=float, default=20.0, help="for all runs of a workload")
    parser.add_argument("--most", type=int, default=15, help="runs of a version")
    parser.add_argument("--quick", action="store_true", help="reduced sizes")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.quick)
        return
    from default import cases

    chosen = [case for case in cases() if not (options.only and case.workload not in options.only)]
    line = "{:20}{:>10}{:>10}{:>10}{:>10}{:>6}"
    print(line.format("case", "before s", "after s", "medians", "quickest", "runs"), flush=True)
    rows = []
    for case in chosen:
        if case.cold:  # compiling is not repeated
            continue
        row = compared(case.name, options)
        rows.append(row)
        times = f"{row['before']:.3f}", f"{row['after']:.3f}"
        ratios = f"{row['ratio']:.3f}", f"{row['ratio_of_quickest']:.3f}"
        print(line.format(case.name, *times, *ratios, row["runs"]), flush=True)
    ratios = [row["ratio"] for row in rows]
    print(f"median of all {statistics.median(ratios):.3f}, largest {max(ratios):.3f}")
    write("before_after", {"rows": rows})


def compared(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Both versions in turns, a round after the other, until the time is up."""
    sources = {"before": options.other.resolve(), "after": HERE.parent / "src"}
    workers = {version: Worker(name, source, options) for version, source in sources.items()}
    times: dict[str, list[float]] = {version: [] for version in VERSIONS}
    while len(times["after"]) < options.most:
        order = VERSIONS if len(times["after"]) % 2 else VERSIONS[::-1]
        for version in order:
            times[version].append(workers[version].run())
        spent = sum(map(sum, times.values()))
        if spent > options.seconds and len(times["after"]) >= 3:
            break
    for worker in workers.values():
        worker.close()
    before, after = (statistics.median(times[version]) for version in VERSIONS)
    return {
        "case": name,
        "before": before,
        "after": after,
        "ratio": after / before,
        "ratio_of_quickest": min(times["after"]) / min(times["before"]),
        "runs": len(times["after"]),
        "times": times,
    }


class Worker:
    """A process with one version of genelin and a workload."""

    def __init__(self, name: str, source: Path, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, str(source), "--serve", name]
        self._process = subprocess.Popen(
            command + ["--quick"] * options.quick,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(source)},
        )
        self._ask("load")

    def _ask(self, what: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with code {self._process.wait()}")
        return json.loads(line)

    def run(self) -> float:
        """Seconds of one solution."""
        return float(self._ask("run"))

    def close(self) -> None:
        """End the process."""
        with self._process as process:
            process.kill()


def serve(name: str, quick: bool) -> None:
    """Load a workload and warm up; solve it for every line that comes in."""
    from default import OURS, cases, timed

    warnings.simplefilter("ignore")
    case = next(case for case in cases() if case.name == name)
    task = None
    for _ in sys.stdin:
        if task is None:
            tiny = case.tiny()
            for _ in range(2):
                timed(tiny, OURS, tiny.tol, 600.0)
            task = case.quick() if quick else case.full()
            print(json.dumps("loaded"), flush=True)
        else:
            print(json.dumps(timed(task, OURS, task.tol, 600.0)[1]["seconds"]), flush=True)


if __name__ == "__main__":
    main()
