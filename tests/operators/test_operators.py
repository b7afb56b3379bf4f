import tracemalloc

import numpy as np
import pylops
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from genelin import Davidson, Dense, GenELinK, Lanczos, plan_top_k, solvers, top_k
from genelin.data.reductions import CentralMoments
from genelin.data.row_blocks import Part
from genelin.operators import (
    BlockDiagonal,
    Counter,
    Counting,
    Cross,
    Gram,
    Identity,
    MatrixOperator,
    OffDiagonal,
    Shifted,
    Sum,
    as_operator,
    as_rows,
)
from genelin.operators.base import Operator
from genelin.problems import TwoView

RNG = np.random.default_rng(0)
M = RNG.standard_normal((7, 7))
DENSE_X, DENSE_Y = RNG.random((40, 5)) + 3.0, RNG.random((40, 4)) - 1.0
DENSE_X[DENSE_X > 3.6] = 0.0
SPARSE_X, SPARSE_Y = sparse.csr_array(DENSE_X), sparse.csr_array(DENSE_Y)


class Duck:
    """Nothing but a shape and `@`."""

    shape, dtype = (7, 7), np.dtype(float)

    def __matmul__(self, V):
        return M @ V


KINDS = {
    "ndarray": M,
    "list": M.tolist(),
    **{
        fmt: sparse.coo_array(M).asformat(fmt)
        for fmt in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    },
    "spmatrix": sparse.csr_matrix(M),
    "LinearOperator": aslinearoperator(M),
    "matvec only": LinearOperator((7, 7), matvec=lambda v: M @ v, rmatvec=lambda v: M.T @ v),
    "matvec of columns": LinearOperator((7, 7), matvec=lambda v: (M @ v).reshape(7, 1)),
    "PyLops": pylops.MatrixMult(M),
    "duck": Duck(),
    "float32": M.astype(np.float32),
    "integers": np.round(10 * M).astype(int),
}


@pytest.mark.parametrize("kind", KINDS)
def test_as_operator_takes_every_kind(kind):
    operator = as_operator(KINDS[kind])
    dense = np.round(10 * M) if kind == "integers" else M
    V = RNG.standard_normal((7, 3))
    np.testing.assert_allclose(operator @ V, dense @ V, rtol=1e-5)
    np.testing.assert_allclose(operator @ V[:, 0], dense @ V[:, 0], rtol=1e-5)


def test_as_operator_takes_functions_with_a_shape():
    function = as_operator(lambda V: M @ V, shape=(7, 7))
    np.testing.assert_allclose(function @ np.eye(7), M)

    def carrying(V):
        return M @ V

    carrying.shape = (7, 7)
    np.testing.assert_allclose(as_operator(carrying) @ np.eye(7), M)


def test_as_operator_leaves_the_users_matrix_alone():
    rows, columns = [0, 0, 1], [1, 1, 0]
    A = sparse.csr_array(sparse.coo_array(([1.0, 2.0, 3.0], (rows, columns)), shape=(2, 2)))
    B = sparse.csr_array((np.ones(2), np.array([1, 0]), np.array([0, 2, 2])), shape=(2, 2))
    before = B.indices.copy()
    as_operator(A)
    as_operator(B)
    np.testing.assert_array_equal(B.indices, before)


def centred(X, center, scale):
    Z = X - X.mean(axis=0) if center else X
    return Z / X.std(axis=0) if scale else Z


COVARIANCES = [
    (center, scale, formed)
    for center in (False, True)
    for scale in (False, True)
    for formed in (False, True)
]


@pytest.mark.parametrize(("center", "scale", "formed"), COVARIANCES)
@pytest.mark.parametrize("X", [DENSE_X, SPARSE_X, DENSE_X.astype(np.float32)])
def test_gram_is_the_covariance(X, center, scale, formed):
    S = Gram(X, reg=0.3, center=center, scale=scale, weight=0.7)
    S = S.formed() if formed else S
    Z = centred(DENSE_X, center, scale)
    expected = 0.7 * Z.T @ Z / 40 + 0.3 * np.eye(5)
    tolerance = {"rtol": 1e-5 if X.dtype == np.float32 else 1e-12, "atol": 1e-6}
    np.testing.assert_allclose(S @ np.eye(5), expected, **tolerance)
    np.testing.assert_allclose(S.diagonal(), np.diagonal(expected), **tolerance)
    np.testing.assert_allclose(S.entries().dense(), expected, **tolerance)


@pytest.mark.parametrize(("center", "scale", "formed"), COVARIANCES)
@pytest.mark.parametrize("X", [DENSE_X, SPARSE_X])
@pytest.mark.parametrize("Y", [DENSE_Y, SPARSE_Y])
def test_cross_is_the_cross_covariance(X, Y, center, scale, formed):
    C = Cross(X, Y, center=center, scale=scale)
    C = C.formed() if formed else C
    expected = centred(DENSE_X, center, scale).T @ centred(DENSE_Y, center, scale) / 40
    np.testing.assert_allclose(C @ np.eye(4), expected, atol=1e-12)
    np.testing.assert_allclose(C.T @ np.eye(5), expected.T, atol=1e-12)
    np.testing.assert_allclose(C.dense(), expected, atol=1e-12)


OPERATORS = {
    "matrix": MatrixOperator(M),
    "function": as_operator(aslinearoperator(M)),
    "identity": Identity(7),
    "gram": Gram(SPARSE_X, reg=0.1, center=True),
    "cross": Cross(SPARSE_X, DENSE_Y, center=True, scale=True),
    "formed cross": Cross(SPARSE_X, SPARSE_Y, center=True).formed(),
    "off-diagonal": OffDiagonal(Cross(DENSE_X, SPARSE_Y, center=True)),
    "block diagonal": BlockDiagonal((Gram(SPARSE_X), Gram(DENSE_Y, center=True))),
    "shifted": Shifted(MatrixOperator(M + M.T), Identity(7), 2.0, -1.0),
    "sum": Sum([Gram(SPARSE_X, reg=0.1, center=True, weight=0.3), Gram(DENSE_X[:9] + 1.0)]),
    "counting": Counting(Cross(SPARSE_X, SPARSE_Y), Counter()),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_dot_test(name):
    operator = OPERATORS[name]
    u, v = RNG.standard_normal(operator.shape[0]), RNG.standard_normal(operator.shape[1])
    assert (operator @ v) @ u == pytest.approx((operator.T @ u) @ v, rel=1e-10, abs=1e-10)
    assert operator.T.T.shape == operator.shape


def test_sum_of_covariances():
    first, second = DENSE_X, DENSE_X[:9] + 1.0
    expected = 0.3 * np.cov(first.T, bias=True) + second.T @ second / 9 + 0.1 * np.eye(5)
    for kind in (np.asarray, sparse.csr_array):
        total = Sum([Gram(kind(first), 0.1, True, weight=0.3), Gram(kind(second))])
        np.testing.assert_allclose(total @ np.eye(5), expected, atol=1e-12)
        np.testing.assert_allclose(total.entries().dense(), expected, atol=1e-12)
        np.testing.assert_allclose(total.diagonal(), np.diag(expected), atol=1e-12)
        assert total.lambda_min_bound == 0.1
        assert total.row_blocks() is None
        with pytest.raises(ValueError, match="not made of rows of data"):
            total.on_rows([0, 1])
    V = np.eye(5, dtype=np.float32)
    np.testing.assert_allclose(total.in_float32() @ V, expected, rtol=1e-5)
    single = Sum([Gram(first, 0.1, True)])
    assert single.row_blocks() is not None
    part = Gram(first, 0.1, True).on_rows(np.arange(7))
    np.testing.assert_allclose(single.on_rows(np.arange(7)) @ np.eye(5), part @ np.eye(5))
    assert Sum([Gram(sparse.eye_array(2100, format="csr"))]).entries() is None


def test_many_blocks_of_rows_agree_with_one(monkeypatch):
    from genelin.data import rows

    V = RNG.standard_normal((5, 2))
    whole = [Gram(X, center=True) @ V for X in (DENSE_X, SPARSE_X)]
    cross = Cross(SPARSE_X, DENSE_Y, center=True) @ np.eye(4)
    monkeypatch.setattr(rows.Rows, "limits", lambda self, m: iter([(0, 13), (13, 26), (26, 40)]))
    for X, expected in zip((DENSE_X, SPARSE_X), whole, strict=True):
        np.testing.assert_allclose(Gram(X, center=True) @ V, expected, atol=1e-12)
    np.testing.assert_allclose(Cross(SPARSE_X, DENSE_Y, center=True) @ np.eye(4), cross, atol=1e-12)


def test_centring_sparse_data_never_makes_them_dense():
    n, d = 20_000, 5_000  # 800 MB if it were dense
    X = sparse.random_array((n, d), density=1e-3, format="csr", rng=np.random.default_rng(0))
    tracemalloc.start()
    S = Gram(X, reg=1e-3, center=True, scale=True)
    S @ np.ones((d, 4))
    S.diagonal()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_implicit_centring_keeps_the_digits_of_dense_data():
    X = 1e6 + RNG.standard_normal((500, 3))
    np.testing.assert_allclose(
        Gram(X, center=True) @ np.eye(3), np.cov(X.T, bias=True), rtol=1e-8, atol=1e-9
    )


def test_cost_of_an_application():
    counter = Counter(data_size=SPARSE_X.nnz + SPARSE_Y.nnz)
    A = Counting(OffDiagonal(Cross(SPARSE_X, SPARSE_Y)), counter)
    A @ np.ones((9, 3))
    assert counter.passes == 1.0
    assert counter.applications == 3
    assert counter.flops == 3 * 4 * (SPARSE_X.nnz + SPARSE_Y.nnz)
    B = Counting(BlockDiagonal((Gram(SPARSE_X), Gram(SPARSE_Y))), counter)
    B @ np.ones((9, 1))
    assert counter.passes == pytest.approx(2.0)
    B.diagonal_blocks[0] @ np.ones((5, 1))  # one view alone is a part of a pass
    assert counter.passes == pytest.approx(2.0 + SPARSE_X.nnz / counter.data_size)


def test_properties_a_solver_asks_for():
    S = Gram(SPARSE_X, reg=0.25)
    assert S.lambda_min_bound == 0.25
    assert as_operator(aslinearoperator(M)).diagonal() is None
    assert as_operator(aslinearoperator(M)).entries() is None
    pair = BlockDiagonal((S, Gram(SPARSE_Y, reg=0.5)))
    assert [block.shape for block in pair.diagonal_blocks] == [(5, 5), (4, 4)]
    assert pair.lambda_min_bound == 0.25


def test_a_function_of_the_wrong_shape_is_named():
    operator = as_operator(lambda V: V[:2], shape=(3, 3), name="A")
    with pytest.raises(ValueError, match=r"A: .*shape \(2, 1\), expected \(3, 1\)"):
        operator @ np.ones(3)
    with pytest.raises(ValueError, match=r"shape \(3, 3\) cannot be applied"):
        operator @ np.ones(4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [1, 4, 13])
@pytest.mark.parametrize(
    "settings",
    [
        {"reg": 0.1, "center": False},
        {"reg": (0.1, 0.3), "center": True},
        {"shrinkage": (0.2, 0.1), "scale": True},
        {"reg": 0.1, "weights": True},
        {"reg": 0.1, "form": True},
    ],
)
def test_shifted_pair_in_one_sweep(settings, columns, dtype):
    rng = np.random.default_rng(3)
    X, Y = (sparse.random_array((300, d), density=0.05, rng=rng, format="csr") for d in (40, 31))
    settings = {"form": False} | settings
    if settings.pop("weights", False):
        weights = rng.random(300)
        X, Y = (as_rows(Z).weighted(weights / weights.mean()) for Z in (X, Y))
    pencil = TwoView(X, Y, **settings).pencil
    A, B = pencil.operators
    if dtype == np.float32:
        A, B = A.in_float32(), B.in_float32()
    shifted = A.pencil_product(B)
    if settings.get("form"):
        assert shifted is None
        return
    P = rng.standard_normal((71, columns)).astype(dtype)
    theta, sign = rng.random(columns), rng.choice([-1.0, 1.0], columns)
    expected = sign * (theta * (B @ P) - A @ P)
    for _ in range(2):  # the second time into memory that was used before
        KP, curvature = shifted(P, theta, sign)
        assert_allclose(KP, expected, atol=1e-5 if dtype == np.float32 else 1e-12)
    assert_allclose(curvature, np.sum(P * expected, axis=0), rtol=1e-4, atol=1e-4)


def test_shifted_pair_is_counted_as_one_read():
    X = sparse.random_array((50, 6), density=0.5, rng=0, format="csr")
    pencil = TwoView(X, X.copy(), reg=0.1, form=False).pencil
    counter = Counter(data_size=2.0 * X.nnz)
    A, B = (Counting(operator, counter) for operator in pencil.operators)
    A.pencil_product(B)(np.ones((12, 3)), np.ones(3), np.ones(3))
    assert (counter.passes, counter.applications) == (1.0, 6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shares", [1, 2, 3])
def test_moments_of_dense_views_by_threads(monkeypatch, weighted, shares):
    monkeypatch.setattr("genelin.data.reductions.MOMENT_BLOCK", 2**11)
    monkeypatch.setattr("genelin.data.reductions.blas_threads", lambda: shares)
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2000, 4)) + 5.0, rng.standard_normal((2000, 3))
    weights = rng.random(2000) if weighted else None
    moment, total = CentralMoments(np.arange(7.0))(Part(0, X, Y, weights))
    Z = np.hstack([X, Y]) - np.arange(7.0)
    omega = np.ones(2000) if weights is None else weights
    assert_allclose(moment, Z.T @ (omega[:, None] * Z), rtol=1e-12, atol=1e-9)
    assert_allclose(total, omega @ Z, rtol=1e-12, atol=1e-9)


def test_rows_from_another_worker_are_not_copied_whole():
    """They may begin anywhere in a message; a whole copy doubles memory and the work on it."""
    n, d = 200_000, 40
    room = np.zeros(8 * n * d + 1, np.uint8)[1:]
    X = room.view(np.float64).reshape(n, d)
    X[:] = RNG.standard_normal((n, d))
    assert not X.flags.aligned
    Y = RNG.standard_normal((n, 3))
    tracemalloc.start()
    try:
        moment, total = CentralMoments(np.zeros(d + 3))(Part(0, X, Y))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes
    Z = np.hstack([X, Y])
    assert_allclose(moment, Z.T @ Z, rtol=1e-10, atol=1e-8)
    assert_allclose(total, Z.sum(axis=0), rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("place", [0, 4321, 9999])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_largest_number_by_threads(monkeypatch, kind, place):
    monkeypatch.setattr("genelin.data.rows.MANY", 100)
    monkeypatch.setattr("genelin.data.rows.CACHED", 64)
    monkeypatch.setattr("genelin.data.rows.blas_threads", lambda: 3)
    X = np.ones((1000, 10))
    X.flat[place] = -7.0
    assert as_rows(kind(X)).largest == 7.0
    assert as_rows(kind(X[:, ::-1])).largest == 7.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("view", [np.ascontiguousarray, np.asfortranarray, lambda X: X[::-1]])
def test_numbers_that_are_not_finite_are_found_in_any_layout(view, bad):
    X = np.ones((20, 30))
    assert as_rows(view(X * 1e200)).n == 20  # their squares overflow, they do not
    X[3, 4] = bad
    with pytest.raises(ValueError, match=r"X has .* at row (3|16), column 4"):
        as_rows(view(X))


@pytest.mark.parametrize(
    ("offset", "misleading", "centres"),
    [(0.0, False, [0.0]), (1e5, False, [1e5]), (1e5, True, [0.0, 1e5])],
)
def test_moments_of_dense_views_do_not_cancel(monkeypatch, offset, misleading, centres):
    """About zero, about the mean of some rows, and where those rows mislead about all others."""
    n, rng, tried = 300_000, np.random.default_rng(0), []
    X, Y = rng.standard_normal((2, n, 2))
    X += np.where(np.arange(n) % (n // 1000) == 0, 0.0, offset)[:, None] if misleading else offset
    call = CentralMoments.__call__
    monkeypatch.setattr(
        CentralMoments,
        "__call__",
        lambda task, part: (tried.append(task.centre[0]), call(task, part))[1],
    )
    problem = TwoView(X, Y)
    own, between = problem.S_x @ np.eye(2), problem.S_xy @ np.eye(2)
    assert_allclose(tried, centres, rtol=0.01, atol=0.1)
    Z, W = X.astype(np.longdouble), Y - Y.mean(axis=0)
    Z -= Z.mean(axis=0)
    size = float(np.abs(Z).max())
    assert_allclose(own, (Z.T @ Z / n).astype(float), atol=1e-14 * size**2)
    assert_allclose(between, (Z.T @ W / n).astype(float), atol=1e-13 * size)
    assert_allclose(problem.X.mean, X.mean(axis=0), rtol=1e-12, atol=1e-12)


# --- What is formed once -------------------------------------------------------------------------


@pytest.fixture
def formings(monkeypatch):
    """Every time that a covariance is formed from its rows."""
    seen, formed = [], Gram.formed

    def noted(self):
        if self._moment is None:
            seen.append(self)
        return formed(self)

    monkeypatch.setattr(Gram, "formed", noted)
    return seen


METHODS = [None, Dense(), Davidson(), Lanczos(), GenELinK(solver=solvers.Direct())]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_covariance_is_formed_once(formings, method, kind):
    rng = np.random.default_rng(0)
    A, B = (Gram(kind(rng.standard_normal((400, 30))), reg=0.1, center=True) for _ in "AB")
    found = top_k(A, B, k=2, method=method)
    assert len(formings) == 2
    assert found.cost.passes >= 1.0
    plan_top_k(A, B, k=2)
    again = top_k(A, B, k=2, method=method)
    assert len(formings) == 2
    np.testing.assert_array_equal(again.values, found.values)
    exact = top_k(A @ np.eye(30), B @ np.eye(30), k=2)
    np.testing.assert_allclose(found.values, exact.values)


def test_copies_of_a_covariance_keep_nothing_that_is_not_theirs():
    rng = np.random.default_rng(0)
    gram = Gram(sparse.csr_array(rng.standard_normal((40, 6))), reg=0.1)
    whole, factor = gram.entries(), gram.factor()
    assert gram.entries() is whole
    assert gram.factor() is factor
    for twin in (gram.on_rows(np.arange(20)), gram.in_float32(), gram.formed()):
        np.testing.assert_allclose(twin.entries().dense(), twin @ np.eye(6), atol=1e-6)
        assert twin.factor() is not factor
    part = gram.on_rows(np.arange(20))
    assert np.abs(part.entries().dense() - whole.dense()).max() > 0.01


def test_a_meter_counts_the_read_for_entries_once_and_shares_what_is_kept():
    rng = np.random.default_rng(0)
    gram, counter = Gram(rng.standard_normal((40, 6)), reg=0.1), Counter(data_size=240)
    for metered in (Counting(gram, counter), Counting(gram, counter)):
        assert metered.entries() is gram.entries()
        assert metered.factor() is gram.factor()
    assert (counter.passes, counter.flops) == (1.0, 2 * 240 * 6)
    matrix = as_operator(sparse.csr_array(np.eye(6)))
    assert Counting(matrix, counter).fill is matrix.fill


def test_a_meter_counts_nothing_where_there_are_no_entries():
    counter = Counter(data_size=1)
    opaque = as_operator(lambda V: V, shape=(3, 3))
    assert Counting(opaque, counter).entries() is None
    assert Counting(opaque, counter).factor() is None
    assert counter.passes == 0


def test_a_sum_keeps_its_own_entries_and_not_those_of_its_terms(formings):
    rng = np.random.default_rng(0)
    terms = [Gram(rng.standard_normal((40, 6)), reg=0.1) for _ in range(2)]
    total = Sum(terms)
    assert total.forming == 2 * (2 * 240 * 6)
    assert total.factor() is total.factor()
    np.testing.assert_allclose(total.entries().dense(), total @ np.eye(6))
    assert len(formings) == 2
    assert not any("_entries" in vars(term) for term in terms)


def test_covariances_that_single_precision_cannot_hold_are_not_in_float32():
    X = np.random.default_rng(0).standard_normal((30, 4))
    for far, lowered in ((1.0, True), (1e20, False)):
        Z = X * np.r_[1.0, 1.0, far, 1.0]
        for operator in (Gram(Z, scale=True), Cross(X, Z, scale=True)):
            assert (operator.formed().in_float32() is not None) is lowered


@pytest.mark.parametrize(
    "operator",
    [
        as_operator(sparse.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(9, 9)).tocsr()),
        Gram(np.arange(12.0).reshape(4, 3) ** 0.5, reg=0.1, center=True),
        Gram(sparse.csr_array(np.eye(4, 3)), reg=0.1),
        Identity(3),
    ],
    ids=repr,
)
def test_a_meter_hides_no_capability(operator):
    """Whatever an operator can tell, it tells through a meter, a new capability too."""
    metered = Counting(operator, Counter())
    told = [name for name in dir(Operator) if not name.startswith("_")]
    for name in set(told) - {"T", "on_rows", "parts", "pencil_product"}:  # which take something
        plain, passed_on = getattr(operator, name), getattr(metered, name)
        if callable(plain):
            plain, passed_on = plain(), passed_on()
        assert type(passed_on) in (type(plain), Counting), name
        if isinstance(plain, float | int | np.ndarray):
            np.testing.assert_array_equal(passed_on, plain, err_msg=name)
