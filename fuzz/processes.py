"""Processes: threads, forks, fewer cores and threads, and Ctrl-C at any moment change no answer."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from fuzz import Defect
from genelin import CCA, Davidson, Dense, Lanczos, ShiftInvert, solvers, top_k, top_k_cca
from genelin.kernels.compiled import threads
from genelin.operators import Gram, as_rows
from genelin.system.threads import blas_threads, in_threads

Answer = tuple[np.ndarray, ...]
Fit = Callable[[], Answer]
SECONDS = 60  # after which a child, or a thread, counts as hanging
CLOSE = 1e-6  # of the largest value: how far answers with other numbers of threads may be apart


def attack(rng: np.random.Generator) -> str:
    """One fit of a random kind, and one thing that happens beside it."""
    inputs, fit = _FITS[rng.integers(len(_FITS))](rng)
    before = [_numbers(given) for given in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = fit()
        event = _EVENTS[rng.integers(len(_EVENTS))]
        ending = event(rng, fit, expected)
        _agree(fit(), expected, f"after {event.__name__.strip('_')}", CLOSE)
    for given, old in zip(inputs, before, strict=True):
        if _numbers(given) != old:
            raise Defect("the input was changed")
    return ending


# --- What is fitted ------------------------------------------------------------------------------


def _views(rng: np.random.Generator) -> tuple[list[Any], Fit]:
    n, dx, dy = (int(rng.integers(*span)) for span in ((60, 3000), (2, 60), (2, 50)))
    X, Y = rng.standard_normal((n, dx)), rng.standard_normal((n, dy))
    Y[:, 0] += X[:, 0]
    method = [None, Dense(), Davidson()][rng.integers(3)]
    rows = (as_rows(X), as_rows(Y)) if rng.random() < 0.5 else (X, Y)
    return [X, Y], lambda: _pairs(top_k_cca(*rows, k=2, reg=0.1, method=method))


def _sparse_views(rng: np.random.Generator) -> tuple[list[Any], Fit]:
    n, dx, dy = (int(rng.integers(*span)) for span in ((500, 6000), (50, 600), (50, 400)))
    X, Y = (sparse.random_array((n, d), density=0.02, format="csr", rng=rng) for d in (dx, dy))
    form = [None, False, True][rng.integers(3)]
    method = [None, Davidson()][rng.integers(2)]
    rows = as_rows(X), as_rows(Y)
    return [X, Y], lambda: _pairs(top_k_cca(*rows, k=2, reg=0.1, form=form, method=method))


def _estimator(rng: np.random.Generator) -> tuple[list[Any], Fit]:
    X = rng.standard_normal((300, 8))
    Y = X[:, :4] + rng.standard_normal((300, 4))

    def fit() -> Answer:
        cca = CCA(2, random_state=0).fit(X, Y)
        return cca.canonical_correlations_, np.abs(cca.transform(X))

    return [X, Y], fit


def _mesh(rng: np.random.Generator) -> tuple[list[Any], Fit]:
    d = int(rng.integers(200, 3000))
    A = sparse.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(d, d)).tocsr()
    method = [None, ShiftInvert()][rng.integers(2)]
    return [A], lambda: (top_k(A, k=2, which="SA", method=method).values,)


def _pencil(rng: np.random.Generator) -> tuple[list[Any], Fit]:
    d = int(rng.integers(10, 300))
    M = rng.standard_normal((d, d))
    A, B = M + M.T, np.diag(rng.uniform(1.0, 2.0, d))
    iterative = Davidson(solver=solvers.CG(preconditioner=solvers.Jacobi()))
    method = [None, Dense(), Lanczos(), iterative][rng.integers(4)]
    return [A, B], lambda: (top_k(A, B, k=2, method=method).values,)


def _covariances(rng: np.random.Generator) -> tuple[list[Any], Fit]:
    X, Z = (rng.standard_normal((400, 20)) for _ in range(2))
    A, B = Gram(X, center=True), Gram(Z, reg=0.1, center=True)  # shared: they keep their entries
    method = [None, Davidson()][rng.integers(2)]
    return [X, Z], lambda: (top_k(A, B, k=2, method=method).values,)


_FITS = (_views, _sparse_views, _estimator, _mesh, _pencil, _covariances)


def _pairs(solution: Any) -> Answer:
    return solution.correlations, solution.x_weights, solution.y_weights


def _numbers(given: Any) -> list[bytes]:
    parts = (given.data, given.indices, given.indptr) if sparse.issparse(given) else (given,)
    return [part.tobytes() for part in parts]


def _agree(found: Answer, expected: Answer, when: str, within: float = 0.0) -> None:
    """Raise where answers differ: in any bit, or in values by more than a part of the largest."""
    if not within:
        same = all(
            one.tobytes() == other.tobytes() for one, other in zip(found, expected, strict=True)
        )
    else:
        size = within * float(np.abs(expected[0]).max())
        same = found[0].shape == expected[0].shape
        same = same and bool(np.all(np.abs(found[0] - expected[0]) <= size))
    if not same:
        raise Defect(f"another answer {when}: {found[0]} and not {expected[0]}")


# --- What happens beside it ----------------------------------------------------------------------


def _threads(rng: np.random.Generator, fit: Fit, expected: Answer) -> str:
    """The same fit in several threads at once is the same, to the last bit with one of BLAS.

    BLAS gives its threads up for all of a process, and its sums differ by rounding then.
    """
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(fit())
        except BaseException as error:
            found.append(error)

    others = [threading.Thread(target=work, daemon=True) for _ in range(rng.integers(2, 5))]
    for other in others:
        other.start()
    for other in others:
        other.join(SECONDS)
    if any(other.is_alive() for other in others):
        raise Defect("threads that fit at once hang")
    for one in found:
        if isinstance(one, BaseException):
            raise Defect(f"a fit beside others failed: {one!r}") from one
        _agree(one, expected, "beside other threads", 0.0 if blas_threads() == 1 else CLOSE)
    return "threads agree"


def _fork(rng: np.random.Generator, fit: Fit, expected: Answer) -> str:
    """A child can fit that was forked while threads were fitting.

    BLAS has one thread: OpenBLAS ends its own at a fork, and other threads of the parent that are
    in it wait for them for ever, with NumPy alone as well.
    """
    if not hasattr(os, "fork"):
        return "no forks here"
    with threadpool_limits(1, "blas"):
        return _forked(rng, fit, expected)


def _forked(rng: np.random.Generator, fit: Fit, expected: Answer) -> str:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            fit()

    others = [threading.Thread(target=work, daemon=True) for _ in range(rng.integers(1, 4))]
    for other in others:
        other.start()
    time.sleep(float(rng.uniform(0.0, 0.05)))
    try:
        child = os.fork()
        if child == 0:
            _as_child(fit, expected)
        over.set()
        _waited_for(child)
    finally:
        over.set()
        for other in others:
            other.join(SECONDS)
    return "a child answered"


def _as_child(fit: Fit, expected: Answer) -> None:
    """Fit, and end with 0 if the answer is right, 3 if it is another, 4 if there is none."""
    code = 4
    try:
        found = fit()
        code = 3
        _agree(found, expected, "in a child", CLOSE)
        code = 0
    finally:
        os._exit(code)


def _waited_for(child: int) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if status:
                code = os.waitstatus_to_exitcode(status)
                raise Defect(f"a child that was forked beside threads ended with {code}")
            return
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise Defect("a child that was forked beside threads hangs")


@contextmanager
def _cores(chosen: set[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _fewer_cores(rng: np.random.Generator, fit: Fit, expected: Answer) -> str:
    """A fit stays on the cores that it may run on."""
    if not hasattr(os, "sched_setaffinity"):
        return "no cores to choose here"
    allowed = sorted(os.sched_getaffinity(0))
    core = int(rng.choice(allowed))
    with _cores({core}):
        _agree(fit(), expected, "on fewer cores", CLOSE)
        for cores in in_threads(os.sched_getaffinity, [(0,)] * 3):
            if cores != {core}:
                raise Defect(f"a thread of a fit on core {core} may run on {cores}")
    return "fewer cores"


def _fewer_threads(rng: np.random.Generator, fit: Fit, expected: Answer) -> str:
    """A fit follows Numba to other numbers of threads."""
    before = numba.get_num_threads()
    try:
        for _ in range(2):
            count = int(rng.integers(1, before + 1))
            numba.set_num_threads(count)
            if threads() > count:
                raise Defect(f"{threads()} threads where Numba was told to take {count}")
            _agree(fit(), expected, f"with {count} threads", CLOSE)
    finally:
        numba.set_num_threads(before)
    return "fewer threads"


def _ctrl_c(rng: np.random.Generator, fit: Fit, expected: Answer) -> str:
    """Ctrl-C at any moment of a fit leaves the process able to fit, to the same answer."""
    began = time.perf_counter()
    fit()
    delay = float(rng.uniform(0.0, 1.2)) * (time.perf_counter() - began)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    press = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    ending = "Ctrl-C came too late"
    try:
        try:
            press.start()
            fit()
            press.join()
            time.sleep(0.001)  # it is heeded here
        except KeyboardInterrupt:
            ending = "Ctrl-C came"
        press.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    _agree(fit(), expected, "after Ctrl-C")
    return ending


_EVENTS = (_threads, _fork, _fewer_cores, _fewer_threads, _ctrl_c)
