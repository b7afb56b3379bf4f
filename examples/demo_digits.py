"""The paper's algorithm on halves of digits
=========================================

CCA between the left and right halves of handwritten digits, as in the paper's Figures 1 and 2.

The paper cuts MNIST images in two; this demo cuts the 1,797 digits that come with scikit-learn.
It runs CCALin (Algorithm 3) with accelerated gradient descent (Algorithm 4), compares the result
with the exact one, and draws the convergence. Run it with `make demo`.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from genelin import CCALin, Dense, TwoView, measures, solvers, top_k_cca

K, REG = 5, 1e-2


def halves():
    """Left and right 8×4 halves of every image, pixels in [0, 1]."""
    images = load_digits().images / 16.0
    return images[:, :, :4].reshape(len(images), -1), images[:, :, 4:].reshape(len(images), -1)


class Angles:
    """Callback: sines of θ_B, θ_x, θ_y against the exact answer, one row per outer iteration."""

    def __init__(self, problem, exact):
        self.problem, self.exact, self.rows = problem, exact, []
        self.before = None

    def steady(self, W):
        """The same space in the basis closest to the last one: signs of Ritz vectors may flip."""
        if self.before is not None:
            left, _, right = np.linalg.svd(W.T @ (self.problem.pencil.B @ self.before))
            W = W @ (left @ right)
        self.before = W
        return W

    def __call__(self, record, W):
        """Measure the basis W of one outer iteration."""
        W = self.steady(W)
        Vx, Vy = self.exact.x_weights, self.exact.y_weights
        U = np.random.default_rng(0).standard_normal((2 * K, K))  # the projection of Algorithm 3
        Wx, Wy = (half @ U for half in np.split(W, [self.problem.X.d]))
        self.rows.append(
            (
                record.iteration,
                measures.sin_theta_b(self.problem, W, Vx, Vy),
                measures.sin_theta_x(self.problem, Wx, Vx),
                measures.sin_theta_y(self.problem, Wy, Vy),
                measures.pcc(self.problem, Wx, Wy, Vx, Vy),
                record.inner_iterations,
            )
        )


def print_correlations(pairs, exact):
    """The canonical correlations beside the exact ones."""
    print(
        f"\n{'pair':>4}  {'correlation':>12}  {'exact':>12}  {'difference':>10}  {'residual ≤':>10}"
    )
    rows = zip(pairs.correlations, exact.correlations, pairs.residuals, strict=True)
    for j, (value, reference, residual) in enumerate(rows, start=1):
        print(
            f"{j:>4}  {value:>12.9f}  {reference:>12.9f}  {value - reference:>10.1e}"
            f"  {residual:>10.1e}"
        )


def print_convergence(rows):
    """A line for some of the outer iterations."""
    print(
        f"\n{'iteration':>9}  {'sin θ_B':>9}  {'sin θ_x':>9}  {'sin θ_y':>9}  {'PCC':>8}  AGD steps"
    )
    chosen = sorted({*range(0, len(rows), max(1, len(rows) // 12)), len(rows) - 1})
    for t, sin_b, sin_x, sin_y, captured, inner in (rows[i] for i in chosen):
        print(f"{t:>9}  {sin_b:>9.1e}  {sin_x:>9.1e}  {sin_y:>9.1e}  {captured:>8.5f}  {inner:>9}")


def draw(rows, path):
    """Figures 1 and 2 of the paper for these data; written aside, then renamed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    t, sin_b, sin_x, sin_y, captured, _ = np.array(rows).T
    early = t <= 100  # all there is to see on a linear scale
    sparse = np.unique(np.linspace(0, len(t) - 1, 40).astype(int))  # so that marks do not overlap
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(t[early], captured[early], ":", color="black", label="PCC")
    left.plot(t[early], np.sqrt(1 - sin_b[early] ** 2), color="#0b5394", label="cos θ$_B$")
    right.semilogy(t, sin_b, color="#0b5394", label="sin θ$_B$")
    for name, sines, mark, colour in (("x", sin_x, "o", "#b45f06"), ("y", sin_y, "x", "#38761d")):
        look = {"linestyle": "", "marker": mark, "color": colour, "fillstyle": "none"}
        cosines = np.sqrt(1 - sines[early] ** 2)
        left.plot(t[early][::2], cosines[::2], **look, label=f"cos θ$_{name}$")
        right.plot(t[sparse], sines[sparse], **look, label=f"sin θ$_{name}$")
    left.set(xlabel="outer iteration", ylabel="cosine, proportion", title="Global convergence")
    right.set(xlabel="outer iteration", ylabel="sine", title="Linear convergence")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(f"CCALin with AGD: left against right halves of digits, k = {K}, ridge {REG:g}")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    figure.savefig(aside, dpi=150, format="png")
    aside.replace(path)


def main():
    """Solve, compare, draw."""
    parser = argparse.ArgumentParser(description="CCALin on the halves of digits.")
    parser.add_argument("--output", type=Path, default=Path("out/demo_digits.png"))
    path = parser.parse_args().output
    X, Y = halves()
    print(f"CCALin with accelerated gradient descent: {len(X)} digits, {X.shape[1]} left and")
    print(f"{Y.shape[1]} right pixels, {K} canonical pairs, ridge {REG:g}")
    problem = TwoView(X, Y, REG)
    exact = Dense()(problem, K)
    angles = Angles(problem, exact)
    method = CCALin(solver=solvers.AGD())
    pairs = top_k_cca(X, Y, k=K, reg=REG, method=method, tol=1e-8, callback=angles)
    print_convergence(angles.rows)
    print_correlations(pairs, exact)
    print(f"\n{pairs}")
    draw(angles.rows, path)
    print(f"\nPicture: {path}")


if __name__ == "__main__":
    main()
