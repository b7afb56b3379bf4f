"""Fits beside other threads, forks, Ctrl-C and cores that come and go."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numba
import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import ThreadpoolController, threadpool_limits

from genelin import kernels, top_k
from genelin.eigen.costs import machine
from genelin.kernels import cg_updates, compiled, panel_products, triangular_solves
from genelin.kernels.codegen import column_layout
from genelin.system import fork_safety
from genelin.system import threads as threading_of_genelin
from genelin.system.buffer_pool import _Shelf
from genelin.system.cached import cached_property
from genelin.system.threads import _Pool, at_most, blas_threads, in_threads, one_blas_thread

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="threads have no cores here"
)
forking = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads


def in_child(work, seconds=60):
    """The exit code of a child that does some work: 0 if that was done, 99 if it hung."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 99


def run(script, **environment):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- Forks -------------------------------------------------------------------------------------


class Slow:
    """A value that takes a while."""

    def __init__(self):
        self.begun = threading.Event()
        self.wait = threading.Event()

    @cached_property
    def value(self):
        self.begun.set()
        self.wait.wait(30)
        return object()


@needs_fork
@forking
def test_a_property_that_another_thread_computes_does_not_hold_up_a_child():
    slow, free = Slow(), Slow()
    free.wait.set()
    other = threading.Thread(target=lambda: slow.value)
    other.start()
    slow.begun.wait()
    try:
        assert in_child(lambda: free.value, seconds=5) == 0
    finally:
        slow.wait.set()
        other.join()


def test_threads_that_compute_a_property_side_by_side_share_what_they_found():
    slow, found = Slow(), []
    others = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(3)]
    for other in others:
        other.start()
    time.sleep(0.1)
    slow.wait.set()
    for other in others:
        other.join()
    assert len({*map(id, [*found, slow.value])}) == 1
    assert isinstance(Slow.value, cached_property)


@needs_fork
@forking
def test_a_child_waits_for_no_lock_of_a_thread_that_is_gone():
    """Locks of BLAS limits and of Numba's compiler are free in the child: fork waits for them."""
    held = [threading_of_genelin._lock, compiled._asking, compiled.global_compiler_lock]
    begun, done = threading.Event(), threading.Event()

    def hold():
        for lock in held:
            lock.acquire()
        begun.set()
        done.wait(0.3)
        for lock in held:
            lock.release()

    def work():
        for lock in held:
            lock.acquire()
            lock.release()

    other = threading.Thread(target=hold)
    other.start()
    begun.wait()
    assert in_child(work, seconds=10) == 0
    other.join()
    work()  # and free here


@needs_fork
@forking
def test_limits_of_threads_that_are_gone_end_in_a_child():
    with ThreadpoolController().limit(limits=3, user_api="blas"):
        before = blas_now()
        begun, done = threading.Event(), threading.Event()

        def hold():
            with one_blas_thread():
                begun.set()
                done.wait(60)

        other = threading.Thread(target=hold)
        other.start()
        begun.wait()
        try:
            assert blas_now() == 1

            def freed():
                assert blas_now() == before

            def kept():
                assert blas_now() == min(2, before)

            assert in_child(freed) == 0
            with at_most(2):
                assert in_child(kept) == 0
        finally:
            done.set()
            other.join()
        assert blas_now() == before


def test_limits_of_blas_hold_and_end_whichever_thread_asks_for_them():
    """The last to leave gives BLAS its threads back, also if another one was the first to come."""
    with ThreadpoolController().limit(limits=3, user_api="blas"):
        before = blas_now()
        begun, done = threading.Event(), threading.Event()

        def hold():
            with at_most(1):
                begun.set()
                done.wait(60)

        other = threading.Thread(target=hold)
        with at_most(2):
            assert blas_now() == min(2, before)
            other.start()
            begun.wait()
            assert blas_now() == 1
        done.set()
        other.join()
        assert blas_now() == before


def blas_now():
    pools = ThreadpoolController().select(user_api="blas").info()
    return max(int(pool["num_threads"]) for pool in pools)


@needs_fork
@forking
def test_room_of_a_run_is_not_shared_with_a_child():
    shelf = _Shelf(2**30)
    shelf.give(np.empty(2**20, np.uint8))
    begun, done = threading.Event(), threading.Event()

    def hold():
        with shelf._lock:
            begun.set()
            done.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    begun.wait()

    def work():
        assert len(shelf.take(2**20)) == 2**20
        shelf.give(np.empty(2**20, np.uint8))
        shelf.close()

    try:
        assert in_child(work, seconds=5) == 0
    finally:
        done.set()
        other.join()


@needs_fork
@pytest.mark.parametrize("delay", [0.0, 0.3, 0.8])
def test_a_child_can_fit_that_was_forked_during_the_first_fit_of_a_thread(delay):
    """Modules that the thread was importing would never be complete in the child."""
    assert "child 0" in run(
        f"""
        import os, signal, sys, threading, time, warnings
        warnings.simplefilter("ignore")
        from scipy import sparse
        import numpy as np
        from genelin import Davidson, top_k_cca
        X = sparse.random(2000, 300, density=0.03, format="csr", random_state=0)
        def fit():
            top_k_cca(X, X[:, :200], k=2, reg=0.1, form=False, method=Davidson())
        thread = threading.Thread(target=fit)
        thread.start()
        time.sleep({delay})
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            fit()
            os._exit(0)
        print("child", os.waitpid(child, 0)[1])
        thread.join()
        """
    )


def test_a_fork_waits_for_imports_of_other_threads_only(monkeypatch):
    lock = type("Lock", (), {"owner": None})()
    locks = {"genelin.thing": lambda: lock, "elsewhere.thing": lambda: lock}
    monkeypatch.setattr(fork_safety.importlib._bootstrap, "_module_locks", locks)
    assert fork_safety._imported_by_others() == []
    lock.owner = threading.get_ident()
    assert fork_safety._imported_by_others() == []
    lock.owner += 1
    assert fork_safety._imported_by_others() == ["genelin.thing"]


# --- Ctrl-C ------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on POSIX")
@pytest.mark.parametrize("delay", [0.05, 0.2, 0.4])
def test_ctrl_c_during_the_import_of_numba_leaves_fits_possible(delay):
    assert "interrupted, then 4.0" in run(
        f"""
        import os, signal, sys, threading, time
        import numpy as np
        from scipy import sparse
        from genelin import Davidson, top_k
        A = sparse.diags_array(np.r_[np.linspace(0, 1, 6000), 4.0]).tocsr()
        def press():
            while "numba" not in sys.modules:
                time.sleep(0.001)
            time.sleep({delay})
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        try:
            while True:
                top_k(A, k=1, method=Davidson())
        except KeyboardInterrupt:
            print("interrupted, then", top_k(A, k=1, method=Davidson()).values.round(6)[0])
        """
    )


# --- Numbers of threads ------------------------------------------------------------------------


def test_threads_follow_numba():
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert compiled.threads() == 1
        numba.set_num_threads(before)
        assert compiled.threads() == min(before, threading_of_genelin.cores())
        with at_most(1):
            assert compiled.threads() == 1
    finally:
        numba.set_num_threads(before)


def test_the_variable_of_numba_is_obeyed_and_its_threads_are_not_started():
    printed = run(
        """
        from genelin.kernels import compiled
        print(compiled.threads(), compiled.parallel._is_initialized)
        """,
        NUMBA_NUM_THREADS="1",
    )
    assert printed.split() == ["1", "False"]


def test_threads_of_blas_follow_threadpoolctl():
    with threadpool_limits(1, user_api="blas"):
        assert blas_threads() == 1


def test_a_profile_is_measured_for_as_many_threads_as_there_are(monkeypatch):
    counts = []
    monkeypatch.setattr(machine, "_timed", lambda *threads: counts.append(threads) or threads)
    machine._profile.cache_clear()
    try:
        assert machine.measured() == machine.measured()
        with at_most(1):
            assert machine.measured() == (1, 1)
        assert len(counts) == len({*counts})
    finally:
        machine._profile.cache_clear()


# --- Cores -------------------------------------------------------------------------------------


@pytest.fixture
def cores():
    """Cores of this thread, which are put back after the test."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core only")
    yield sorted(allowed)
    os.sched_setaffinity(0, allowed)


@needs_affinity
def test_threads_of_the_pool_stay_within_cores_that_are_narrowed_later(cores, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # one thread, which takes all tasks
    pool = _Pool()

    def seen():
        for _ in range(2):  # the thread has to arrive
            (cores,) = (task.result() for task in pool.start(os.sched_getaffinity, [(0,)]))
        return cores

    assert seen() < {*cores}
    os.sched_setaffinity(0, {cores[0]})
    assert seen() == {cores[0]}
    os.sched_setaffinity(0, {cores[-1]})
    assert seen() == {cores[-1]}
    os.sched_setaffinity(0, cores)
    assert seen() < {*cores}


@needs_affinity
def test_there_are_no_more_threads_than_cores(cores):
    with threadpool_limits(None):
        os.sched_setaffinity(0, {cores[0]})
        assert (compiled.threads(), blas_threads(), threading_of_genelin.cores()) == (1, 1, 1)
        os.sched_setaffinity(0, cores)
        assert compiled.threads() == min(numba.config.NUMBA_NUM_THREADS, len(cores))


@needs_affinity
def test_cores_that_are_narrowed_between_fits_change_no_answer(cores):
    A = sparse.random_array((3000, 3000), density=0.004, format="csr", rng=np.random.default_rng(0))
    A = A + A.T
    wide = top_k(A, k=2)
    os.sched_setaffinity(0, {cores[0]})
    narrow = top_k(A, k=2)
    np.testing.assert_allclose(wide.values, narrow.values, rtol=1e-10)


def test_small_work_asks_for_no_threads(monkeypatch):
    def refused():
        raise AssertionError

    for module in (column_layout, cg_updates, panel_products, triangular_solves):
        monkeypatch.setattr(module, "threads", refused)
    X = sparse.csr_array(np.eye(10))
    np.testing.assert_array_equal(kernels.times(X, np.ones((10, 4))), np.ones((10, 4)))
    np.testing.assert_array_equal(kernels.dots(np.ones((10, 4)), np.ones((10, 4))), 10)


def test_work_in_threads_that_fails_is_not_left_behind():
    def work(number):
        if number == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        done.append(number)

    done = []
    with pytest.raises(KeyboardInterrupt):
        in_threads(work, [(0,), (1,), (2,)])
    assert sorted(done) == [1, 2]
