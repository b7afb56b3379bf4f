"""A million rows, κ of 500 to 1,000, κ̃ ≤ n/10: passes over the data to sin θ_B ≤ 1e-3.

Dense with 100 + 100 features and sparse with 6 nonzeros per row; stochastic solvers against AGD in
the same run, at the paper's strict inner accuracy and at a loose one, with CG for comparison.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy import sparse

from genelin import CCALin, Dense, TwoView, solvers
from harness import Run, run_to, table, write


def dense_views(n: int, d: int = 100, kappa: float = 700.0) -> TwoView:
    """Gaussian views; three strong correlations, log-uniform spectra."""
    rng = np.random.default_rng(0)
    strong = np.array([0.9, 0.8, 0.7])
    shared = rng.standard_normal((n, 3))
    spread = np.logspace(0, -0.5 * np.log10(kappa), d)
    views = []
    for _ in range(2):
        turn = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2)]
        Z = rng.standard_normal((n, d))
        Z[:, :3] = np.sqrt(strong) * shared + np.sqrt(1 - strong) * Z[:, :3]
        views.append((Z @ turn[0] * spread) @ turn[1])
    return TwoView(*views, form=False)


def sparse_views(n: int, d: int = 1000, ridge: float = 2.6e-4) -> TwoView:
    """Six words per row and view, most from the topic that the row has in both views."""
    topic = np.random.default_rng(0).integers(0, 4, n)
    shares = np.cumsum(1 / np.arange(1, d + 1) ** 0.9)

    def view(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        words = np.searchsorted(shares / shares[-1], rng.random((n, 6)))
        by_topic = np.stack([rng.permutation(d) for _ in range(4)])[topic[:, None], words]
        words = np.where(rng.random((n, 6)) < 0.7, by_topic, rng.permutation(d)[words])
        ones, rows = np.ones(6 * n), np.repeat(np.arange(n), 6)
        return sparse.csr_array((ones, (rows, words.ravel())), shape=(n, d))

    return TwoView(view(1), view(2), reg=ridge, form=False)


def describe(task: TwoView) -> dict[str, float]:
    """κ and κ̃, the larger of both views."""
    facts = {"kappa": 0.0, "kappa_tilde": 0.0}
    for gram in (task.S_x, task.S_y):
        weights = np.linalg.eigvalsh(gram.entries().dense())
        longest = gram.row_blocks().squared_norms.max()
        facts["kappa"] = max(facts["kappa"], float(weights[-1] / weights[0]))
        facts["kappa_tilde"] = max(facts["kappa_tilde"], float(longest / weights[0]))
    return facts


def main() -> None:
    """Run all solvers on both problems, print ratios, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--solvers", nargs="+", default=["SVRG", "ASVRG", "MinibatchAGD", "CG"])
    options = parser.parse_args()
    n = options.rows
    runs: list[Run] = []
    for name, make in (("dense 100 + 100", dense_views), ("sparse, 6 per row", sparse_views)):
        task = make(n)
        exact, facts = Dense()(task, 3), describe(task)
        print(f"{name}: n = {n:,}, κ = {facts['kappa']:.0f}, κ̃ = n·{facts['kappa_tilde'] / n:.3f}")
        for solver in (*options.solvers, "AGD"):
            for delta in (1e-1, 1e-4):
                method = CCALin(solver=getattr(solvers, solver)(), reduction=delta)
                label = f"{solver}, δ = {delta:g}"
                runs.append(run_to(task, label, method, exact, 1e-3, of=name, **facts))
                table(runs[-1:])
        own = {r.method: r.passes for r in runs if r.problem == name}
        for delta in (1e-1, 1e-4):
            agd = own[f"AGD, δ = {delta:g}"]
            for solver in options.solvers:
                ratio = agd / own[f"{solver}, δ = {delta:g}"]
                print(f"{name}, δ = {delta:g}: AGD reads {ratio:.1f} times as much as {solver}")
    print()
    table(runs)
    write("many_rows", runs)


if __name__ == "__main__":
    main()
