"""`genelin cca` on two CSV files against reading them with Polars plus the fit in memory.

The command is a process of its own, so that its start and imports count; the yardstick runs in this
one, warmed up. Each is timed several times in turn, and medians are compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from genelin import CCA
from harness import write

COLUMNS, K = 50, 10


def write_views(folder: Path, n: int) -> list[Path]:
    """Two views with shared factors, as text with all their digits."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, K))
    paths = [folder / "x.csv", folder / "y.csv"]
    for path in paths:
        rows = shared @ rng.standard_normal((K, COLUMNS)) + 3 * rng.standard_normal((n, COLUMNS))
        pl.DataFrame(rows, schema=[f"{path.stem}{j}" for j in range(COLUMNS)]).write_csv(path)
    return paths


def by_hand(paths: list[Path]) -> dict[str, float]:
    """Seconds to read with Polars, and to fit in memory."""
    began = time.perf_counter()
    frames = [pl.read_csv(path) for path in paths]
    read = time.perf_counter()
    CCA(K, reg=1e-3).fit(*frames)
    return {"read": read - began, "fit": time.perf_counter() - read}


def by_command(paths: list[Path], *options: str) -> float:
    """Seconds of the command, from its start to its end."""
    command = [sys.executable, "-m", "genelin.cli.main", "cca", *map(str, paths)]
    began = time.perf_counter()
    subprocess.run(
        [*command, "-k", str(K), "--reg", "1e-3", *options], check=True, capture_output=True
    )
    return time.perf_counter() - began


def imports() -> float:
    """Seconds to start Python and load what the command needs."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import polars; from genelin import CCA"], check=True)
    return time.perf_counter() - began


def main() -> None:
    """Compare, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = write_views(Path(folder), options.rows)
        size = sum(path.stat().st_size for path in paths) / 1e6
        by_hand(paths)
        kept = ("-o", f"{folder}/out", "--force", "--no-report")
        rounds = [
            {
                **by_hand(paths),
                "command": by_command(paths),
                "command, results kept": by_command(paths, *kept),
                "imports": imports(),
            }
            for _ in range(options.repeat)
        ]
    result = {name: median(each[name] for each in rounds) for name in rounds[0]}
    yardstick = result["read"] + result["fit"]
    print(f"two CSV files of {options.rows:,} × {COLUMNS}, {size:,.0f} MB, k = {K}\n")
    for name, seconds in result.items():
        print(f"{name:<24}{seconds:>8.2f} s")
    print(f"\ncommand / (read + fit)  {result['command'] / yardstick:>8.2f}")
    write("csv_fit", [{"rows": options.rows, "columns": COLUMNS, "seconds": result}])


if __name__ == "__main__":
    main()
