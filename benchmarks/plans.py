"""Plans against runs: what `plan_cca` and `plan_top_k` predict for the problems of `default.py`.

Every problem has a process of its own, in which a small one of the same kind is solved first. The
plan is made, then what it is a plan for is run: the ratio is that of the longer to the shorter, and
should be at most 3. The routes that were predicted and taken are compared as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from typing import Any

from default import Views, cases
from genelin import plan_cca, plan_top_k, top_k, top_k_cca
from harness import write
from peers import Counted

MOST = 3.0
SKIPPED = ("first_call",)


def measured(task: Any) -> dict[str, Any]:
    """Seconds that were predicted and taken, passes, and both routes."""
    if isinstance(task, Views):
        settings = {"k": task.k, "reg": task.reg, "center": task.center, "tol": task.tol}
        plan = plan_cca(task.X, task.Y, **settings)
        start = time.perf_counter()
        found: Any = top_k_cca(task.X, task.Y, **settings)
    else:
        A, B = (
            Counted(M) if name in task.hidden else M
            for name, M in zip("AB", (task.A, task.B), strict=True)
        )
        given = (A, None if task.plain else B, task.k)
        plan = plan_top_k(*given, which=task.which, tol=task.tol)
        start = time.perf_counter()
        found = top_k(*given, which=task.which, tol=task.tol)
    seconds, predicted = time.perf_counter() - start, plan.chosen.seconds
    taken = found.route.split(":")[0]
    return {
        "predicted": predicted,
        "seconds": seconds,
        "ratio": max(predicted / seconds, seconds / predicted),
        "passes_foreseen": plan.chosen.passes,
        "passes": found.cost.passes,
        "planned": plan.chosen.name,
        "taken": taken,
    }


def main() -> None:
    """Run all problems, print the table, write JSON."""
    listed = [case for case in cases() if case.workload not in SKIPPED]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="workloads or cases")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one problem")
    parser.add_argument("--quick", action="store_true", help="reduced sizes")
    parser.add_argument("--tol", type=float, help="another tolerance than that of the problems")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        case = next(case for case in listed if case.name == options.child)
        measured(case.tiny())
        task = (case.quick if options.quick else case.full)()
        print(json.dumps(measured(replace(task, tol=options.tol or task.tol))))
        return
    print(f"{'case':<24}{'predicted':>10}{'seconds':>10}{'ratio':>7}{'passes':>16}  route")
    rows = {}
    for case in listed:
        if options.only and not {case.name, case.workload} & set(options.only):
            continue
        command = [sys.executable, __file__, "--child", case.name]
        command += ["--quick"] if options.quick else []
        command += [f"--tol={options.tol}"] if options.tol else []
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=options.limit, check=True
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            print(f"{case.name:<24}{type(error).__name__}", flush=True)
            continue
        row = rows[case.name] = json.loads(done.stdout.splitlines()[-1])
        passes = f"{row['passes_foreseen']:.3g} → {row['passes']:.3g}"
        route = row["planned"] + ("" if row["planned"] == row["taken"] else f" → {row['taken']}")
        print(
            f"{case.name:<24}{row['predicted']:>10.3g}{row['seconds']:>10.3g}{row['ratio']:>7.2f}"
            f"{passes:>16}  {route}{'' if row['ratio'] <= MOST else '  NOT MET'}",
            flush=True,
        )
    write("plans-quick" if options.quick else "plans", rows)


if __name__ == "__main__":
    main()
