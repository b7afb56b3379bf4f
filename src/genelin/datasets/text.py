"""Consecutive words of a text, as indicators."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from genelin.datasets.bunches import Views
from genelin.datasets.fetch import Source, fetch
from genelin.errors import DataError
from genelin.io.formats.svmlight import open_bytes

__all__ = ["ptb_bigrams"]

RARE = "<unk>"


def ptb_bigrams(
    path: str | Path | None = None,
    split: Literal["train", "valid", "test"] = "train",
    *,
    vocabulary: int | None = None,
    window: int = 1,
) -> Views:
    """A word against the words after it, for every place in a text (§7.1 of the paper).

    A row of X is the indicator of a word, a row of Y that of the next one; so both covariances are
    diagonal without centring. Words are what stands between blanks; the end of a line is the word
    `<eos>`.

    Parameters
    ----------
    path : of any text file, also `.gz`, `.bz2` or `.xz`; None takes the Penn Treebank in Mikolov's
        version of 10,000 words, `ptb/ptb.train.txt` in a data folder. That text is licensed and
        is not downloaded.
    split : of the Penn Treebank: "train", "valid" or "test".
    vocabulary : so many most frequent words are kept, `<unk>` stands for all others; None keeps
        all.
    window : a row of Y counts the next so many words.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "text.txt"
    >>> _ = file.write_text("to be or not to be")
    >>> views = ptb_bigrams(file)
    >>> views.x_names.tolist(), views.X.shape
    (['<eos>', 'be', 'not', 'or', 'to'], (6, 5))
    """
    if not isinstance(window, int | np.integer) or window < 1:
        raise ValueError(f"window={window!r} must be a whole number of at least 1")
    if vocabulary is not None and (not isinstance(vocabulary, int) or vocabulary < 2):
        raise ValueError(f"vocabulary={vocabulary!r} must be at least 2, or None for all words")
    file = _penn_treebank(split) if path is None else Path(path)
    ids, words = _coded(_tokens(file), vocabulary)
    n = len(ids) - window
    if n < 1:
        raise DataError(f"{file} has {len(ids)} words: too few for a window of {window}")
    ahead = np.stack([ids[j : n + j] for j in range(1, window + 1)], axis=1)
    title = f"Penn Treebank, {split}" if path is None else file.name
    return Views(
        f"consecutive words of {title}",
        _indicators(ids[:n, None], len(words)),
        _indicators(ahead, len(words)),
        f"{n:,} places in {title}: the word there, and the next {window} after it, over a "
        f"vocabulary of {len(words):,}.",
        "Penn Treebank: Linguistic Data Consortium, LDC99T42; not to be handed on."
        if path is None
        else "that of the text",
        words,
        words,
    )


def _penn_treebank(split: str) -> Path:
    if split not in ("train", "valid", "test"):
        raise ValueError(f"split={split!r} must be 'train', 'valid' or 'test'")
    plain = f"ptb/ptb.{split}.txt"
    advice = (
        "The Penn Treebank is licensed text and is not downloaded: take ptb.*.txt from the "
        "examples of Mikolov's RNNLM toolkit (.gz, .bz2 and .xz will do), or pass the path of any "
        "other text."
    )
    packed = [plain + suffix for suffix in (".xz", ".gz", ".bz2")]
    return fetch(Source(plain, advice=advice), *packed)


def _tokens(file: Path) -> list[str]:
    with open_bytes(file) as opened:
        raw = opened.read()
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(f"{file}, line {line}: not UTF-8 text") from error
    if text and not text.endswith("\n"):
        text += "\n"
    return text.replace("\n", " <eos> ").split()


def _coded(tokens: list[str], vocabulary: int | None) -> tuple[NDArray[np.int32], NDArray[np.str_]]:
    """Numbers of the words in the sorted vocabulary, and the vocabulary."""
    counts = Counter(tokens)
    if vocabulary is not None and len(counts) > vocabulary:
        counts.pop(RARE, None)
        kept = [word for word, _ in counts.most_common(vocabulary - 1)] + [RARE]
    else:
        kept = list(counts)
    codes = {word: j for j, word in enumerate(sorted(kept))}
    rare = codes.get(RARE, -1)
    ids = np.fromiter((codes.get(token, rare) for token in tokens), np.int32, len(tokens))
    return ids, np.array(list(codes))


def _indicators(ids: NDArray[np.int32], d: int) -> Any:
    """Rows that count the words given; (n, window) numbers below d."""
    n, window = ids.shape
    X = sparse.csr_array(
        (np.ones(ids.size), ids.ravel(), np.arange(0, ids.size + 1, window)), shape=(n, d)
    )
    if window > 1:
        X.sum_duplicates()
    return X
