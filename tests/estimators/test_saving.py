"""Files of fitted estimators: they come back as they were, or not at all."""

import errno
import json
import os
import stat
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as save_tensors
from scipy import sparse

from genelin import CCA, CCALin, Davidson, Dense, solvers, top_k_cca
from genelin.baselines import MomentumALS
from genelin.estimators import partial_fit
from genelin.io import load_archive, save_archive, write_atomically
from genelin.io.archive import _checksum
from genelin.io.atomic import folder_written_atomically
from genelin.io.random_state_json import generator_parts


def views(n=80, p=4, q=3, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2))
    X = np.c_[Z, rng.standard_normal((n, p - 2))] + 0.5 * rng.standard_normal((n, p))
    return X, np.c_[Z, rng.standard_normal((n, q - 2))] + 0.5 * rng.standard_normal((n, q))


SETTINGS = {
    "default": {},
    "everything": {"reg": (0.1, 0.2), "scale": True, "tol": 1e-5, "random_state": 3},
    "numpy numbers": {"reg": np.array([0.1, 0.2]), "n_components": np.int64(1)},
    "shrinkage": {"shrinkage": 0.5, "center": False},
    "dense": {"method": Dense()},
    "iteration": {"method": Davidson(solver=solvers.CG(preconditioner=solvers.Jacobi()))},
    "a start": {"method": Davidson(start=(np.eye(4, 2), np.eye(3, 2)))},
    "a start in one block": {"method": Davidson(start=np.eye(7, 2))},
    "a solution to start from": {"method": Davidson(start=top_k_cca(*views(), k=2))},
    "a rival": {"method": MomentumALS(), "tol": 1e-4},
    "the paper": {"method": CCALin(solver=solvers.AGD(), projection="random"), "max_iter": 500},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_comes_back_as_it_was(tmp_path, case):
    import pandas as pd

    X, Y = views()
    X = pd.DataFrame(X, columns=list("abcd"))
    cca = CCA(**SETTINGS[case]).fit(X, Y)
    cca.save(tmp_path / "model.safetensors")
    twin = CCA.load(tmp_path / "model.safetensors")
    for one, other in zip(cca.transform(X, Y), twin.transform(X, Y), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(cca.predict(X), twin.predict(X))
    assert cca.score(X, Y) == twin.score(X, Y)
    assert list(twin.feature_names_in_) == list("abcd")
    assert repr(twin.method) == repr(cca.method)
    for name in ("status", "cost", "sin_theta_bound"):
        assert getattr(twin.solution_, name) == getattr(cca.solution_, name)
    np.testing.assert_array_equal(twin.solution_.residuals, cca.solution_.residuals)
    for one, other in zip(cca.solution_.trace, twin.solution_.trace, strict=True):
        assert repr(one) == repr(other)
    names = {name for name in vars(cca) if name.endswith("_")}
    assert names == {name for name in vars(twin) if name.endswith("_")}
    for name in names - {"solution_"}:
        np.testing.assert_array_equal(getattr(cca, name), getattr(twin, name))
    if case == "default":
        assert repr(twin.significance()) == repr(cca.significance())
    assert twin._spectrum.refusal == cca._spectrum.refusal
    accuracy = SETTINGS[case].get("tol", 1e-9)  # values are as good as its square, from any start
    again = twin.fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(again, cca.canonical_correlations_, rtol=accuracy)


PRECONDITIONERS = [
    solvers.BlockJacobi(size=2),
    solvers.BlockJacobi(blocks=[range(2), np.array([2])]),
    solvers.IncompleteCholesky(),
    solvers.Nystrom(rank=2, rng=5),
    solvers.Nystrom(rank=2, rng=np.random.default_rng(5)),
    solvers.SparseCholesky(),
]


@pytest.mark.parametrize("preconditioner", PRECONDITIONERS, ids=lambda p: type(p).__name__)
def test_preconditioners_come_back(tmp_path, preconditioner):
    X, Y = views(q=4)
    method = Davidson(solver=solvers.CG(preconditioner=preconditioner))
    cca = CCA(2, method=method)
    try:
        cca.fit(X, Y)
    except ValueError:  # one for sparse covariances
        cca.method = None
        cca.fit(X, Y).set_params(method=method)
    cca.save(tmp_path / "m")
    twin = CCA.load(tmp_path / "m").method.solver.preconditioner
    assert type(twin) is type(preconditioner)
    if isinstance(preconditioner, solvers.Nystrom):
        one, other = (np.random.default_rng(p.rng) for p in (preconditioner, twin))
        assert twin.rank == preconditioner.rank
        assert one.bit_generator.state == other.bit_generator.state
    if isinstance(preconditioner, solvers.BlockJacobi) and preconditioner.blocks:
        assert [list(block) for block in twin.blocks] == [[0, 1], [2]]
    if isinstance(preconditioner, solvers.BlockJacobi):
        assert twin.size == preconditioner.size


@pytest.mark.parametrize("kind", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_a_random_state_goes_on_where_it_was(tmp_path, kind):
    X, Y = views()
    cca = CCA(1, random_state=np.random.RandomState(getattr(np.random, kind)(3))).fit(X, Y)
    cca.random_state.standard_normal()  # half of a pair, of which the other half is kept
    cca.save(tmp_path / "m")
    twin = CCA.load(tmp_path / "m")
    for draw in ("standard_normal", "randint"):
        given = (100,) if draw == "randint" else ()
        one, other = (getattr(e.random_state, draw)(*given) for e in (cca, twin))
        assert one == other
    assert twin._seed() == cca._seed()


def test_one_target_stays_flat(tmp_path):
    X, Y = views()
    cca = CCA(1).fit(X, Y[:, 0])
    cca.save(tmp_path / "m")
    assert CCA.load(tmp_path / "m").predict(X).shape == (80,)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_streams_go_on(tmp_path, monkeypatch, convert, wide):
    if wide:
        monkeypatch.setattr("genelin.estimators.cca.MOST_FEATURES", 2)
        monkeypatch.setattr(partial_fit.Reservoir.__init__, "__defaults__", (300,))
    X, Y = views(200)
    batches = [(convert(X[rows]), Y[rows]) for rows in np.split(np.arange(200), 4)]
    whole, first = CCA(2, random_state=0), CCA(2, random_state=0)
    for batch in batches:
        whole.partial_fit(*batch)
    for batch in batches[:2]:
        first.partial_fit(*batch)
    first.save(tmp_path / "m")
    second = CCA.load(tmp_path / "m")
    for batch in batches[2:]:
        second.partial_fit(*batch)
    np.testing.assert_array_equal(second.canonical_correlations_, whole.canonical_correlations_)
    assert second.n_samples_seen_ == 200


def test_what_json_cannot_hold_is_refused_before_writing(tmp_path):
    X, Y = views()
    for setting, value in (
        ("method", CCALin(solver=lambda B, b, u0, delta: np.linalg.solve(B @ np.eye(len(b)), b))),
        ("method", CCALin(reduction=lambda t: 0.1)),
    ):
        cca = CCA(1, **{setting: value}).fit(X, Y)
        with pytest.raises(ValueError, match=rf"{setting}.*cannot be saved.*set_params\({setting}"):
            cca.save(tmp_path / "m")
        assert os.listdir(tmp_path) == []
        cca.set_params(**{setting: None}).save(tmp_path / "m")
        np.testing.assert_array_equal(CCA.load(tmp_path / "m").predict(X), cca.predict(X))
        (tmp_path / "m").unlink()


def test_without_safetensors_it_says_what_to_install(tmp_path, monkeypatch):
    X, Y = views()
    cca = CCA(1).fit(X, Y)
    cca.save(tmp_path / "m")
    for module in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, module, None)
    for call in (lambda: cca.save(tmp_path / "n"), lambda: CCA.load(tmp_path / "m")):
        with pytest.raises(ImportError, match=r'pip install "genelin\[io\]"'):
            call()


# --- Files that are not what they should be ----------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a file, its estimator, and a folder to play in."""
    folder = tmp_path_factory.mktemp("files")
    X, Y = views(40, 3, 2)
    cca = CCA(1).partial_fit(X, Y)
    cca.save(folder / "whole")
    return (folder / "whole").read_bytes(), cca, folder


def read_back(content, folder, cca):
    """Either a clear error, or the same estimator."""
    path = folder / "played"
    path.write_bytes(content)
    twin, message = None, ""
    try:
        twin = CCA.load(path)
    except ValueError as error:
        message = str(error)
    if twin is None:
        assert "played" in message
        assert len(message) < 1000
        return False
    np.testing.assert_array_equal(twin.x_weights_, cca.x_weights_)
    assert twin.get_params() == cca.get_params()
    return True


@settings(max_examples=300)
@given(data=st.data())
def test_truncated_files(whole, data):
    content, cca, folder = whole
    length = data.draw(st.integers(0, len(content) - 1))
    assert not read_back(content[:length], folder, cca)


@settings(max_examples=600)
@given(data=st.data())
def test_flipped_bytes(whole, data):
    content, cca, folder = whole
    changed = bytearray(content)
    head = data.draw(st.booleans())  # half of the flips in the header, where it hurts
    top = 8 + int.from_bytes(content[:8], "little") if head else len(content)
    for place in data.draw(st.lists(st.integers(0, top - 1), min_size=1, max_size=3)):
        changed[place] ^= data.draw(st.integers(1, 255))
    read_back(bytes(changed), folder, cca)


@settings(max_examples=200)
@given(content=st.binary(max_size=200))
def test_any_bytes(whole, content):
    _, cca, folder = whole
    assert not read_back(content, folder, cca)


def test_a_flipped_number_is_noticed(whole):
    """safetensors would not: the checksum does."""
    content, cca, folder = whole
    changed = bytearray(content)
    changed[-3] ^= 1
    assert not read_back(bytes(changed), folder, cca)


def forged(whole, change_header=lambda header: header, change_arrays=lambda arrays: arrays):
    """A file with other content and a checksum that fits."""
    content, _, folder = whole
    (folder / "original").write_bytes(content)
    with safe_open(folder / "original", framework="np") as file:
        metadata = file.metadata()
        arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    header = change_header(json.loads(metadata["header"]))
    arrays = change_arrays(arrays)
    text = header if isinstance(header, str) else json.dumps(header)
    metadata |= {"header": text}
    metadata["sha256"] = _checksum(metadata["kind"], metadata["version"], text, arrays)
    path = folder / "forged"
    path.write_bytes(save_tensors(arrays, metadata=metadata))
    return path


def put(*keys):
    *way, last, value = keys

    def change(header):
        place = header
        for key in way:
            place = place[key]
        place[last] = value
        return header

    return change


def random_state(**changes):
    """A setting that holds random numbers, and what a forger makes of it."""
    parts = generator_parts(np.random.RandomState(0)) | changes.pop("parts", {})
    parts["state"] = parts["state"] | changes.pop("state", {})
    parts["state"]["state"] = parts["state"]["state"] | changes
    return put("settings", "random_state", {"random": parts})


HOSTILE = {
    "random numbers of no kind": random_state(state={"bit_generator": "default_rng"}),
    "random numbers beyond their array": random_state(pos=625),
    "random numbers before their array": random_state(pos=-1),
    "too few random numbers": random_state(key={"uint": [1, 2, 3], "dtype": "uint32"}),
    "negative random numbers": random_state(key={"uint": [-1] * 624, "dtype": "uint32"}),
    "a part too many of random numbers": random_state(more=1),
    "random numbers of another class": random_state(parts={"kind": "object"}),
    "a generator as random state": random_state(parts={"kind": "Generator"}),
    "an array that is not there": put("settings", "method", {"array": "settings.method"}),
    "an array as a method": put("settings", "method", {"array": "spectrum"}),
    "a schedule as a method": put(
        "settings",
        "method",
        {"class": "TwoPhase", "fields": {"rho": 0.5, "gamma": 1.0, "k": 1, "cos_theta0": 0.5}},
    ),
    "a preconditioner as a method": put(
        "settings", "method", {"class": "Nystrom", "fields": {"rank": 3}}
    ),
    "a function of the rivals' module": put("settings", "method", {"class": "als", "fields": {}}),
    "a class of its own": put("settings", "method", {"class": "os.system", "fields": {}}),
    "a builtin": put("settings", "method", {"class": "eval", "fields": {"x": "1"}}),
    "an unknown field": put("settings", "method", {"class": "Dense", "fields": {"x": 1}}),
    "a bad field": put("settings", "method", {"class": "Davidson", "fields": {"blocks": "many"}}),
    "no such setting": put("settings", "__class__", 1),
    "reg": put("settings", "reg", "0.1"),
    "regs": put("settings", "reg", [1, 2, 3]),
    "a solver as method": put("settings", "method", {"class": "GD", "fields": {}}),
    "components": put("settings", "n_components", -1),
    "no features": put("features", [0, 0]),
    "huge features": put("features", [2**60, 2]),
    "features as text": put("features", "ab"),
    "wrong components": put("components", 2),
    "status": put("status", "__class__"),
    "names": put("names", ["a"]),
    "names that are none": put("names", [1, 2, 3]),
    "cost": put("cost", [1]),
    "total": put("stream", "total", float("nan")),
    "counted": put("stream", "counted", True),
    "spectrum": put("spectrum", [9, 9, 9, ""]),
    "a list": lambda header: [],
    "nothing": lambda header: None,
    "too deep": lambda header: "[" * 100_000 + "]" * 100_000,
    "not JSON": lambda header: "{",
    "deep settings": lambda header: put("settings", "reg", json.loads("[" * 900 + "]" * 900))(
        header
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers(whole, case):
    path = forged(whole, change_header=HOSTILE[case])
    with pytest.raises(ValueError, match="forged is not a file of genelin, or is damaged"):
        CCA.load(path)


ARRAYS = {
    "missing": lambda arrays: {n: a for n, a in arrays.items() if n != "x_mean_"},
    "NaN": lambda arrays: arrays | {"x_weights_": np.full_like(arrays["x_weights_"], np.nan)},
    "shape": lambda arrays: arrays | {"x_mean_": np.zeros(99)},
    "float32": lambda arrays: arrays | {"x_mean_": arrays["x_mean_"].astype(np.float32)},
    "trace": lambda arrays: arrays | {"trace": np.zeros((2, 2))},
    "flat trace": lambda arrays: arrays | {"ritz_values": np.zeros(0)},
}


@pytest.mark.parametrize("case", ARRAYS)
def test_hostile_arrays(whole, case):
    path = forged(whole, change_arrays=ARRAYS[case])
    with pytest.raises(ValueError, match="forged is not a file of genelin, or is damaged"):
        CCA.load(path)


def test_indices_outside_a_sample_are_refused(tmp_path, monkeypatch):
    """They would reach compiled loops."""
    monkeypatch.setattr("genelin.estimators.cca.MOST_FEATURES", 2)
    X, Y = views()
    cca = CCA(1, random_state=0).partial_fit(sparse.csr_array(X), Y)
    cca.save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes(), cca, tmp_path
    for change in (10**6, -1):

        def spoil(arrays, change=change):
            arrays["stream.X.indices"][5] = change
            return arrays

        with pytest.raises(ValueError, match="damaged"):
            CCA.load(forged(whole, change_arrays=spoil))


def test_other_files_are_told_apart(tmp_path):
    save_archive(tmp_path / "other", "genelin.Other", 1, {}, {"part": np.zeros(1)})
    with pytest.raises(ValueError, match=r"holds a 'genelin.Other', not a 'genelin.CCA'"):
        CCA.load(tmp_path / "other")
    save_archive(tmp_path / "newer", "genelin.CCA", 2, {}, {"part": np.zeros(1)})
    with pytest.raises(ValueError, match="has layout 2, this genelin reads layout 1"):
        CCA.load(tmp_path / "newer")
    with pytest.raises(FileNotFoundError, match="no such file"):
        CCA.load(tmp_path / "nowhere")
    (tmp_path / "plain").write_bytes(save_tensors({"a": np.ones(2)}))
    with pytest.raises(ValueError, match="damaged: it lacks"):
        load_archive(tmp_path / "plain", "genelin.CCA", 1)


# --- The one writer ----------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_writing_as_on_windows(tmp_path, monkeypatch):
    """No folder can be opened there, and no file synced that is open for reading only."""
    fcntl = pytest.importorskip("fcntl")
    synced = []

    def fsync(handle):
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        synced.append(stat.S_ISREG(os.fstat(handle).st_mode))

    monkeypatch.delattr(os, "O_DIRECTORY")
    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "file", b"whole")
    for content in (b"one", b"two"):
        with folder_written_atomically(tmp_path / "folder") as folder:
            (folder / "part").write_bytes(content)
        assert (tmp_path / "folder" / "part").read_bytes() == content
    assert synced == [True, True, True]


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such permissions here")
def test_permissions(tmp_path):
    path = tmp_path / "file"
    mask = os.umask(0o022)
    try:
        write_atomically(path, b"old")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_atomically(tmp_path / "a" / "b", b"")
