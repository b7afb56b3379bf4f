"""Workers in processes of their own: the same answer, whatever happens to them."""

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from chunks import in_chunks, shared_factors
from genelin import CCA, Davidson, datasets, top_k_cca
from genelin.data import dask_scheduler
from genelin.data.dask_rows import PATIENCE, dask_rows
from genelin.data.reductions import CrossTimes
from genelin.data.row_blocks import Task
from genelin.io import Checkpoint
from genelin.kernels.compiled import threads

PAUSE = float(os.environ.get("GENELIN_TEST_PAUSE", "5"))  # seconds that a worker stands still
VIEWS = shared_factors(900, 12, 12)
signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals here")
SETTINGS = {"method": Davidson(), "form": False, "tol": 1e-8}  # a hundred sums over rows


@pytest.fixture(autouse=True)
def quiet():
    """What Dask says about lost workers is not news here."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)


def cluster_of(workers, threads):
    """Worker processes with so many threads each."""
    return LocalCluster(
        n_workers=workers, threads_per_worker=threads, dashboard_address=":0", silence_logs=60
    )


def local(workers):
    return cluster_of(workers, 1)


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread each, which are started anew when they die."""
    with local(2) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def exact():
    return top_k_cca(*VIEWS, 2, **SETTINGS).correlations


def fitted(after_the_first=None, **more):
    """Correlations of both views in six chunks; something happens after an outer iteration."""
    x, y = (in_chunks(Z, 150) for Z in VIEWS)
    seen = []

    def callback(record, W):
        seen.append(record)
        if len(seen) == 1 and after_the_first is not None:
            after_the_first()

    found = top_k_cca(x, y, 2, callback=callback, **SETTINGS, **more)
    assert len(found.trace) > 1
    return found.correlations


def holders(client):
    """The workers that have each pair of parts."""
    everything = client.who_has().items()
    return {key: set(workers) for key, workers in everything if "side_by_side" in key}


def some_worker(client):
    """The process of a worker that has rows."""
    processes = client.run(os.getpid)
    return processes[next(worker for workers in holders(client).values() for worker in workers)]


def test_workers_give_the_answer_of_memory(client, exact):
    np.testing.assert_allclose(fitted(), exact, atol=1e-10)


@pytest.fixture(scope="module")
def one_worker():
    """One worker process of two threads."""
    with cluster_of(1, 2) as cluster:
        yield cluster


def in_memory_and_with(X, Y, k, chunk, **settings):
    """Correlations of memory and of Dask."""
    exact = top_k_cca(X, Y, k, **settings).correlations
    return exact, top_k_cca(in_chunks(X, chunk), in_chunks(Y, chunk), k, **settings).correlations


def test_one_worker_gives_the_same(one_worker, data):
    X, Y = (Z[:3000].astype(np.float64) for Z in datasets.mnist_halves(rows=3000))
    with Client(one_worker):
        np.testing.assert_allclose(*in_memory_and_with(X, Y, 5, 800, reg=1e-2), atol=1e-8)


def test_two_workers_give_the_same_for_real_data(client, data, ptb_bigrams):
    X, Y = (Z[:3000].astype(np.float64) for Z in datasets.mnist_halves(rows=3000))
    np.testing.assert_allclose(*in_memory_and_with(X, Y, 5, 800, reg=1e-2), atol=1e-8)
    X, Y = (Z[:200_000] for Z in ptb_bigrams)
    settings = {"reg": 1e-5, "center": False, "tol": 1e-9}
    np.testing.assert_allclose(*in_memory_and_with(X, Y, 3, 60_000, **settings), atol=1e-8)


def test_rows_stay_with_the_workers(client):
    class Where(Task):
        def __call__(self, part):
            return ([(part.start, os.getpid(), threads())],)

    x, y = (dask_rows(in_chunks(Z, 150)) for Z in VIEWS)
    found = x.summed(Where(), y)[0]
    assert sorted(start for start, *_ in found) == list(range(0, 900, 150))
    assert {pid for _, pid, _ in found} <= set(client.run(os.getpid).values())
    assert {count for *_, count in found} == {1}
    held = holders(client)
    assert len(held) == 6
    x.summed(Where(), y)
    assert all(held[key] & holders(client)[key] for key in held)
    del x, y
    wait_until(lambda: not any(client.who_has().values()), "rows are still held")


def test_a_fit_leaves_nothing_behind(client):
    gc.collect()
    gc.disable()  # no rows wait for a collection of cycles
    try:
        fitted()
        CCA(2).fit(*(in_chunks(Z, 150) for Z in VIEWS))
        wait_until(lambda: not any(client.who_has().values()), "rows are still held")
    finally:
        gc.enable()


@signals
def test_a_worker_pauses(client, exact):
    def pause():
        process = some_worker(client)
        os.kill(process, signal.SIGSTOP)
        threading.Timer(PAUSE, os.kill, (process, signal.SIGCONT)).start()

    start = time.monotonic()
    np.testing.assert_allclose(fitted(pause), exact, atol=1e-10)
    assert time.monotonic() - start >= PAUSE


def test_a_worker_is_added(client, exact):
    def add():
        client.cluster.scale(3)
        client.wait_for_workers(3, timeout=60)

    np.testing.assert_allclose(fitted(add), exact, atol=1e-10)


@pytest.fixture
def sent_apart(monkeypatch):
    """All blocks are sent to the workers as large ones are: apart from the graph."""
    monkeypatch.setattr(dask_scheduler, "LARGE", 0)


@pytest.mark.usefixtures("sent_apart")
def test_blocks_that_are_sent_apart(client, exact):
    np.testing.assert_allclose(fitted(), exact, atol=1e-10)


@signals
@pytest.mark.usefixtures("sent_apart")
@pytest.mark.parametrize("delay", [0.0, 0.03])
def test_the_only_worker_is_killed_with_what_was_sent_to_it(exact, delay):
    with local(1) as cluster, Client(cluster) as client:

        def kill():
            threading.Timer(delay, os.kill, (some_worker(client), signal.SIGKILL)).start()

        np.testing.assert_allclose(fitted(kill), exact, atol=1e-10)


def shares(client, rows):
    """How many parts each worker holds, in rising order."""
    wait(rows._held.parts)
    held = [worker for (worker,) in client.who_has(client.futures_of(rows._held.parts)).values()]
    return sorted(held.count(worker) for worker in client.nthreads())


def with_one_worker(client, X):
    """Chunks of a name of their own: what is bound to a worker is lost with it, for all tests."""
    chunks = da.from_array(X, chunks=(150, -1), name=False)
    return dask_rows(client.persist(chunks, workers=[min(client.nthreads())]))


def test_rows_are_shared_out_among_workers(client):
    rows, others = (with_one_worker(client, Z) for Z in VIEWS)
    rows._met(others)
    assert np.ptp(shares(client, rows)) <= 1


def test_rows_of_one_view_are_shared_out_once_sums_repeat(client):
    X = VIEWS[0]
    rows, task = with_one_worker(client, X), CrossTimes(np.eye(X.shape[1]))
    sums = [rows.summed(task)[0] for _ in range(PATIENCE + 1)]
    assert np.ptp(shares(client, rows)) <= 1
    for product in sums:
        np.testing.assert_allclose(product, X.T @ X, rtol=1e-12)


@signals
@pytest.mark.parametrize("delay", [0.0, 0.03])
def test_a_worker_is_killed(client, exact, delay):
    struck = []

    def kill():
        struck.append(some_worker(client))
        threading.Timer(delay, os.kill, (struck[0], signal.SIGKILL)).start()

    np.testing.assert_allclose(fitted(kill), exact, atol=1e-10)
    assert struck[0] not in client.run(os.getpid).values()


@contextmanager
def commands(folder):
    """A scheduler and two workers, started by their own commands: the scheduler's process."""
    file, started = folder / "scheduler.json", []

    def start(*command):
        command = [sys.executable, "-W", "ignore", "-m", "dask", *command]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(command, start_new_session=True, cwd=folder, **quiet))
        return started[-1]

    try:
        where = ("--host", "127.0.0.1", "--scheduler-file", str(file), "--no-dashboard")
        scheduler = start("scheduler", "--port", "0", *where)
        wait_until(file.exists, "the scheduler does not start")
        for _ in range(2):
            start("worker", "--nthreads", "1", "--no-nanny", *where)
        yield file, scheduler
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize("large", [2**18, 0], ids=["in the graph", "sent apart"])
def test_own_commands_and_the_loss_of_the_scheduler(tmp_path, exact, monkeypatch, large):
    monkeypatch.setattr(dask_scheduler, "LARGE", large)
    with (
        commands(tmp_path) as (file, scheduler),
        Client(scheduler_file=str(file), timeout=20) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        np.testing.assert_allclose(fitted(), exact, atol=1e-10)
        client._timeout = 1  # how long it tries to find the scheduler again
        kept = Checkpoint(tmp_path / "kept", every=0.0)
        with pytest.raises(ConnectionError, match=r"Start the cluster again.*resume=True"):
            fitted(scheduler.kill, checkpoint=kept)
    assert kept.exists
    np.testing.assert_allclose(fitted(checkpoint=kept, resume=True), exact, atol=1e-8)


def wait_until(true, what, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)
