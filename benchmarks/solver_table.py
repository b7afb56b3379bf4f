"""The paper's solver table, measured: rows read to sin θ_B ≤ 1e-6 with GD, AGD, SVRG and ASVRG.

Three sweeps of CCA problems with the same correlations: κ where rows are many (n ≫ κ̃), κ̃ where
they are few (κ̃ ≫ n), and n. Table 3 of the paper stands beside every measured growth.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from genelin import CCALin, Dense, TwoView, solvers, theory
from harness import OUT, Run, run_to, table, write

SOLVERS = ("GD", "AGD", "SVRG", "ASVRG")
CORRELATIONS = np.r_[0.9, 0.85, 0.3, 0.2, 0.1]  # k = 2: ρ = 0.65


def problem(n: int, d: int, kappa: float, seed: int = 0) -> TwoView:
    """Two views with given correlations and a log-uniform spectrum of condition number κ."""
    rng = np.random.default_rng(seed)
    Z = np.linalg.qr(rng.standard_normal((n, 2 * d)))[0] * np.sqrt(n)
    rho = np.zeros(d)
    rho[: len(CORRELATIONS)] = CORRELATIONS
    halves = Z[:, :d], rho * Z[:, :d] + np.sqrt(1 - rho**2) * Z[:, d:]
    spread = np.logspace(0, -0.5 * np.log10(kappa), d)
    turn = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(4)]
    X, Y = ((half @ turn[2 * i] * spread) @ turn[2 * i + 1] for i, half in enumerate(halves))
    return TwoView(X, Y, center=False, form=False)


def kappa_tilde(task: TwoView) -> float:
    """The paper's κ̃, the larger of both views."""
    return max(
        gram.row_blocks().squared_norms.max() / np.linalg.eigvalsh(gram.entries().dense())[0]
        for gram in (task.S_x, task.S_y)
    )


def sweep(name: str, points: list[tuple[int, float]], d: int, slowest: float) -> list[Run]:
    """All solvers at all (n, κ); GD only where it ends within minutes."""
    runs = []
    for n, kappa in points:
        task = problem(n, d, kappa)
        exact, tilde = Dense()(task, 2), kappa_tilde(task)
        for solver in SOLVERS:
            if solver == "GD" and n * kappa > slowest:
                continue
            method = CCALin(solver=getattr(solvers, solver)(max_iter=10**6))
            facts = {"sweep": name, "n": n, "kappa": kappa, "kappa_tilde": tilde}
            of = f"n={n} κ={kappa:.0f} κ̃={tilde:.0f}"
            runs.append(run_to(task, solver, method, exact, 1e-6, of=of, **facts))
            table(runs[-1:])
    return runs


def by_table3(run: Run) -> float:
    """Rows read, by Table 3 of the paper, up to a constant."""
    sizes = {key: run.facts[key] for key in ("n", "kappa", "kappa_tilde")}
    return theory.table3(run.method, d=1, k=1, rho=0.65, epsilon=1e-6, **sizes)


def growth(runs: list[Run], by: str, passes: bool) -> list[dict[str, Any]]:
    """Slopes in log–log of rows read (or passes) against n, κ or κ̃: measured and by Table 3."""
    rows = []
    for solver in SOLVERS:
        own = [r for r in runs if r.method == solver]
        if len(own) < 2:
            continue
        x = np.log([r.facts[by] for r in own])
        measured = [r.passes * (1 if passes else r.facts["n"]) for r in own]
        predicted = [by_table3(r) / (r.facts["n"] if passes else 1) for r in own]
        slopes = [float(np.polyfit(x, np.log(y), 1)[0]) for y in (measured, predicted)]
        rows.append({"solver": solver, "by": by, "measured": slopes[0], "predicted": slopes[1]})
    return rows


def draw(sweeps: dict[str, tuple[str, str, list[Run]]]) -> None:
    """Measured points with the slope of Table 3 through the first one."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(1, len(sweeps), figsize=(12, 4), layout="constrained")
    for axis, (title, (by, label, runs)) in zip(axes, sweeps.items(), strict=True):
        for colour, solver in zip(("C7", "C0", "C1", "C3"), SOLVERS, strict=True):
            own = [r for r in runs if r.method == solver]
            x = [r.facts[by] for r in own]
            y = np.array([r.passes * r.facts["n"] for r in own])
            theory_y = np.array([by_table3(r) for r in own])
            axis.loglog(x, y, "o", color=colour, label=solver)
            scale = np.exp(np.mean(np.log(y / theory_y)))
            axis.loglog(x, scale * theory_y, "-", color=colour, alpha=0.5, linewidth=1)
        axis.set(title=title, xlabel=label, ylabel="rows read to sin θ_B ≤ 1e-6")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.grid(alpha=0.2, which="both")
    axes[0].legend(frameon=False)
    figure.suptitle("Measured (points) and Table 3 of the paper (lines, scaled to the points)")
    OUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT / "solver_table.png", dpi=130)
    print(f"wrote {OUT / 'solver_table.png'}")


def main() -> None:
    """Run the sweeps, print growth, write JSON and the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sweeps, about a minute")
    quick = parser.parse_args().quick
    many, few = (8_000, 400) if quick else (40_000, 400)
    top = 100.0 if quick else 400.0
    kappas = [float(kappa) for kappa in np.geomspace(10, top, 4)]
    tilded = [float(kappa) for kappa in np.geomspace(300, 3e3 if quick else 3e4, 4)]
    ns = [int(n) for n in np.geomspace(300, many, 4)]
    sweeps = {
        "rows are many (n ≫ κ̃)": (
            "kappa", "κ", sweep("many", [(many, kappa) for kappa in kappas], 20, 2e7)
        ),
        "rows are few (κ̃ ≫ n)": (
            "kappa_tilde", "κ̃", sweep("few", [(few, kappa) for kappa in tilded], 40, 5e6)
        ),
        "number of rows": ("n", "n", sweep("n", [(n, 100.0) for n in ns], 20, 5e6)),
    }  # fmt: skip
    slopes = {title: growth(runs, by, by != "n") for title, (by, _, runs) in sweeps.items()}
    print("\nslope in log–log (passes; in the last sweep rows)        measured   Table 3")
    for title, rows in slopes.items():
        for row in rows:
            print(
                f"{title:<32}{row['solver']:<8}against {row['by']:<14}"
                f"{row['measured']:>8.2f}{row['predicted']:>10.2f}"
            )
    write("solver_table", {"runs": [r for _, _, s in sweeps.values() for r in s], "slopes": slopes})
    draw(sweeps)


if __name__ == "__main__":
    main()
