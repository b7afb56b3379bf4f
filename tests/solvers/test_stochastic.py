"""Solvers that draw rows: the contract over many seeds, growth in κ̃, odd data, subsets of rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from cases import STOCHASTIC, rows_of, spd
from genelin import CCALin, GenELin, GenELinK, TwoView, measures, solvers, top_k, top_k_cca
from genelin.kernels import dense_steps, sparse_steps
from genelin.operators import BlockDiagonal, Counter, Counting, Cross, Gram, as_operator
from genelin.operators.finite_sum import Sample

RNG = np.random.default_rng(0)
MAKE = {name: getattr(solvers, name) for name in STOCHASTIC}


def energy(B, E):
    return np.einsum("ij,ij->j", E, B @ E)


def system(n, d, kappa, seed=0):
    """Rows with a log-uniform spectrum of condition number κ, and errors white in the B-norm."""
    rng = np.random.default_rng(seed)
    B, root = spd(rng, d, kappa)
    return rows_of(B, n, seed), B, np.linalg.solve(root, rng.standard_normal((d, 2)))


# --- Sums over rows as a property of operators -------------------------------------------------


def data(kind, tmp_path):
    X = RNG.standard_normal((120, 7)) * (RNG.random((120, 7)) < 0.4) + [0.0, 3, 0, 0, 1, 0, 0]
    if kind == "memmap":
        np.save(tmp_path / "x.npy", X)
        return X, np.load(tmp_path / "x.npy", mmap_mode="r")
    return X, {"dense": X, "fortran": np.asfortranarray(X), "csr": sparse.csr_array(X)}[kind]


@pytest.mark.parametrize("scale", [None, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", ["dense", "fortran", "csr", "memmap"])
def test_rows_make_up_the_operator(kind, center, scale, tmp_path):
    """Blocks, norms, samples and steps see the same centred and scaled rows as products do."""
    dense, X = data(kind, tmp_path)
    gram = Gram(X, reg=0.2, center=center, scale=scale, weight=0.7)
    rows, V = gram.row_blocks(), RNG.standard_normal((7, 3))
    Z = dense - dense.mean(axis=0) if center else dense
    Z = Z / dense.std(axis=0) if scale else Z
    total = sum(block.transposed_dot(block.dot(V)) for block in rows)
    np.testing.assert_allclose(0.7 * total / 120 + 0.2 * V, gram @ V, atol=1e-12)
    np.testing.assert_allclose(rows.squared_norms, np.sum(Z**2, axis=1), atol=1e-12)
    everything = Sample(np.arange(120), np.full(120, 0.7))
    np.testing.assert_allclose(rows.estimate(V, everything), gram @ V, atol=1e-12)
    np.testing.assert_allclose(gram.on_rows(np.arange(120)) @ V, gram @ V, atol=1e-12)
    some = np.array([5, 3, 60, 3])
    expected = 0.7 * Z[some].T @ (Z[some] @ V) / 4 + 0.2 * V
    part = gram.formed().on_rows(some)
    np.testing.assert_allclose(part @ V, expected, atol=1e-12)
    np.testing.assert_allclose(part.diagonal(), np.diag(part @ np.eye(7)), atol=1e-12)
    steps = rows.averaged_steps(V, Sample(some, np.full(4, 0.7)), eta=0.01, batch=4)
    np.testing.assert_allclose(steps, 0.01 * V, atol=1e-14)  # one step from zero


@pytest.mark.parametrize("by_norm", [True, False])
def test_samples_are_fair(by_norm):
    """The mean of many estimates is the product, whatever the lengths of the rows."""
    X = RNG.standard_normal((300, 4)) * RNG.pareto(3, (300, 1))
    gram, rng, V = Gram(X, reg=0.1), np.random.default_rng(0), np.eye(4)
    rows = gram.row_blocks()
    draws = [rows.estimate(V, rows.sample(50, rng, by_norm)) for _ in range(400)]
    mean, noise = np.mean(draws, axis=0), np.std(draws, axis=0) / 20
    assert np.all(np.abs(mean - gram @ V) <= 4 * noise + 1e-12)


def test_samples_in_proportion_to_norms_leave_out_rows_of_zero():
    X = np.vstack([np.zeros((50, 3)), RNG.standard_normal((50, 3))])
    sample = Gram(X).row_blocks().sample(200, np.random.default_rng(0), by_norm=True)
    assert sample.rows.min() >= 50
    assert np.all(np.isfinite(sample.weights))


def test_a_sample_of_n_rows_has_them_all():
    for X in (RNG.standard_normal((1000, 3)), sparse.random_array((1000, 30), density=0.1)):
        sample = Gram(X).row_blocks().sample(1000, np.random.default_rng(0), by_norm=False)
        assert sorted(sample.rows) == list(range(1000))
        assert np.any(np.diff(sample.rows) != 1)


def test_samples_do_not_follow_a_period_in_the_rows():
    """Every fourth row is another kind: a quarter of the rows holds all kinds."""
    X = np.tile(np.eye(4), (500, 1))
    for by_norm in (False, True):
        sample = Gram(X).row_blocks().sample(500, np.random.default_rng(0), by_norm)
        assert np.all(np.bincount(sample.rows % 4, minlength=4) > 80)


def test_rows_that_are_sorted_are_drawn_in_shorter_runs():
    rng = np.random.default_rng(0)
    topic, words = np.sort(rng.integers(0, 8, 5000)), rng.integers(0, 30, (5000, 6))
    place = (np.repeat(np.arange(5000), 6), (30 * topic[:, None] + words).ravel())
    X = sparse.csr_array((np.ones(30_000), place), shape=(5000, 240))
    mixed = X[rng.permutation(5000)]
    assert 3 * Gram(X).row_blocks()._run < Gram(mixed).row_blocks()._run


def test_reading_rows_is_counted_in_fractions_of_a_pass():
    X = RNG.standard_normal((400, 5))
    counter = Counter(data_size=X.size)
    rows = Counting(Gram(X), counter).row_blocks()
    rows.averaged_steps(np.ones((5, 2)), rows.sample(100, RNG, by_norm=True), 0.01, 1)
    assert counter.passes == pytest.approx(1.25)  # the norms, and a quarter
    assert counter.flops > 0


@pytest.mark.parametrize("name", STOCHASTIC)
def test_what_is_not_a_sum_over_rows_is_refused(name):
    message = rf"{name} needs B as a sum over rows.*operators\.Gram\(X, reg=…\).*solvers\.CG"
    for B in (np.eye(3), sparse.eye_array(3), BlockDiagonal((as_operator(np.eye(3)),))):
        with pytest.raises(ValueError, match=message):
            MAKE[name]().init(B)


# --- Kernels against their definition ----------------------------------------------------------


def steps_by_numpy(rows, weights, R, batch, eta, reg, tail, stride):
    C, total, added = np.zeros_like(R), np.zeros_like(R), 0
    for step, start in enumerate(range(0, len(rows), batch)):
        x, w = rows[start : start + batch], weights[start : start + batch]
        C = C - eta * ((x.T * w) @ (x @ C) / len(x) + reg * C - R)
        if step >= tail and (step - tail) % stride == 0:
            total, added = total + C, added + 1
    return total, added


@pytest.mark.parametrize("reg", [0.0, 0.01, 5.0])
@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_are_their_definition(center, batch, reg, dtype):
    """Lazy steps on sparse rows and steps on dense rows: the same numbers as plain NumPy."""
    n, d, k = 400, 30, 3
    X = (RNG.standard_normal((n, d)) * (RNG.random((n, d)) < 0.2)).astype(dtype)
    mean = X.mean(axis=0, dtype=np.float64) if center else np.zeros(d)
    R, order = RNG.standard_normal((d, k)), RNG.integers(0, n, 301)
    weights = RNG.random(301)
    steps = -(-301 // batch)
    rows = X[order].astype(np.float64) - mean
    arguments = (batch, 0.03, reg, steps // 2, 3)
    expected, count = steps_by_numpy(rows, weights, R, *arguments)

    csr = sparse.csr_array(X)
    centre = (mean, csr @ mean) if center else None
    found, added = sparse_steps(csr, order, weights, R, *arguments, centre)
    assert added == count
    size = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e3 * size)

    C, total = np.zeros((2, k, d))
    R = np.ascontiguousarray(R.T)
    added = dense_steps(
        rows, weights, C, total, R, batch, 0.03, reg, first=0, tail=steps // 2, stride=3
    )
    assert added == count
    np.testing.assert_allclose(total.T, expected, rtol=1e-9, atol=size)


@pytest.mark.parametrize(
    ("k", "center"), [(1, True), (1, False), (2, False), (5, False), (12, False)]
)
def test_sparse_steps_on_rows_of_any_length_for_any_number_of_columns(k, center):
    """Rows of 0 to 40 entries; numbers of columns that fill registers, or that do not."""
    n, d = 300, 40
    lengths = np.r_[np.arange(41), RNG.integers(0, 10, n - 41)]
    X = np.zeros((n, d))
    for row, length in zip(X, lengths, strict=True):
        row[RNG.permutation(d)[:length]] = RNG.standard_normal(length)
    mean = X.mean(axis=0) if center else np.zeros(d)
    R, order = RNG.standard_normal((d, k)), RNG.permutation(n)
    weights, csr = RNG.random(n), sparse.csr_array(X)
    for reg in (0.0, 0.5):
        arguments = (1, 0.01, reg, 100, 7)
        expected, count = steps_by_numpy(X[order] - mean, weights, R, *arguments)
        centre = (mean, csr @ mean) if center else None
        found, added = sparse_steps(csr, order, weights, R, *arguments, centre)
        assert added == count
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_sparse_steps_go_on_beyond_the_range_of_floats():
    """α = (1 − η·reg)^t would underflow: 2000 steps with reg·η = 0.5 make 1e-602."""
    X = sparse.csr_array(np.eye(4)[np.arange(2000) % 4])
    R, order, weights = np.ones((4, 1)), np.arange(2000), np.ones(2000)
    total, added = sparse_steps(X, order, weights, R, 1, 0.5, 1.0, 1000, 4)
    arguments = (np.eye(4)[order % 4], weights, R, 1, 0.5, 1.0, 1000, 4)
    expected, count = steps_by_numpy(*arguments)
    assert added == count
    np.testing.assert_allclose(total, expected, rtol=1e-12)


# --- The contract ------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5])
@pytest.mark.parametrize(("n", "kappa"), [(2000, 100.0), (60, 300.0)], ids=["n ≫ κ̃", "κ̃ ≫ n"])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_contraction_over_a_hundred_seeds(name, n, kappa, delta):
    """δ in expectation, and in 95 of 100 runs at least."""
    X, B, exact = system(n, 20, kappa)
    gram, start = Gram(X), energy(B, exact)
    ratios = []
    for seed in range(100):
        solver = MAKE[name](seed=seed)
        value = solver.solve(solver.init(gram), B @ exact, np.zeros_like(exact), delta).value
        ratios.append(energy(B, exact - value) / start)
    assert np.all(np.mean(ratios, axis=0) <= delta)
    assert np.mean(np.max(ratios, axis=1) <= delta) >= 0.95


@pytest.mark.parametrize("kind", ["white", "slowest", "fastest with a little of the slowest"])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_contraction_from_unkind_starts(name, kind):
    """What is left in the slowest direction, unseen by residuals, still counts."""
    X, B, exact = system(500, 20, 1e3, seed=4)
    Q = np.linalg.eigh(B)[1]
    if kind == "slowest":
        exact = Q[:, :2]
    elif kind != "white":
        exact = Q[:, -2:] + 0.3 * np.sqrt(1e3) * Q[:, :2]
    gram, start = Gram(X), energy(B, exact)
    for delta in (0.5, 1e-3):
        for seed in range(20):
            solver = MAKE[name](seed=seed)
            value = solver.solve(solver.init(gram), B @ exact, 0 * exact, delta).value
            assert np.all(energy(B, exact - value) <= delta * start), (delta, seed)


@pytest.mark.parametrize("name", STOCHASTIC)
@pytest.mark.parametrize("n", [2000, 60])
def test_the_rate_is_geometric_to_ten_digits(name, n):
    """log ‖e‖_B falls along a line down to 1e-10 of its start, once the pace is found."""
    X, B, exact = system(n, 20, 100.0, seed=1)
    solver, start = MAKE[name](), energy(B, exact)
    state = solver.init(Gram(X))
    logs = [0.0]
    for step in solver.corrections(state, B @ exact):
        ratio = np.sqrt((energy(B, exact - step.correction) / start).max())
        logs.append(np.log10(ratio))
        if ratio <= 1e-10 or len(logs) > 300:
            break
    assert logs[-1] <= -10
    logs = np.array([log for log in logs if log <= -2])
    t = np.arange(len(logs))
    fitted = np.polyval(np.polyfit(t, logs, 1), t)
    assert np.corrcoef(t, logs)[0, 1] <= -0.98
    assert np.abs(logs - fitted).max() <= 1.5  # digits


@pytest.mark.parametrize("name", STOCHASTIC)
def test_the_same_seed_gives_the_same_answer(name):
    X, B, exact = system(300, 10, 50.0)
    answers = {}
    for seed in (0, 0, 1):
        solver = MAKE[name](seed=seed)
        solution = solver.solve(solver.init(Gram(X)), B @ exact, 0 * exact, 1e-3)
        answers.setdefault(seed, []).append(solution.value)
    np.testing.assert_array_equal(*answers[0])
    assert np.any(answers[0][0] != answers[1][0])


def test_threads_do_not_change_the_answer(monkeypatch):
    from genelin.operators import finite_sum

    X = sparse.random_array((2000, 40), density=0.1, rng=RNG)
    B, exact = Gram(X, reg=0.01, center=True), RNG.standard_normal((40, 9))
    answers = []
    for threads in (1, 3):
        monkeypatch.setattr(finite_sum, "_threads", lambda columns, threads=threads: threads)
        for gram in (B, Gram(X.toarray(), reg=0.01, center=True)):
            solver = solvers.SVRG()
            answers.append(solver.solve(solver.init(gram), B @ exact, 0 * exact, 1e-4).value)
    np.testing.assert_allclose(answers[0], answers[2], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(answers[1], answers[3], rtol=1e-9, atol=1e-12)


# --- Growth ------------------------------------------------------------------------------------


def passes_to(solver, X, B, exact, delta=1e-6):
    """Passes over the data, those of `init` left out, until the true error meets δ."""
    counter = Counter(data_size=X.size)
    state = solver.init(Counting(Gram(X), counter))
    before, start = counter.passes, energy(B, exact)
    for step in solver.corrections(state, B @ exact):
        if np.all(energy(B, exact - step.correction) <= delta * start):
            return counter.passes - before
    raise AssertionError("unreachable")


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


@pytest.mark.parametrize("sampling", ["uniform", "norms"])
@pytest.mark.parametrize(("make", "expected", "off"), [("SVRG", 1.0, 0.2), ("ASVRG", 0.5, 0.15)])
def test_growth_where_rows_are_few(make, expected, off, sampling):
    """κ̃ ≫ n: SVRG reads in proportion to κ̃, ASVRG to its root (Table 3)."""
    tildes, passes = [], []
    for kappa in (1e3, 5e3, 2.5e4):
        X, B, exact = system(400, 80, kappa, seed=2)
        tildes.append(np.sum(X**2, axis=1).max() / np.linalg.eigvalsh(B)[0])
        assert tildes[-1] > 10 * 400
        runs = [passes_to(MAKE[make](seed=s, sampling=sampling), X, B, exact) for s in range(3)]
        passes.append(np.mean(runs))
    assert slope(tildes, passes) == pytest.approx(expected, abs=off)


@pytest.mark.parametrize("name", ["SVRG", "ASVRG"])
def test_growth_where_rows_are_many(name):
    """n ≫ κ̃: the cost in passes does not depend on κ̃."""
    passes = []
    for kappa in (10.0, 30.0, 100.0):
        X, B, exact = system(40_000, 20, kappa, seed=3)
        assert np.sum(X**2, axis=1).max() / np.linalg.eigvalsh(B)[0] < 40_000 / 8
        passes.append(np.mean([passes_to(MAKE[name](seed=s), X, B, exact) for s in range(3)]))
    assert max(passes) <= 1.5 * min(passes)
    assert max(passes) < 10


def test_a_heavy_row_costs_nothing_when_rows_are_drawn_by_their_norms():
    """κ̃ is for rows drawn alike; for rows drawn by norms the mean replaces the maximum.

    One row grows 1000-fold in norm², which makes κ of B six times larger at most.
    """
    passes = {}
    for sampling in ("uniform", "norms"):
        for factor in (1.0, 1000.0):
            X = np.random.default_rng(0).standard_normal((2000, 10))
            X[0] *= np.sqrt(factor)
            B = X.T @ X / 2000
            solver, exact = solvers.SVRG(sampling=sampling), np.ones((10, 1))
            passes[sampling, factor] = passes_to(solver, X, B, exact, 1e-12)
    assert passes["uniform", 1000.0] > 1.3 * passes["uniform", 1.0]
    assert passes["norms", 1000.0] < 1.3 * passes["norms", 1.0]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_fewer_passes_than_agd_when_rows_are_many(kind):
    """κ ≈ 700, κ̃ ≤ n/10: a third of the passes of AGD at most, to sin θ_B ≤ 1e-3."""
    rng = np.random.default_rng(5)
    n, d = 40_000, 30
    X, Y = rng.choice([-1.0, 1.0], (2, n, d))  # rows of one length
    Y[:, :2] = np.where(rng.random((n, 2)) < [0.8, 0.7], X[:, :2], Y[:, :2])
    spread = np.sqrt(np.r_[1, 1, 0.1, 0.03, np.full(d - 4, 1 / 700)])
    X, Y = X * spread, Y * spread
    if kind == "sparse":
        X, Y = (sparse.csr_array(Z * np.sqrt(2) * (rng.random((n, d)) < 0.5)) for Z in (X, Y))
    problem = TwoView(X, Y, form=False)
    exact = top_k_cca(X, Y, k=2, tol=1e-12)
    for gram in (problem.S_x, problem.S_y):
        weights = np.linalg.eigvalsh(gram @ np.eye(d))
        assert 500 <= weights[-1] / weights[0] <= 1000
        assert gram.row_blocks().squared_norms.max() / weights[0] <= n / 10
    passes = {}
    for solver in (solvers.AGD(), solvers.SVRG(), solvers.ASVRG(), solvers.MinibatchAGD()):
        sines = []

        def close(record, W, sines=sines):
            sines.append(measures.sin_theta_b(problem, W, exact.x_weights, exact.y_weights))
            return sines[-1] <= 1e-3

        solution = CCALin(solver=solver)(problem, 2, 1e-9, 0, close)
        assert sines[-1] <= 1e-3
        passes[type(solver).__name__] = solution.trace[-1].passes
    assert all(3 * passes[name] <= passes["AGD"] for name in STOCHASTIC), passes


# --- Odd data ----------------------------------------------------------------------------------

ODD = {
    "rows of zero": np.vstack([RNG.standard_normal((80, 6)), np.zeros((200, 6))]),
    "all rows zero": np.zeros((10, 6)),
    "a single row": RNG.standard_normal((1, 6)),
    "duplicated rows": np.repeat(RNG.standard_normal((30, 6)), 40, axis=0),
}


@pytest.mark.parametrize("batch", [None, 1, 10**6])
@pytest.mark.parametrize("sampling", ["norms", "uniform"])
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", STOCHASTIC)
def test_odd_data(name, kind, sampling, batch):
    """The contract is met, also with minibatches larger than n."""
    for X in (ODD[kind], sparse.csr_array(ODD[kind])):
        gram = Gram(X, reg=0.1)
        solver = MAKE[name](sampling=sampling, batch=batch)
        exact = RNG.standard_normal((6, 2))
        solution = solver.solve(solver.init(gram), gram @ exact, 0 * exact, 1e-6)
        ratio = energy(gram @ np.eye(6), exact - solution.value) / energy(gram @ np.eye(6), exact)
        assert np.all(np.isfinite(solution.value))
        assert np.all(ratio <= 4e-6)  # a single draw: δ itself is met in 95 of 100
        assert solution.converged


@pytest.mark.parametrize("sampling", ["norms", "uniform"])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_a_huge_row_is_named(name, sampling):
    """1e8 times longer than the others: B is singular to rounding, for any method on rows."""
    X = RNG.standard_normal((100, 6))
    X[37] *= 1e8
    with pytest.raises(ValueError, match=rf"{name} cannot work on these rows.*Row 37 has norm"):
        MAKE[name](sampling=sampling).init(Gram(X, reg=0.1))


@pytest.mark.parametrize("name", ["ASVRG", "MinibatchAGD"])
def test_a_long_row_is_no_obstacle(name):
    """1e3 times longer than the others: κ̃ = 1e7, and the slowest error across it is found."""
    X = RNG.standard_normal((100, 6))
    X[37] *= 1e3
    gram = Gram(X, reg=0.1)
    across = np.linalg.svd(X[37:38])[2][1:].T @ RNG.standard_normal((5, 1))
    solver = MAKE[name]()
    solution = solver.solve(solver.init(gram), gram @ across, 0 * across, 1e-4)
    B = gram @ np.eye(6)
    assert solution.converged
    assert np.all(energy(B, across - solution.value) <= 1e-4 * energy(B, across))


@pytest.mark.parametrize("name", STOCHASTIC)
def test_columns_that_differ_in_few_rows(name):
    """Two columns, equal but in 3 of 20,000 rows: a sample that misses those is not believed."""
    X = np.random.default_rng(1).standard_normal((20_000, 6))
    X[:, 1] = X[:, 0]
    X[[5, 7000, 15_000], 1] += 1.0
    gram = Gram(X)
    exact = np.array([[1.0, -1.0, 0, 0, 0, 0], [1.0, 1, 0.3, 0, 0, 0]]).T * [[100.0, 1.0]]
    B, solver = gram @ np.eye(6), MAKE[name]()
    solution = solver.solve(solver.init(gram), gram @ exact, 0 * exact, 1e-2)
    ratio = energy(B, exact - solution.value) / energy(B, exact)
    assert np.all(ratio <= 1e-2)


def test_a_zero_matrix_is_refused():
    with pytest.raises(ValueError, match=r"B is zero.*no ridge"):
        solvers.SVRG().init(Gram(np.zeros((5, 2))))


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"batch=0 must be a whole number of at least 1"):
        solvers.SVRG(batch=0)
    with pytest.raises(ValueError, match=r"sampling='rows' must be 'norms' or 'uniform'"):
        solvers.ASVRG(sampling="rows")
    with pytest.raises(ValueError, match=r"seed=-1 must be a whole number of at least 0"):
        solvers.MinibatchAGD(seed=-1)
    with pytest.raises(ValueError, match=r"batch=0.5 must be a whole number"):
        GenELinK(batch=0.5)


# --- Outer iterations on subsets of rows (the remark in §4.1) ----------------------------------


def digit_halves(copies=1):
    images = load_digits().images / 16.0
    halves = (images[:, :, half].reshape(len(images), -1) for half in (slice(4), slice(4, 8)))
    rng = np.random.default_rng(0)
    return tuple(
        np.tile(Z, (copies, 1)) + 0.2 * rng.standard_normal((copies * len(Z), 32)) for Z in halves
    )


@pytest.mark.parametrize("solver", [solvers.CG(), solvers.AGD(), solvers.SVRG()])
@pytest.mark.parametrize("locally_optimal", [False, True])
def test_subsets_grow_until_the_answer_is_that_of_all_rows(solver, locally_optimal):
    X, Y = digit_halves()
    method = CCALin(solver=solver, batch=200, locally_optimal=locally_optimal)
    pairs = top_k_cca(X, Y, k=3, reg=1e-2, method=method)
    exact = top_k_cca(X, Y, k=3, reg=1e-2)
    assert pairs.converged
    np.testing.assert_allclose(pairs.correlations, exact.correlations, atol=1e-8)


def test_subsets_get_to_statistical_accuracy_sooner():
    """1,000 of 54,000 rows per iteration: half of the passes to sin θ_B ≤ 0.3 at most."""
    X, Y = digit_halves(copies=30)
    problem = TwoView(X, Y, reg=1e-2, form=False)
    exact = top_k_cca(X, Y, k=2, reg=1e-2, tol=1e-12)
    passes = []
    for batch in (None, 1000):

        def close(record, W):
            return measures.sin_theta_b(problem, W, exact.x_weights, exact.y_weights) <= 0.3

        method = CCALin(batch=batch, reduction=0.1)
        passes.append(method(problem, 2, 1e-6, 0, close).trace[-1].passes)
    assert 2 * passes[1] <= passes[0], passes


def test_subsets_of_a_pencil():
    """The same rows for A and B where they have as many; else each draws its own."""
    X = RNG.standard_normal((3000, 8)) * np.linspace(1, 3, 8)
    background = RNG.standard_normal((3000, 8))
    for other in (background, background[:1000]):
        A, B = Gram(X), Gram(other, reg=0.1)
        exact = top_k(A, B, k=2)
        for make, k in ((GenELinK, 2), (GenELin, 1)):
            solution = top_k(A, B, k=k, method=make(batch=300), tol=1e-7)
            assert solution.converged
            np.testing.assert_allclose(solution.values, exact.values[:k], rtol=1e-7)
    largest = top_k(Gram(X), Gram(background), k=1, which="LA", method=GenELinK(batch=300))
    np.testing.assert_allclose(largest.values, top_k(Gram(X), Gram(background), k=1).values)


def test_subsets_of_what_has_no_rows_are_refused():
    with pytest.raises(ValueError, match=r"batch=10 needs A and B made of rows of data"):
        top_k(np.eye(4), np.eye(4), k=1, method=GenELinK(batch=10))
    with pytest.raises(ValueError, match="is not made of rows of data"):
        as_operator(np.eye(2)).on_rows([0])
    assert Cross(np.ones((4, 2)), np.ones((4, 1))).on_rows([0, 2]).n_rows == 2
