import bz2
import gzip
import hashlib
import io
import tarfile
import threading
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from genelin import TwoView, datasets, measures, top_k, top_k_cca
from genelin.datasets import fetch as fetching
from genelin.io.formats.svmlight import Base
from genelin.linalg import sin_theta

# --- Generators ----------------------------------------------------------------------------------


def standard_errors(found, promised, n):
    """Distances in the standard errors of a correlation, (1 − ρ²)/√n."""
    return np.abs(found - promised) / ((1 - promised**2) / np.sqrt(n))


@pytest.mark.parametrize("kappa", [1.0, (30.0, 1e4)])
def test_gaussian_views_have_the_promised_correlations(kappa):
    n, promised = 100_000, np.array([0.95, 0.8, 0.5, 0.3])
    views = datasets.two_view_gaussian(n, (8, 5), promised[::-1], kappa, rng=1)
    np.testing.assert_array_equal(views.correlations, promised)
    pairs = top_k_cca(*views, k=4)
    assert standard_errors(pairs.correlations, promised, n).max() < 3
    problem = TwoView(*views)
    assert measures.sin_theta_x(problem, pairs.x_weights[:, :2], views.x_weights[:, :2]) < 0.02
    assert measures.sin_theta_y(problem, pairs.y_weights[:, :2], views.y_weights[:, :2]) < 0.02


def test_gaussian_views_have_the_promised_condition():
    views = datasets.two_view_gaussian(200_000, (10, 6), [0.5], (100.0, 4.0))
    conditions = [np.linalg.cond(Z.T @ Z / len(Z)) for Z in views]
    np.testing.assert_allclose(conditions, [100.0, 4.0], rtol=0.05)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("reg", [0.0, 1e-2])
def test_topics_have_the_promised_correlations(center, reg):
    n, d, topics = 200_000, 30, 5
    views = datasets.sparse_topics(n, d, nonzeros=4, topics=topics, rng=3)
    promised = datasets.topic_correlations(d, 4, topics, reg=reg, center=center)
    assert len(promised) == topics - center
    pairs = top_k_cca(*views, k=len(promised), reg=reg, center=center)
    assert standard_errors(pairs.correlations, promised, n).max() < 3


def test_topics_are_the_same_however_many_rows_are_drawn_at_once(monkeypatch):
    whole = datasets.sparse_topics(300, 50, rng=5)
    monkeypatch.setattr("genelin.datasets.topics.ROWS", 100)
    parts = datasets.sparse_topics(300, 50, rng=5)
    assert parts.X.shape == whole.X.shape
    assert set(np.unique(parts.X.data)) == {1.0}
    assert parts.X.has_canonical_format
    assert np.diff(parts.Y.indptr).max() <= 6


@settings(max_examples=20)
@given(
    d=st.integers(1, 40),
    log_kappa=st.floats(0, 6),
    rho=st.floats(0.05, 0.9),
    gamma=st.floats(1, 20),
    indefinite=st.booleans(),
    unit=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_pencils_are_what_they_promise(d, log_kappa, rho, gamma, indefinite, unit, seed):
    k, kappa = 1 + seed % d, 10**log_kappa
    case = datasets.pencil(
        d, k, kappa, rho, gamma, indefinite=indefinite, unit_diagonal=unit, rng=seed
    )
    limit = 1e-13 * case.kappa * d
    np.testing.assert_allclose(
        case.A @ case.vectors, case.B @ case.vectors * case.values, atol=limit
    )
    np.testing.assert_allclose(case.vectors.T @ case.B @ case.vectors, np.eye(d), atol=limit)
    assert np.all(np.diff(np.abs(case.values)) <= 0)
    assert indefinite or np.all(case.values >= 0)
    np.testing.assert_allclose(np.linalg.cond(case.B), case.kappa if d > 1 else 1.0, rtol=1e-6)
    if k > 1:
        assert case.gamma(k) == pytest.approx(gamma)
    if k < d:
        assert case.rho(k) == pytest.approx(rho)
    if unit:
        np.testing.assert_allclose(case.B.diagonal(), 1.0)


def test_a_pencil_takes_the_eigenvalues_themselves():
    case = datasets.pencil(4, values=[1.0, -3.0, 2.0, 0.5], kappa=50.0)
    assert case.values.tolist() == [-3.0, 2.0, 1.0, 0.5]
    sol = top_k(case.A, case.B, k=2)
    np.testing.assert_allclose(sol.values, [-3.0, 2.0])
    assert sin_theta(sol.vectors, case.vectors[:, :2], case.B) < 1e-6


def test_sparse_pairs_are_exact():
    values = np.linspace(0.95, 0.1, 60)
    views = datasets.sparse_pairs(values, rng=2)
    pairs = top_k_cca(*views, k=60, center=False)
    np.testing.assert_allclose(pairs.correlations, values, atol=1e-8)
    assert views.X.nnz < 60 * 2 * 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.two_view_gaussian(10, 3, [0.5] * 4), "the smaller d, 3"),
        (lambda: datasets.two_view_gaussian(10, 3, [1.5]), r"\[0, 1\)"),
        (lambda: datasets.two_view_gaussian(10, 3, kappa=0.5), "kappa"),
        (lambda: datasets.sparse_topics(10, 5, topics=6), "topics=6"),
        (lambda: datasets.sparse_topics(0, 5), "n=0"),
        (lambda: datasets.pencil(5, kappa=0.1), "kappa"),
        (lambda: datasets.pencil(5, k=6), "k=6"),
        (lambda: datasets.pencil(5, values=[1.0]), "d = 5"),
        (lambda: datasets.sparse_pairs([2.0]), "correlations"),
        (lambda: datasets.mesh_pencil(1), "side"),
    ],
)
def test_generators_refuse_what_cannot_be(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Images and text -----------------------------------------------------------------------------


def test_digits_are_cut_in_two():
    views = datasets.digits_halves()
    assert views.X.shape == views.Y.shape == (1797, 32)
    assert views.x_names[0] == "pixel 0,0"
    assert views.y_names[0] == "pixel 0,4"
    assert 0 == views.X.min() < views.X.max() == 1.0
    assert views.licence
    assert views.description


def write_idx(path, images, magic=2051):
    header = np.array([magic, *images.shape], ">i4").tobytes()
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wb") as file:
        file.write(header + images.astype(np.uint8).tobytes())


def test_mnist_is_read_and_cut(tmp_path, monkeypatch):
    monkeypatch.setenv("GENELIN_DATA", str(tmp_path))
    images = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
    write_idx(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", images)
    X, Y = datasets.mnist_halves(rows=2)
    np.testing.assert_array_equal(X.reshape(2, 28, 14) * 255, images[:2, :, :14])
    np.testing.assert_array_equal(Y.reshape(2, 28, 14) * 255, images[:2, :, 14:])
    with pytest.raises(ValueError, match="rows=4"):
        datasets.mnist_halves(rows=4)
    write_idx(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz", images, magic=2049)
    with pytest.raises(datasets.DataError, match="not a whole IDX file"):
        datasets.mnist_halves("test")


def test_mnist_has_its_known_shape(data):
    views = datasets.mnist_halves()
    assert views.X.shape == (60_000, 392)
    assert (np.ptp(views.X, axis=0) > 0).sum() == 353
    assert (np.ptp(views.Y, axis=0) > 0).sum() == 364
    assert datasets.mnist_halves("test").X.shape == (10_000, 392)


def test_penn_treebank_has_its_known_counts(data):
    views = datasets.ptb_bigrams()
    assert views.X.shape == (929_588, 10_000)
    bigrams = views.X.T @ views.Y
    assert bigrams.nnz == 264_989
    assert views.x_names[views.X.indices[0]] == "aer"


def test_a_window_counts_the_words_ahead(tmp_path):
    file = tmp_path / "text.txt.bz2"
    file.write_bytes(bz2.compress(b"a b a\nc b a\n"))  # a b a <eos> c b a <eos>
    views = datasets.ptb_bigrams(file, window=3)
    assert views.X.shape == (5, 4)
    row = dict(zip(views.y_names, views.Y.toarray()[1], strict=True))  # after b: a <eos> c
    assert row == {"<eos>": 1.0, "a": 1.0, "b": 0.0, "c": 1.0}
    assert views.Y.sum(axis=1).tolist() == [3.0] * 5


def test_rare_words_are_one(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("a a a b b c d <unk>\n")
    views = datasets.ptb_bigrams(file, vocabulary=3)
    assert set(views.x_names) == {"a", "b", "<unk>"}
    assert views.X.sum(axis=0).astype(int).tolist() == [3, 3, 2]  # <unk> c d, a, b; <eos> is last


def test_texts_that_are_none(tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes(b"fine\n\xff\xfe")
    with pytest.raises(datasets.DataError, match="line 2: not UTF-8"):
        datasets.ptb_bigrams(file)
    file.write_text("one")
    with pytest.raises(datasets.DataError, match="too few"):
        datasets.ptb_bigrams(file, window=5)
    with pytest.raises(ValueError, match="window=0"):
        datasets.ptb_bigrams(file, window=0)
    with pytest.raises(ValueError, match="vocabulary=1"):
        datasets.ptb_bigrams(file, vocabulary=1)


# --- Debian --------------------------------------------------------------------------------------


def test_paths_become_bags(tmp_path):
    first, second = tmp_path / "Contents-a.gz", tmp_path / "Contents-b.gz"
    first.write_bytes(gzip.compress(b"usr/lib/usr/Foo-2bar.SO  libs/foo\nbin/ls utils/ls,x/y\n"))
    second.write_bytes(gzip.compress(b"usr/share/a file.txt  doc/d\n"))
    views = datasets.debian_paths([first, second], seen=1)
    assert views.x_names.tolist() == ["usr", "lib", "bin", "share"]
    assert views.y_names.tolist() == ["foo", "2", "bar", "so", "ls", "a", "file", "txt"]
    assert views.X.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]]
    assert views.Y.toarray()[2].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    twice = datasets.debian_paths([first, second, first], seen=2)
    assert twice.x_names.tolist() == ["usr", "lib", "bin"]
    assert twice.Y.toarray()[2].tolist() == [0] * 5  # its words are seen once


def test_damaged_indices_are_named(tmp_path):
    file = tmp_path / "Contents-a.gz"
    file.write_bytes(gzip.compress(b"usr/bin/x  a/b\nnonsense\n"))
    with pytest.raises(datasets.DataError, match=r"Contents-a.gz, line 2"):
        datasets.debian_paths(file, seen=1)
    file.write_bytes(gzip.compress(b"usr/bin/x  a/b\n" * 100)[:-10])
    with pytest.raises(datasets.DataError, match="damaged or cut off"):
        datasets.debian_paths(file, seen=1)
    file.write_bytes(gzip.compress(b"usr/bin/x  a/b\n"))
    with pytest.raises(datasets.DataError, match="lower `seen`"):
        datasets.debian_paths(file)


# --- svmlight ------------------------------------------------------------------------------------


@st.composite
def svmlight_texts(draw):
    rows = []
    numbers = st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.decimals(-1000, 1000, places=6, allow_nan=False).map(str),
        st.integers(-(10**25), 10**25).map(str),
        st.sampled_from(["1", "-0", "+.5", "2.", "1e5", "9007199254740993", "0.1e-30"]),
    )
    for _ in range(draw(st.integers(1, 8))):
        indices = sorted(draw(st.sets(st.integers(1, 2000), max_size=6)))
        words = [draw(numbers)] + [f"{j}:{draw(numbers)}" for j in indices]
        rows.append(draw(st.sampled_from([" ", "\t", "  "])).join(words))
        rows += draw(st.sampled_from([[], [""], ["# a comment"]]))
    return draw(st.sampled_from(["\n", "\r\n"])).join(rows) + draw(st.sampled_from(["", "\n"]))


@settings(max_examples=150)
@given(text=svmlight_texts(), chunk=st.integers(1, 200))
def test_numbers_are_those_of_python_to_the_last_bit(text, chunk):
    chunks = list(datasets.stream_svmlight(io.BytesIO(text.encode()), chunk, "text"))
    lines = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    assert [value for part in chunks for value in part.labels] == [float(w[0]) for w in lines]
    pairs = [word.split(":") for words in lines for word in words[1:]]
    assert [j for part in chunks for j in part.indices] == [int(j) for j, _ in pairs]
    assert [v for part in chunks for v in part.values] == [float(v) for _, v in pairs]
    lengths = np.concatenate([np.diff(part.indptr) for part in chunks])
    assert lengths.tolist() == [len(words) - 1 for words in lines]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"+1 3:1 5:", "value is missing"),
        (b"+1 3:1 5", "not followed by ':'"),
        (b"+1 3:1 5:1e", "value is missing or not a number"),
        (b"+1 3:1 5:0.5x", "value is missing or not a number"),
        (b"+1 3:1 -5:1", "not a whole number"),
        (b"+1 3:1 5.5:1", "not a whole number"),
        (b"+1 5:1 3:1", "ascending"),
        (b"+1 5:1 5:1", "ascending"),
        (b"+1 3000000000:1", "31 bits"),
        (b"spam 3:1", "label"),
        (b"+1:1 3:1", "label"),
    ],
)
@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_bad_lines_are_reported_with_file_and_line(tmp_path, line, message, chunk):
    file = tmp_path / "Day7.svm"
    file.write_bytes(b"-1 1:1 2:0.5\n# nothing\n" + line + b"\n-1 1:1\n")
    with pytest.raises(ValueError, match=rf"Day7\.svm, line 3: .*{message}"):
        list(datasets.stream_svmlight(file, chunk))


def test_queries_and_comments_are_skipped(tmp_path):
    file = tmp_path / "rank.svm"
    file.write_text("3 qid:7 1:0.5 2:1 # why\n")
    X, labels = datasets.read_svmlight(file)
    assert X.toarray().tolist() == [[0.5, 1.0]]
    assert labels.tolist() == [3.0]


def test_files_that_count_from_0_and_from_1_are_not_mixed(tmp_path):
    zero, one = tmp_path / "zero.svm", tmp_path / "one.svm"
    zero.write_text("1 2:1\n1 0:1 8:1\n")
    one.write_text("1 1:1\n1 2:1\n1 1:1 9:1\n")
    with pytest.raises(
        ValueError, match=r"one.svm, line 3: index 9 .*zero.svm, line 2 has index 0"
    ):
        datasets.read_svmlight([zero, one], columns=9)
    assert datasets.read_svmlight(zero, columns=9)[0].toarray()[1, 0] == 1
    assert datasets.read_svmlight(one, columns=9)[0].toarray()[2, 8] == 1
    with pytest.raises(ValueError, match=r"zero.svm, line 2: index 0 .* counts from 1"):
        datasets.read_svmlight(zero, zero_based=False)
    with pytest.raises(ValueError, match=r"one.svm, line 3: index 9 of 9 .* counts from 0"):
        datasets.read_svmlight(one, columns=9, zero_based=True)
    with pytest.raises(ValueError, match=r"one.svm, line 3: index 9 is beyond the 8 columns"):
        datasets.read_svmlight(one, columns=8)
    assert Base().first == 1


def test_the_mini_files_are_read_as_scikit_learn_reads_them(data):
    files = sorted((data / "url_reputation_mini").glob("*.svm"))
    assert len(files) == 6
    X, labels = datasets.read_svmlight(files, columns=3_231_961, zero_based=True)
    assert X.shape == (1200, 3_231_961)
    assert X.nnz == 137_634
    theirs, their_labels = load_svmlight_file(files[3], n_features=3_231_961, zero_based=True)
    assert (sparse.csr_array(theirs) != X[600:800]).nnz == 0
    np.testing.assert_array_equal(their_labels, labels[600:800])


def test_the_mini_files_make_two_views(data):
    folder = data / "url_reputation_mini"
    views = datasets.url_reputation(folder, features=None)
    assert views.X.shape[0] == 1200
    assert views.X.nnz + views.Y.nnz == 137_634
    assert views.X.shape[1] == len(views.x_names) == 40
    assert set(np.unique(views.Y.data)) == {1.0}
    dealt = datasets.url_reputation(folder, split="alternate", features=100)
    assert dealt.X.shape == dealt.Y.shape == (1200, 100)


def test_memory_does_not_grow_with_the_file(tmp_path):
    file = tmp_path / "long.svm"
    line = b"+1 " + b" ".join(b"%d:0.25" % j for j in range(1, 100)) + b"\n"
    peaks = []
    for repeats in (2_000, 20_000):
        file.write_bytes(line * repeats)
        assert sum(1 for _ in datasets.stream_svmlight(file, 1 << 17)) > 1  # compiled by now
        tracemalloc.start()
        rows = sum(len(chunk.labels) for chunk in datasets.stream_svmlight(file, 1 << 17))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows == repeats
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 0.5 * file.stat().st_size


# --- URL Reputation ------------------------------------------------------------------------------

DAYS = {
    "Day0.svm": "+1 1:0.5 3:1 9:1\n-1 1:0.25 3:1\n",
    "Day2.svm": "-1 3:1 4:1\n",
    "Day10.svm": "+1 1:0.125 4:1 9:1\n",
}


@pytest.fixture
def days(tmp_path):
    folder = tmp_path / "url_svmlight"
    folder.mkdir()
    for name, text in DAYS.items():
        (folder / name).write_text(text)
    return folder


def test_days_are_read_in_order_and_split_by_values(days):
    views = datasets.url_reputation(days, columns=10)
    assert views.x_names.tolist() == ["feature 1"]
    assert views.y_names.tolist() == ["feature 3", "feature 4", "feature 9"]  # 3, 2, 2 rows
    assert views.X.toarray().ravel().tolist() == [0.5, 0.25, 0.0, 0.125]
    assert views.Y.toarray().tolist() == [[1, 0, 1], [1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert "no file FeatureTypes" in views.description


def test_published_types_decide_where_they_are(days):
    (days / "FeatureTypes").write_text("1\n9\n")
    views = datasets.url_reputation(days, columns=10, features=(1, None))
    assert views.x_names.tolist() == ["feature 1"]  # 3 rows, feature 9 has 2
    assert views.y_names.tolist() == ["feature 3", "feature 4"]
    (days / "FeatureTypes").write_text("one")
    with pytest.raises(datasets.DataError, match="FeatureTypes"):
        datasets.url_reputation(days, columns=10)


def test_other_splits(days):
    views = datasets.url_reputation(days, split="alternate", columns=10)
    assert views.x_names.tolist() == ["feature 1", "feature 4"]
    assert views.y_names.tolist() == ["feature 3", "feature 9"]
    views = datasets.url_reputation(days, split=np.array([4]), columns=10, rows=3)
    assert views.X.toarray().ravel().tolist() == [0.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="split='halves'"):
        datasets.url_reputation(days, split="halves", columns=10)
    with pytest.raises(ValueError, match="features of X"):
        datasets.url_reputation(days, split=np.array([40]), columns=10)


def test_archives_and_combined_files_hold_the_same(days, tmp_path, monkeypatch):
    (days / "FeatureTypes").write_text("1\n")
    expected = datasets.url_reputation(days, columns=10)
    archive = tmp_path / "url_svmlight.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in (*DAYS, "FeatureTypes"):
            tar.add(days / name, f"url_svmlight/{name}")
    packed = datasets.url_reputation(archive, columns=10)
    combined = tmp_path / "url_combined.bz2"
    combined.write_bytes(bz2.compress("".join(DAYS.values()).encode()))
    monkeypatch.setenv("GENELIN_DATA", str(tmp_path))
    found = datasets.url_reputation(columns=10)
    for views in (packed, datasets.url_reputation(combined, columns=10), found):
        assert (views.X != expected.X).nnz == (views.Y != expected.Y).nnz == 0
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(datasets.DataError, match="damaged"):
        datasets.url_reputation(archive, columns=10)


def test_faults_in_days_are_named(days):
    (days / "Day2.svm").write_text("-1 3:1 4:1\n-1 3:1 400:1\n")
    with pytest.raises(ValueError, match=r"Day2.svm, line 2: index 400 is beyond the 10 columns"):
        datasets.url_reputation(days, columns=10)
    (days / "Day2.svm").write_text("-1 3:1 4")
    with pytest.raises(ValueError, match=r"Day2.svm, line 1"):
        datasets.url_reputation(days, columns=10)


# --- Downloads -----------------------------------------------------------------------------------

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT; the server's `faults` tell how often to break off, and what it can do."""

    def do_GET(self):
        settings = self.server.settings
        self.server.requests.append(dict(self.headers))
        if settings.get("status"):
            self.send_error(settings["status"])
            return
        first, content = 0, settings.get("content", CONTENT)
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, settings.get("etag", '"one"'))
        if wanted and same and settings.get("ranges", True):
            first = int(wanted.removeprefix("bytes=").split("-")[0])
            if first >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - first))
        if settings.get("etag", '"one"'):
            self.send_header("ETag", settings.get("etag", '"one"'))
        self.end_headers()
        if settings.get("breaks", 0) > 0:
            settings["breaks"] -= 1
            self.wfile.write(content[first : first + 100_000])
            self.close_connection = True
            return
        self.wfile.write(content[first:])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as served:
        served.settings, served.requests = {}, []
        served.url = f"http://127.0.0.1:{served.server_port}/file.gz"
        threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
        yield served
        served.shutdown()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_checked_and_renamed(server, tmp_path):
    seen = []
    path = datasets.download(
        server.url, tmp_path / "new" / "file.gz", SHA256, lambda *step: seen.append(step)
    )
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["file.gz"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_broken_transfer_is_taken_up_where_it_ended(server, tmp_path):
    server.settings["breaks"] = 2
    path = datasets.download(server.url, tmp_path / "file.gz", SHA256)
    assert path.read_bytes() == CONTENT
    assert [r.get("Range") for r in server.requests] == [None, "bytes=100000-", "bytes=200000-"]
    assert names(tmp_path) == ["file.gz"]


def test_what_is_there_is_kept_for_a_later_call(server, tmp_path):
    server.settings["breaks"] = 1
    with pytest.raises(datasets.DataError, match="100000 of 300000 bytes"):
        datasets.download(server.url, tmp_path / "file.gz", attempts=1)
    assert names(tmp_path) == ["file.gz.part", "file.gz.part.tag"]
    assert datasets.download(server.url, tmp_path / "file.gz").read_bytes() == CONTENT
    assert server.requests[-1]["Range"] == "bytes=100000-"


def test_a_file_that_changed_in_between_begins_anew(server, tmp_path):
    server.settings["breaks"] = 1
    with pytest.raises(datasets.DataError, match="ended"):
        datasets.download(server.url, tmp_path / "file.gz", attempts=1)
    server.settings.update(etag='"two"', content=CONTENT[::-1])
    assert datasets.download(server.url, tmp_path / "file.gz").read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("settings", [{"ranges": False}, {"etag": ""}, {"etag": 'W/"weak"'}])
def test_servers_that_cannot_resume_send_all_again(server, tmp_path, settings):
    server.settings.update(breaks=1, **settings)
    assert datasets.download(server.url, tmp_path / "file.gz").read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_thrown_away(server, tmp_path):
    (tmp_path / "file.gz.part").write_bytes(CONTENT + b"more")
    (tmp_path / "file.gz.part.tag").write_text('"one"')
    assert datasets.download(server.url, tmp_path / "file.gz", SHA256).read_bytes() == CONTENT


def test_two_downloads_of_one_file_do_not_mix(server, tmp_path):
    part = tmp_path / "file.gz.part"

    def other(done, total):
        if len(server.requests) == 1 and done > 100_000:
            with part.open("ab") as file:
                file.write(b"what another process has")

    assert (
        datasets.download(server.url, tmp_path / "file.gz", progress=other).read_bytes() == CONTENT
    )
    assert len(server.requests) == 2


def test_a_wrong_checksum_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(datasets.DataError, match=f"SHA-256 is {SHA256}, not 0000"):
        datasets.download(server.url, tmp_path / "file.gz", "0000")
    assert names(tmp_path) == []


def test_an_old_file_survives_a_failed_download(server, tmp_path):
    (tmp_path / "file.gz").write_text("old")
    server.settings["status"] = 404
    with pytest.raises(datasets.DataError, match="404"):
        datasets.download(server.url, tmp_path / "file.gz")
    assert len(server.requests) == 1  # there is no use in asking again
    assert (tmp_path / "file.gz").read_text() == "old"


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.settings["status"] = 503
    with pytest.raises(datasets.DataError, match="503"):
        datasets.download(server.url, tmp_path / "file.gz")
    assert len(server.requests) == 3


# --- Where files are found -----------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path, monkeypatch):
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("GENELIN_DATA", str(data))
    monkeypatch.setenv("GENELIN_CACHE", str(cache))
    return data, cache


def test_files_are_looked_for_then_downloaded_into_the_cache(folders, server):
    data, cache = folders
    source = fetching.Source("some/file.gz", (server.url,), SHA256)
    assert fetching.fetch(source) == cache / "some" / "file.gz"
    assert fetching.fetch(source) == cache / "some" / "file.gz"
    assert len(server.requests) == 1
    (data / "some").mkdir()
    (data / "some" / "file.gz").write_text("mine")
    assert fetching.fetch(source) == data / "some" / "file.gz"


def test_a_second_source_is_tried(folders, server):
    dead = "http://127.0.0.1:9/file.gz"
    source = fetching.Source("file.gz", (dead, server.url), SHA256)
    assert fetching.fetch(source).read_bytes() == CONTENT


def test_without_network_one_is_told_what_to_put_where(folders, monkeypatch):
    data, cache = folders
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: None)
    monkeypatch.setattr("genelin.datasets.images.MIRRORS", ("http://127.0.0.1:9/",))
    with pytest.raises(datasets.DataError) as caught:
        datasets.mnist_halves()
    message = str(caught.value)
    for part in ("http://127.0.0.1:9/train-images", str(data / "mnist"), str(cache / "mnist")):
        assert part in message
    with pytest.raises(datasets.DataError, match=r"ptb\.train\.txt .* licensed text"):
        datasets.ptb_bigrams()
    monkeypatch.setenv("GENELIN_DATA", str(data / "nowhere"))
    with pytest.raises(datasets.DataError, match="is not a folder"):
        datasets.digits_halves() and datasets.ptb_bigrams()


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/genelin"),
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache/genelin"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/genelin"),
        ("win32", {"LOCALAPPDATA": "/Local"}, "/Local/genelin"),
    ],
)
def test_the_cache_is_where_the_platform_keeps_it(monkeypatch, platform, variables, expected):
    for name in ("GENELIN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fetching.sys, "platform", platform)
    assert str(datasets.cache_folder()) == expected
