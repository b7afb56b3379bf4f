"""A linear system as an eigenvector
=================================

Section 6 of the paper: a linear system solved through one generalized eigenvector.

With A = mmᵀ and B = M, the vector that maximises wᵀAw subject to wᵀMw = 1 is

    w = M⁻¹m / √(mᵀM⁻¹m),

so the top generalized eigenvector is the solution of Mx = m up to its length, and its eigenvalue is
mᵀM⁻¹m. (The paper's display lacks the square root in the denominator.) Finding generalized
eigenvectors is therefore at least as hard as solving linear systems, and a method that only
multiplies by A and B may need Ω(√κ) products.
"""

import numpy as np

from genelin import GenELin, solvers, theory, top_k
from genelin.operators import as_operator


def solve(M, m):
    """X with Mx = m, from the top generalized eigenvector of (mmᵀ, M)."""
    d = len(m)
    A = as_operator(lambda V: np.outer(m, m @ V), shape=(d, d))  # mmᵀ is never formed
    solution = top_k(A, M, k=1, method=GenELin(solver=solvers.CG()), tol=1e-10)
    w = solution.vectors[:, 0]
    return w * (m @ w), solution  # mᵀw = √(mᵀx), the length that was normalised away


def draw(kappas, taken):
    """Steps against what any method needs to halve the error once."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(kappas, taken, "o-", label="steps of CG, to ten digits")
    least = [theory.halving_lower_bound(kappa) for kappa in kappas]
    axes.loglog(kappas, least, "s--", label="products to halve the error, at least")
    axes.set(xlabel="κ(M)", ylabel="products with M", title="Both grow like √κ")
    axes.grid(alpha=0.3)
    axes.legend()
    plt.show()


def main():
    """Solve three systems of growing condition number."""
    rng = np.random.default_rng(0)
    d, kappas, taken = 400, (1e2, 1e4, 1e6), []
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    print(f"{'κ(M)':>8}  {'‖Mx − m‖/‖m‖':>13}  {'CG steps':>8}  {'Ω(√κ) to halve':>14}")
    for kappa in kappas:
        M = (Q * np.logspace(0, np.log10(kappa), d)) @ Q.T
        M, m = (M + M.T) / 2, rng.standard_normal(d)
        x, solution = solve(M, m)
        error = np.linalg.norm(M @ x - m) / np.linalg.norm(m)
        steps = int(solution.trace.column("inner_iterations").sum())
        print(f"{kappa:>8.0e}  {error:>13.1e}  {steps:>8}  {theory.halving_lower_bound(kappa):>14}")
        taken.append(steps)
    draw(kappas, taken)


if __name__ == "__main__":
    main()
