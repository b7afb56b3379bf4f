"""Images cut in two: left half against right half."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genelin.datasets.bunches import Views
from genelin.datasets.fetch import Progress, Source, fetch
from genelin.errors import DataError
from genelin.io.formats.svmlight import open_bytes

__all__ = ["digits_halves", "mnist_halves"]

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MNIST = {
    "train": (
        "train-images-idx3-ubyte.gz",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "test": (
        "t10k-images-idx3-ubyte.gz",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
}


def digits_halves() -> Views:
    """Halves of 1,797 handwritten digits of 8 × 8 pixels; they come with scikit-learn.

    Examples
    --------
    >>> digits_halves().X.shape
    (1797, 32)
    """
    from sklearn.datasets import load_digits

    X, Y, x_names, y_names = _halves(load_digits().images / 16.0)
    return Views(
        "digits halves",
        X,
        Y,
        "Left and right halves of 1,797 handwritten digits of 8 × 8 pixels, in [0, 1] (the test "
        "part of Optical Recognition of Handwritten Digits, Alpaydin & Kaynak 1998).",
        "CC BY 4.0, from the UCI Machine Learning Repository; bundled with scikit-learn.",
        x_names,
        y_names,
    )


def mnist_halves(
    split: Literal["train", "test"] = "train",
    rows: int | None = None,
    *,
    progress: Progress | None = None,
) -> Views:
    """Halves of MNIST's handwritten digits of 28 × 28 pixels, divided by 255 (§7.1 of the paper).

    Parameters
    ----------
    split : 60,000 images to "train", or 10,000 to "test".
    rows : the first so many; None takes all.
    progress : of the download, see `fetch.download`.

    Examples
    --------
    >>> mnist_halves("validation")
    Traceback (most recent call last):
        ...
    ValueError: split='validation' must be 'train' or 'test'
    """
    if split not in MNIST:
        raise ValueError(f"split={split!r} must be 'train' or 'test'")
    file, sha256 = MNIST[split]
    urls = tuple(mirror + file for mirror in MIRRORS)
    path = fetch(
        Source(f"mnist/{file}", urls, sha256), f"mnist/{file[: -len('.gz')]}", progress=progress
    )
    with open_bytes(path) as opened:
        pixels = _idx_images(opened.read(), str(path))
    if rows is not None and not 1 <= rows <= len(pixels):
        raise ValueError(f"rows={rows!r} must lie between 1 and {len(pixels)}")
    X, Y, x_names, y_names = _halves(pixels[:rows] / 255.0)
    return Views(
        f"MNIST halves, {split}",
        X,
        Y,
        f"Left and right halves of {len(X):,} handwritten digits of 28 × 28 pixels, in [0, 1] "
        "(LeCun, Cortes & Burges 1998).",
        "CC BY-SA 3.0 (Yann LeCun and Corinna Cortes), after NIST's Special Databases 1 and 3.",
        x_names,
        y_names,
    )


def _idx_images(raw: bytes, name: str) -> NDArray[np.uint8]:
    """Images of an IDX file: magic number 2051, three sizes, then bytes."""
    magic, n, height, width = np.frombuffer(raw[:16].ljust(16, b"\0"), ">i4").tolist()
    if magic != 2051 or len(raw) != 16 + n * height * width:
        raise DataError(
            f"{name} is not a whole IDX file of images: its magic number is {magic} (2051 "
            f"expected), and {len(raw)} bytes are there of {16 + n * height * width}"
        )
    return np.frombuffer(raw, np.uint8, offset=16).reshape(n, height, width)


def _halves(images: NDArray[np.float64]) -> tuple[Any, ...]:
    """Left and right halves as rows, and the names of their pixels."""
    n, height, width = images.shape
    names = np.array([[f"pixel {i},{j}" for j in range(width)] for i in range(height)])
    cut = width // 2
    parts = (images[:, :, :cut], images[:, :, cut:])
    rows = (np.ascontiguousarray(part).reshape(n, -1) for part in parts)
    return (*rows, names[:, :cut].ravel(), names[:, cut:].ravel())
