"""The adversary itself: its referees take good answers and catch what is planted in them."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from fuzz import Defect, arguments, estimators, inputs, multiplicities, pencils, views
from fuzz.__main__ import play
from fuzz.inputs import fingerprint
from fuzz.multiplicities import Copies, judge_copies
from fuzz.referee import judge_pencil, truth_of
from fuzz.spectra import dressed
from fuzz.views import Setting, judge_views
from fuzz.watch import Outcome, called
from scipy import linalg, sparse

from genelin import Status, top_k, top_k_cca

A = linalg.block_diag(np.diag([7.0, 5.0, 5.0, -4.0]), [[2.0, 1.0], [1.0, 2.5]])
B = np.diag(np.arange(1.0, 7.0)) + 0.1
SPLIT = np.diag([7.0, 5.0, 3.0, 2.0, 1.0])


def turned(solution, angle):
    """The first vector, turned by a small angle out of the space, with honest residuals."""
    W = solution.vectors.copy()
    W[:, 0] = np.cos(angle) * W[:, 0] + np.sin(angle) * np.eye(5)[4]
    return replace(solution, vectors=W, values=np.einsum("ij,ij->j", W, SPLIT @ W))


PLANTED = {
    "vector": lambda s: replace(s, vectors=s.vectors * [1.0 + 1e-6, 1.0]),
    "copied vector": lambda s: replace(s, vectors=s.vectors[:, [0, 0]], values=s.values[[0, 0]]),
    "nan": lambda s: replace(s, vectors=s.vectors * np.nan),
    "value": lambda s: replace(s, values=s.values + [0.0, 1e-6]),
    "order": lambda s: replace(s, values=s.values[::-1], vectors=s.vectors[:, ::-1]),
    "residual": lambda s: turned(s, 1e-4),
    "bound": lambda s: replace(turned(s, 1e-4), residuals=np.full(2, 7e-4), sin_theta_bound=1e-6),
    "bound above 1": lambda s: replace(s, sin_theta_bound=np.nan),
    "missed": lambda s: replace(
        s, vectors=np.eye(5)[:, [0, 2]], values=np.array([7.0, 3.0]), residuals=np.zeros(2)
    ),
    "not within tol": lambda s: replace(s, residuals=np.full(2, 0.1)),
}


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("k", [1, 2, 6])
def test_good_answers_pass(k, which):
    solution = top_k(A, B, k, which=which)
    assert judge_pencil(A, B, which, k, 1e-8, solution).startswith("answered")


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_caught(defect):
    tol = 1e-3 if defect == "bound" else 1e-8
    spoiled = PLANTED[defect](top_k(SPLIT, k=2))
    with pytest.raises(Defect):
        judge_pencil(SPLIT, np.eye(5), "LM", 2, tol, spoiled)


def test_a_bound_on_a_space_that_is_not_unique_is_caught():
    tied = top_k(np.diag([3.0, 2.0, 2.0, 1.0]), k=2)
    claimed = replace(tied, status=Status.CONVERGED, sin_theta_bound=1e-12)
    with pytest.raises(Defect, match="not unique"):
        judge_pencil(np.diag([3.0, 2.0, 2.0, 1.0]), np.eye(4), "LM", 2, 1e-8, claimed)


def test_the_referee_has_more_digits():
    """Eigenvalues of the Hilbert matrix, which float64 has no digits of, as 60 digits have them."""
    pytest.importorskip("mpmath")
    H = linalg.hilbert(8)
    long, exact = truth_of(np.eye(8), H, "SA"), truth_of(np.eye(8), H, "SA", exact=True)
    assert np.all(np.abs(long.values - exact.values) <= long.error)
    assert np.all(np.abs(exact.vectors.T @ (exact.B @ exact.vectors) - np.eye(8)) < 1e-7)


def test_extreme_scales_do_not_trouble_the_referee():
    truth = truth_of(1e150 * SPLIT, 1e-150 * np.eye(5), "LM")
    assert np.allclose(np.asarray(truth.values / truth.values[0], float), np.diag(SPLIT) / 7)


STAR = Copies(multiplicities.star(30), None, np.r_[0.0, 30.0, np.ones(28)], "star")


def test_a_dropped_copy_is_caught():
    values, vectors = linalg.eigh(STAR.A.toarray())
    top = np.arange(30)[::-1]  # descending
    solution = top_k(STAR.A, k=3, which="SA")

    def answer(chosen):
        return replace(solution, values=values[chosen], vectors=vectors[:, chosen])

    assert judge_copies(STAR, "LA", 3, 1e-8, answer(top[:3])).startswith("answered")
    with pytest.raises(Defect, match="missed"):
        judge_copies(STAR, "LA", 3, 1e-8, answer(top[[0, 1, 29]]))
    claimed = replace(answer(top[:3]), status=Status.CONVERGED, sin_theta_bound=1e-12)
    with pytest.raises(Defect, match="not unique"):
        judge_copies(STAR, "LA", 3, 1e-8, claimed)


@pytest.mark.parametrize("make", multiplicities.KINDS.values())
def test_spectra_are_known(make):
    case = make(np.random.default_rng(5), False)
    dense = None if case.B is None else case.B.toarray()
    exact = linalg.eigh(case.A.toarray(), dense, eigvals_only=True)
    assert np.allclose(np.sort(case.values), exact, atol=1e-9 * max(np.abs(exact).max(), 1))


SETTING = Setting(2, (0.1, 0.1), None, True, False, 1e-6)
X, Y = (np.random.default_rng(seed).standard_normal((40, d)) for seed, d in ((0, 4), (1, 5)))
Y[:, :3] += X[:, :3]
SPOILED_VIEWS = {
    "weights": lambda s: replace(s, x_weights=s.x_weights * (1 + 1e-6)),
    "correlations": lambda s: replace(s, correlations=s.correlations - 1e-6),
    "pairs": lambda s: replace(
        s, correlations=s.correlations[:1], x_weights=s.x_weights[:, :1], residuals=np.zeros(1)
    ),
    "sign": lambda s: replace(s, y_weights=-s.y_weights),
    "bound": lambda s: replace(s, sin_theta_bound=np.nan),
}


def outcome(answer):
    return Outcome(answer, "", "", ())


def test_a_defect_in_canonical_pairs_is_caught():
    good = top_k_cca(X, Y, 2, reg=0.1)
    assert judge_views(X, Y, SETTING, outcome(good), "planner") == "answered"
    for spoil in SPOILED_VIEWS.values():
        with pytest.raises(Defect):
            judge_views(X, Y, SETTING, outcome(spoil(good)), "planner")


def test_a_bound_too_small_for_canonical_spaces_is_caught():
    """The answer to slightly different data, whose residuals are honest and whose bound is not."""
    good = top_k_cca(X, Y, 2, reg=0.1)
    other = top_k_cca(X, Y, 2, reg=0.1001)
    unit = replace(other, correlations=good.correlations, residuals=np.full(2, 1e-3))
    loose = replace(SETTING, tol=1e-2)
    W = unit.x_weights / np.sqrt(1 - 1e-4 * (unit.x_weights**2).sum(axis=0))
    V = unit.y_weights / np.sqrt(1 - 1e-4 * (unit.y_weights**2).sum(axis=0))
    for name, part in (("x", W), ("y", V)):
        S = np.cov((X if name == "x" else Y).T, bias=True) + 0.1 * np.eye(len(part))
        L = np.linalg.cholesky(part.T @ S @ part)
        unit = replace(unit, **{f"{name}_weights": part @ np.linalg.inv(L).T})
    honest = replace(unit, sin_theta_bound=0.1)
    assert judge_views(X, Y, loose, outcome(honest), "planner") == "answered"
    with pytest.raises(Defect, match="the bound says"):
        judge_views(X, Y, loose, outcome(replace(unit, sin_theta_bound=1e-7)), "planner")


def test_changes_of_inputs_are_seen():
    rng = np.random.default_rng(0)
    M = np.round(rng.standard_normal((6, 6)), 1)
    for kind in ("array", "csr", "csc", "coo", "bsr", "dia", "dok", "lil"):
        given, _ = dressed(rng, M + M.T, (kind,))
        before = fingerprint(given)
        assert fingerprint(given) == before
        if kind in ("dok", "lil", "array"):
            given[0, 0] += 1
        else:
            given.data[...] = np.roll(given.data, 1)
        assert fingerprint(given) != before
    frozen = np.ones(3)
    before = fingerprint(frozen)
    frozen.flags.writeable = False
    assert fingerprint(frozen) != before


def test_what_leaves_a_call_is_watched():
    with pytest.raises(Defect, match="RuntimeWarning"):
        called(lambda: np.array([1.0]) / np.array([0.0]))
    with pytest.raises(Defect, match="below genelin"):
        called(lambda: linalg.cholesky(np.ones((2, 3))))
    with pytest.raises(Defect, match="LinAlgError"):
        called(lambda: np.linalg.cholesky(-np.eye(2)))
    with pytest.raises(ZeroDivisionError):
        called(lambda: 1 / 0)
    assert called(lambda: top_k(np.ones((2, 3)))).refused
    assert called(lambda: 3).answer == 3


@pytest.mark.parametrize("module", [pencils, multiplicities, views, inputs, arguments, estimators])
def test_cases_are_found_again(module):
    """Two plays of one case end alike, with or without a defect."""

    def ending(seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return module.attack(np.random.default_rng(seed))
            except Exception as error:
                return f"{type(error).__name__}: {error}".split(" at 0x")[0]

    assert [ending(3), ending(4)] == [ending(3), ending(4)]


def test_sparse_disguises_hold_the_same_entries():
    rng = np.random.default_rng(1)
    M = np.round(rng.standard_normal((9, 7)), 1)
    for _ in range(40):
        given = inputs.disguised(rng, M)
        entries = given.toarray() if sparse.issparse(given) else np.asarray(given)
        assert np.allclose(entries.astype(float), M, atol=1e-6)


# Cases of the adversary that have found a defect, by attack and seed.
ONCE_BROKEN = [
    *(("views", 1, 413), ("views", 101, 336), ("views", 101, 2390), ("views", 102, 1830)),
    *(("views", 102, 4250), ("estimators", 101, 5305), ("estimators", 101, 20853)),
    *(("multiplicities", 101, 2410), ("multiplicities", 102, 1056), ("multiplicities", 202, 543)),
    *(("views", 202, 896), ("inputs", 201, 234), ("views", 501, 1517), ("views", 501, 2323)),
    *(("views", 601, case) for case in (1857, 2915, 3142, 3263)),
    *(("pencils", 102, 1189), ("pencils", 102, 3200), ("pencils", 102, 3355)),
    *(("pencils", 102, 3626), ("files", 5, 5662), ("files", 5, 11430), ("files", 101, 20042)),
    *(("multiplicities", 601, 1766), ("files", 601, 16345), ("pencils", 601, 3384)),
    *(("files", 602, 124), ("files", 602, 279), ("views", 602, 3084)),
    *(("pencils", 603, 1814), ("files", 701, 9332), ("files", 701, 4610)),
    *(("files", 702, 4098), ("files", 703, 18711)),
]


@pytest.mark.parametrize(("name", "seed", "case"), ONCE_BROKEN)
def test_defects_that_were_found_stay_mended(name, seed, case):
    play(name, seed, case)
