import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_linnerud
from sklearn.exceptions import NotFittedError

from genelin import (
    CCA,
    CCALin,
    ConvergenceDisplay,
    CorrelationsDisplay,
    Davidson,
    GeneralizedEigen,
    LoadingsDisplay,
    ScoresDisplay,
    plot_convergence,
    plot_correlations,
    plot_loadings,
    plot_scores,
)

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def halves():
    images, y = load_digits().images / 16.0, load_digits().target
    return images[:, :, :4].reshape(len(y), -1), images[:, :, 4:].reshape(len(y), -1), y


@pytest.fixture(scope="module")
def digits():
    X, Y, y = halves()
    train = np.arange(len(y)) % 2 == 0
    fitted = CCA(8, reg=0.01).fit(X[train], Y[train])
    return SimpleNamespace(X=X, Y=Y, y=y, test=~train, cca=fitted)


def drawn_without_overlap(display):
    """Draw the figure for real: every text inside it, and the legend away from the labels."""
    figure, ax = display.figure_, display.ax_
    figure.canvas.draw()
    frame = figure.bbox
    texts = [ax.xaxis.label, ax.yaxis.label, ax.title]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    legend = ax.get_legend()
    if legend is not None:
        box = legend.get_window_extent()
        assert not any(box.overlaps(other) for other in boxes)
        boxes.append(box)
    for box in boxes:
        assert box.x0 >= frame.x0 - 1
        assert box.x1 <= frame.x1 + 1
        assert box.y0 >= frame.y0 - 1
        assert box.y1 <= frame.y1 + 1
    assert ax.get_xlabel()


def told_apart(artists):
    """Marks and lines that differ without their colours."""
    looks = [(a.get_marker(), a.get_linestyle(), a.get_fillstyle()) for a in artists]
    return len(set(looks)) == len(looks)


def test_convergence(digits):
    X, Y = digits.X, digits.Y
    first = CCA(3, reg=0.01, method=Davidson()).fit(X, Y)
    display = ConvergenceDisplay.from_estimator(first, by="passes", name="Davidson")
    trace = first.solution_.trace
    assert np.array_equal(display.line_.get_xdata(), trace.column("passes"))
    assert np.array_equal(display.line_.get_ydata(), trace.column("residual"))
    assert display.ax_.get_yscale() == "log"
    second = CCA(3, reg=0.01, method=CCALin()).fit(X, Y)
    other = plot_convergence(second, by="passes", name="CCALin", ax=display.ax_)
    assert other.ax_ is display.ax_
    assert other.tol_line_ is None  # one line for one tolerance
    assert told_apart([display.line_, other.line_])
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert shown == ["Davidson", "tol = 1e-06", "CCALin"]
    assert display.ax_.get_xlabel() == "passes over the data"
    drawn_without_overlap(display)


@pytest.mark.parametrize("by", ["iteration", "seconds", "flops", "applications"])
def test_convergence_of_generalized_eigen(by):
    X = load_digits().data
    fitted = GeneralizedEigen(2, reg=1.0, method=Davidson()).fit(X[::2], background=X[1::2])
    display = plot_convergence(fitted, by=by, color="black")
    assert display.line_.get_color() == "black"
    assert display.name == "GeneralizedEigen"
    drawn_without_overlap(display)


def test_convergence_needs_iterations(digits):
    with pytest.raises(ValueError, match=r"direct solution.*method=Davidson\(\)"):
        plot_convergence(digits.cca)
    with pytest.raises(ValueError, match="by='time' is not known"):
        plot_convergence(digits.cca, by="time")


def test_correlations(digits):
    plain = CorrelationsDisplay.from_estimator(digits.cca)
    assert len(plain.lines_) == 2
    display = plot_correlations(digits.cca, digits.X[digits.test], digits.Y[digits.test])
    canonical, fitted, held_out = (line.get_ydata() for line in display.lines_)
    assert np.array_equal(canonical, digits.cca.canonical_correlations_)
    assert np.array_equal(fitted, digits.cca.score_correlations_)
    U, V = digits.cca.transform(digits.X[digits.test], digits.Y[digits.test])
    expected = [np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)]
    assert np.allclose(held_out, expected)
    assert told_apart(display.lines_)
    drawn_without_overlap(display)
    with pytest.raises(ValueError, match="give both or neither"):
        plot_correlations(digits.cca, digits.X)


def test_correlations_without_ridge_are_one_curve():
    X, Y = load_linnerud(return_X_y=True)
    display = plot_correlations(CCA(3).fit(X, Y))
    assert len(display.lines_) == 1
    assert display.ax_.get_legend() is None
    drawn_without_overlap(display)


def test_scores(digits):
    display = ScoresDisplay.from_estimator(digits.cca, digits.X, digits.Y, component=1)
    U, V = digits.cca.transform(digits.X, digits.Y)
    assert np.array_equal(display.points_[0].get_xdata(), U[:, 1])
    assert np.array_equal(display.points_[0].get_ydata(), V[:, 1])
    r = np.corrcoef(U[:, 1], V[:, 1])[0, 1]
    assert display.ax_.get_title() == f"correlation {r:.3f}"
    drawn_without_overlap(display)


def test_scores_of_groups(digits):
    display = plot_scores(digits.cca, digits.X, digits.Y, labels=digits.y)
    assert len(display.points_) == 10
    assert sum(len(points.get_xdata()) for points in display.points_) == len(digits.y)
    assert told_apart(display.points_)
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert shown == [str(digit) for digit in range(10)]
    drawn_without_overlap(display)
    with pytest.raises(ValueError, match="1797 different values"):
        plot_scores(digits.cca, digits.X, digits.Y, labels=np.arange(1797))
    with pytest.raises(ValueError, match="labels has shape"):
        plot_scores(digits.cca, digits.X, digits.Y, labels=[1, 2])
    with pytest.raises(ValueError, match="component=8 must be an integer from 0 to 7"):
        plot_scores(digits.cca, digits.X, digits.Y, component=8)


def test_loadings(digits):
    display = LoadingsDisplay.from_estimator(digits.cca, component=2, max_features=7)
    for values, loadings, names, view in (
        (display.x_loadings, digits.cca.x_loadings_, display.x_names, "x"),
        (display.y_loadings, digits.cca.y_loadings_, display.y_names, "y"),
    ):
        column = loadings[:, 2]
        assert len(values) == 7
        assert np.all(np.diff(np.abs(values)) <= 0)
        assert np.abs(values[-1]) >= np.sort(np.abs(column))[-7]
        assert [column[int(name.removeprefix(view))] for name in names] == values.tolist()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == [*display.x_names, *display.y_names]
    heights = np.concatenate([points.get_ydata() for points in display.points_])
    assert np.array_equal(heights, display.ax_.get_yticks())
    assert told_apart(display.points_)
    drawn_without_overlap(display)


def test_loadings_take_names(digits):
    digits.cca.feature_names_in_ = np.array([f"left {place}" for place in range(32)])
    y_names = [f"right {place}" for place in range(32)]
    display = plot_loadings(digits.cca, max_features=40, y_names=y_names)
    assert sorted(display.x_names) == sorted(digits.cca.feature_names_in_)
    assert sorted(display.y_names) == sorted(y_names)
    drawn_without_overlap(display)
    del digits.cca.feature_names_in_
    with pytest.raises(ValueError, match="y_names has 2 names for 32 features"):
        plot_loadings(digits.cca, y_names=["a", "b"])
    with pytest.raises(ValueError, match="max_features=0"):
        plot_loadings(digits.cca, max_features=0)


def test_scores_in_frames(digits):
    pytest.importorskip("pandas")
    expected = plot_correlations(digits.cca, digits.X, digits.Y).held_out
    framed = CCA(8, reg=0.01).set_output(transform="pandas")
    framed.fit(digits.X[~digits.test], digits.Y[~digits.test])
    assert np.allclose(plot_correlations(framed, digits.X, digits.Y).held_out, expected)
    assert len(plot_scores(framed, digits.X, digits.Y).points_) == 1


def test_axes_and_looks_can_be_given(digits):
    figure, axes = plt.subplots(1, 2, layout="constrained")
    left = plot_correlations(digits.cca, ax=axes[0])
    right = plot_scores(digits.cca, digits.X, digits.Y, ax=axes[1], marker="*")
    assert left.figure_ is right.figure_ is figure
    assert right.points_[0].get_marker() == "*"
    again = left.plot()  # the same data in new axes
    assert again.ax_ is not axes[0]


def test_what_cannot_be_drawn(digits):
    X = load_digits().data
    other = GeneralizedEigen(2, reg=1.0).fit(X[::2], background=X[1::2])
    for draw in (plot_correlations, plot_loadings):
        with pytest.raises(TypeError, match=r"GeneralizedEigen has no .* draws a fitted"):
            draw(other)
    with pytest.raises(TypeError, match="ScoresDisplay draws a fitted"):
        plot_scores(other, X, X)
    with pytest.raises(NotFittedError):
        plot_correlations(CCA())


def test_without_matplotlib(digits, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'genelin\[plot\]'"):
        plot_correlations(digits.cca)
