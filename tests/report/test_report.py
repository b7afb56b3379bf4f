import base64
import hashlib
import subprocess
import sys
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris

from genelin import (
    CCA,
    CCALin,
    Davidson,
    GeneralizedEigen,
    RankDeficiencyWarning,
    Status,
    plan_cca,
    top_k,
    top_k_cca,
)
from genelin.io import open_rows
from genelin.report import write_figures, write_report
from genelin.report.report_model import report_model_of
from genelin.report.reproduction_steps import snippet
from genelin.report.score_sample import MOST_POINTS, drawn_scores, held_out_correlations
from genelin.report.summary_text import cautions, verdict
from genelin.solvers import AGD

pytest.importorskip("bokeh", reason="reports are drawn with Bokeh: pip install 'genelin[report]'")

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!-- <script>",
    "{{ 7 * 7 }}",
    "$$\\alpha$$",
    "$x_{$ \\u2028 \u2028",
    "\x00\ud800\U0001f9ea" + "x" * 300,
]


class Page(HTMLParser):
    """Elements of a page, the text outside of scripts, and that of each script."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.scripts, self._inside = [], "", [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    def attributes(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def written(tmp_path, estimator, **options):
    path = write_report(tmp_path / "report.html", estimator, **options)
    return Page(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits().images / 16.0, load_digits().target
    X, Y = images[:, :, :4].reshape(len(labels), -1), images[:, :, 4:].reshape(len(labels), -1)
    cca = CCA(6, reg=1e-2, method=Davidson(), random_state=0).fit(X[:1200], Y[:1200])
    return SimpleNamespace(X=X, Y=Y, labels=labels, cca=cca)


# --- What it says --------------------------------------------------------------------------------


def test_a_page_tells_it_all(tmp_path, digits):
    page = written(
        tmp_path,
        digits.cca,
        X=digits.X[:1200],
        y=digits.Y[:1200],
        held_out=(digits.X[1200:], digits.Y[1200:]),
        title="Halves of digits",
        data={"Source": "scikit-learn"},
        settings={"command": "genelin cca left.npy right.npy -k 6"},
        plan=plan_cca(digits.X, digits.Y, 6),
        timings={"reading": 0.25},
    )
    expected = [
        "Halves of digits",
        "6 components, all certified to 1e-6",
        "The sine of the largest angle to the true canonical spaces",
        "scikit-learn",
        "1,200",
        "Held out",
        "genelin cca left.npy right.npy -k 6",
        "CCA(n_components=6, reg=0.01, method=Davidson(), random_state=0).fit(X, y)",
        "reading",
        "250 ms",
        "Plan for 6 canonical pairs",
        "What happened",
        "All 1,200 rows.",
    ]
    assert [text for text in expected if text not in page.text] == []
    for value in digits.cca.canonical_correlations_:
        assert f"{value:.4f}" in page.text
    left = held_out_correlations(report_model_of(digits.cca), (digits.X[1200:], digits.Y[1200:]))
    assert all(f"{value:.4f}" in page.text for value in left)
    largest = np.abs(digits.cca.x_loadings_[:, 3]).max()
    assert f"{largest:.4f}" in page.text


def test_every_kind_of_answer(tmp_path, digits):
    iris = load_iris()
    rng = np.random.default_rng(0)
    lda = GeneralizedEigen(2).fit(iris.data, iris.target)
    contrast = GeneralizedEigen(2).fit(iris.data, background=iris.data[:80])
    A = np.diag(np.arange(1.0, 41.0))
    cases = [
        (lda, {"X": iris.data, "y": iris.target}, "2 components, all certified to 1e-8"),
        (contrast, {}, ".fit(X, background=background)"),
        (top_k(A, k=1), {"settings": {"tol": 1e-8}}, "1 eigenpair, certified to 1e-8"),
        (top_k(A, k=3, rng=rng), {}, "3 eigenpairs, all certified to"),
        (top_k_cca(digits.X, digits.Y, 2, reg=0.1), {}, "2 components, all certified to"),
    ]
    for estimator, options, text in cases:
        assert text in written(tmp_path, estimator, **options).text


def test_how_to_do_it_again_can_be_run(tmp_path, digits):
    method = CCALin(solver=AGD(), max_iter=300)
    cca = CCA(2, reg=(0.01, np.float64(0.1)), method=method, random_state=1)
    X, y = digits.X[:300], digits.Y[:300]
    cca.fit(X, y)
    names = {"X": X, "y": y}
    exec(snippet(report_model_of(cca)), names)
    again = names["fitted"]
    assert np.allclose(again.canonical_correlations_, cca.canonical_correlations_, atol=1e-6)
    assert again.get_params()["method"] == method


def test_verdicts_that_are_not_good(digits):
    solution = digits.cca.solution_
    residuals = np.array([1e-9, 1e-9, 1e-8, 1e-3, 1e-3, 2e-3])
    partly = replace(solution, status=Status.MAX_ITERATIONS, residuals=residuals)
    worst = residuals.max() / solution.correlations.max()
    headline, _ = verdict(report_model_of(partly, tol=1e-6))
    assert (
        headline
        == f"3 of 6 components certified to 1e-6; the others reached {worst:.1e}".replace(
            "e-0", "e-"
        )
    )
    assert "not converged" in verdict(report_model_of(partly, tol=1e-12))[0]
    told = cautions(report_model_of(partly, tol=1e-6), None, [])
    assert [caution.title for caution in told] == ["Not converged: maximum of iterations"]
    assert told[0].text == Status.MAX_ITERATIONS.advice
    tied = replace(solution, status=Status.TIED, sin_theta_bound=1.0)
    assert "no bound" in verdict(report_model_of(tied))[1]
    assert "tied" in cautions(report_model_of(tied), None, [])[0].title
    loose = replace(solution, sin_theta_bound=0.5)
    assert "not settled" in cautions(report_model_of(loose), None, [])[0].title


def test_held_out_rows_that_lose_are_told(digits):
    model = report_model_of(digits.cca)
    left = model.values * [1, 0.9, 0.4, 0.3, 0.6, -0.1]
    (told,) = cautions(model, left, [])
    assert "Components 3–4, 6 do not carry over" in told.text
    assert cautions(model, 0.9 * model.values, []) == []


def test_more_features_than_rows_without_a_ridge_is_told():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 30)), rng.standard_normal((50, 25))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bare = CCA(2).fit(X, Y)
    titles = [caution.title for caution in cautions(report_model_of(bare), None, caught)]
    assert titles[-1] == "More features than rows, and no ridge"
    assert cautions(report_model_of(CCA(2, reg=0.1).fit(X, Y)), None, []) == []


def test_warnings_of_the_run_are_told_once(digits):
    given = [RankDeficiencyWarning("X is rank-deficient"), "slow disk", "slow disk"]
    told = cautions(report_model_of(digits.cca), None, given)
    assert [(c.title, c.text) for c in told] == [
        ("Features are dependent", "X is rank-deficient"),
        ("Warned of during the run", "slow disk"),
    ]


# --- What others wrote ---------------------------------------------------------------------------


def test_hostile_text_stays_text(tmp_path):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((60, len(HOSTILE))), np.array(HOSTILE[:3] * 20)
    fitted = GeneralizedEigen(2).fit(X, labels)
    options = {
        "x_names": HOSTILE,
        "title": HOSTILE[1],
        "settings": dict.fromkeys(HOSTILE, HOSTILE[1]),
        "data": dict.fromkeys(HOSTILE, HOSTILE[0]),
        "warnings": HOSTILE,
        "timings": {HOSTILE[1]: 1.0},
    }
    page = written(tmp_path, fitted, X=X, y=labels, **options)
    scripts = page.attributes("script")
    assert [attrs.get("type") for attrs in scripts] == ["application/json", None, None]
    assert not any("alert(1)" in script for script in page.scripts[1:])
    assert "<" not in page.scripts[0]
    assert page.attributes("img") == []
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    for text in HOSTILE[:6]:
        assert text in page.text
    assert "7 * 7" in page.text


def test_only_the_scripts_of_the_page_may_run(tmp_path, digits):
    page = written(tmp_path, digits.cca)
    (policy,) = [
        attrs["content"]
        for attrs in page.attributes("meta")
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    allowed = policy.split("script-src ")[1].split(";")[0].split()
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in page.scripts[1:]
    ]
    assert allowed == digests
    assert "default-src 'none'" in policy
    assert not any("://" in attrs.get("src", "") for _, attrs in page.tags)
    assert [attrs["href"] for attrs in page.attributes("link")] == ["data:,"]


def test_names_come_from_where_they_are_known(tmp_path, digits):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(digits.X[:200], columns=[f"left {j}" for j in range(32)])
    other = pd.DataFrame(digits.Y[:200], columns=[f"right {j}" for j in range(32)])
    cca = CCA(1, reg=0.1).fit(frame, other)
    page = written(tmp_path, cca, X=frame, y=other)
    assert "left 1" in page.text
    assert "right 1" in page.text
    assert "left 1" in written(tmp_path, cca).text  # the estimator has seen them
    assert "twin" in written(tmp_path, cca, x_names=["twin"] * 32).text


def test_rows_on_disk_are_sampled_with_their_names(tmp_path, digits):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for name, view in (("left", digits.X), ("right", digits.Y)):
        columns = [f"{name} {j}" for j in range(32)]
        pd.DataFrame(view, columns=columns).to_parquet(tmp_path / f"{name}.parquet")
    X, y = (open_rows(tmp_path / f"{name}.parquet") for name in ("left", "right"))
    cca = CCA(2, reg=0.1).fit(X, y)
    page = written(tmp_path, cca, X=X, y=y, held_out=(X, y))
    for text in ("left 1", "right 1", "left.parquet", "All 1,797 rows."):
        assert text in page.text


# --- Sizes and samples ---------------------------------------------------------------------------


def test_pages_stay_small(tmp_path):
    rng = np.random.default_rng(0)
    solution = top_k(np.diag(np.arange(1.0, 501.0)), k=400)
    names = [f"{'name' * 100} {j}" for j in range(500)]
    path = write_report(tmp_path / "many.html", solution, x_names=names)
    assert path.stat().st_size < 5e6
    assert "the first of 400" in path.read_text("utf-8")
    X = rng.standard_normal((5000, 120))
    many = CCA(100, reg=0.1).fit(X, X[:, :110] + rng.standard_normal((5000, 110)))
    assert write_report(tmp_path / "wide.html", many, X=X, y=X[:, :110]).stat().st_size < 5e6


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_scores_are_those_of_a_sample(digits):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, Y = (np.tile(view, (3, 1)) for view in (digits.X, digits.Y))
    U, V = digits.cca.transform(X, Y)
    stored = SimpleNamespace(shape=X.shape, row_source=lambda: SimpleNamespace(taken=X.__getitem__))
    model = report_model_of(digits.cca)
    for kind in (np.asarray, sparse.csr_array, pd.DataFrame, pl.DataFrame, np.ndarray.tolist):
        drawn = drawn_scores(model, kind(X), kind(Y), 6)
        assert (len(drawn.rows), drawn.total) == (MOST_POINTS, len(X))
        assert np.allclose(drawn.scores["X"], U[drawn.rows], atol=1e-5)
        assert np.allclose(drawn.scores["y"], V[drawn.rows], atol=1e-5)
    assert np.allclose(drawn_scores(model, stored, Y, 6).scores["X"], U[drawn.rows], atol=1e-5)
    assert len(drawn_scores(model, X, Y, 200).rows) < MOST_POINTS


# --- Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": None}, "y is missing"),
        ({"X": None}, "X is missing"),
        ({"y": np.ones((3, 32))}, "X has 1797 rows but y has 3"),
        ({"X": 3}, "X is a int without rows"),
        ({"x_names": ["a"]}, "x_names has 1 names for 32 features"),
        ({"y_names": ["a"]}, "y_names has 1 names for 32 features"),
        ({"held_out": [0.1, 0.2]}, "held_out must be a pair .* or 6 correlations"),
        ({"held_out": [np.nan] * 6}, "held_out must be a pair"),
        ({"plan": "dense"}, "plan is a str: give that of plan_cca"),
        ({"settings": "-k 6"}, "settings is a str: give a dict"),
        ({"data": [1]}, "data is a list: give a dict"),
        ({"timings": 3.0}, "timings is a float: give a dict"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path, digits, options, message):
    path = tmp_path / "report.html"
    path.write_text("what was there")
    options = {"X": digits.X, "y": digits.Y, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        write_report(path, digits.cca, **options)
    assert path.read_text() == "what was there"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_has_no_report_is_refused(tmp_path, digits):
    path = tmp_path / "report.html"
    with pytest.raises(ValueError, match=r"estimator=CCA\(\) is not fitted"):
        write_report(path, CCA())
    with pytest.raises(TypeError, match="estimator is a str: give a fitted CCA"):
        write_report(path, "model")
    with pytest.raises(ValueError, match="does not know how its data were centred"):
        write_report(path, digits.cca.solution_, X=digits.X, y=digits.Y)
    with pytest.raises(ValueError, match="one set of features"):
        write_report(path, top_k(np.eye(2)), y_names=["a", "b"])
    with pytest.raises(ValueError, match="leave it out"):
        write_report(path, top_k(np.eye(2)), held_out=[0.5])
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_report(tmp_path / "nowhere" / "report.html", digits.cca)
    assert list(tmp_path.iterdir()) == []


def test_without_bokeh_it_says_what_to_install(tmp_path, digits, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.plotting", None)
    with pytest.raises(ImportError, match=r"pip install 'genelin\[report\]'"):
        write_report(tmp_path / "report.html", digits.cca)


def test_importing_is_light():
    code = "import sys, genelin.report; print({'bokeh', 'jinja2', 'matplotlib'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


# --- Figures -------------------------------------------------------------------------------------


def test_figures_are_files(tmp_path, digits):
    plt = pytest.importorskip("matplotlib.pyplot")
    names = [HOSTILE[j % len(HOSTILE)] for j in range(32)]
    options = {"X": digits.X, "y": digits.Y, "x_names": names}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        files = write_figures(tmp_path / "new" / "figures", digits.cca, **options)
    stems = ["values", "convergence", "scores-1", "loadings-1"]
    assert [file.name for file in files] == [
        f"{s}.{kind}" for s in stems for kind in ("png", "svg")
    ]
    for file in files:
        content = file.read_bytes()
        start = b"\x89PNG" if file.suffix == ".png" else b"<?xml"
        assert content.startswith(start)
        assert b"alert(1)</script>" not in content
    assert plt.get_fignums() == []


def test_figures_of_every_kind_of_answer(tmp_path):
    iris = load_iris()
    lda = GeneralizedEigen(2).fit(iris.data, iris.target)
    files = write_figures(tmp_path, lda, ["png"], X=iris.data, y=iris.target)
    assert [file.name for file in files] == ["values.png", "scores-1.png", "weights-1.png"]
    files = write_figures(tmp_path, top_k(np.diag([1.0, 3.0, -2.0]), k=2), "svg", components=2)
    assert [file.name for file in files] == ["values.svg", "entries-1.svg", "entries-2.svg"]


def test_bad_figures_are_refused(tmp_path, digits):
    with pytest.raises(ValueError, match=r"formats=.*'bmp'.*: give some of png, svg, pdf"):
        write_figures(tmp_path, digits.cca, ["bmp"])
    with pytest.raises(ValueError, match="components=7 must be an integer from 1 to 6"):
        write_figures(tmp_path, digits.cca, components=7)
