import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data that GENELIN_DATA names."""
    folder = os.environ.get("GENELIN_DATA")
    if not folder:
        pytest.skip("GENELIN_DATA is not set: point it at the folder of real data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def mnist_halves(data):
    """Left and right halves of the 60,000 training images, pixels in [0, 1]."""
    with gzip.open(data / "mnist" / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28) / 255.0
    return pixels[:, :, :14].reshape(len(pixels), -1), pixels[:, :, 14:].reshape(len(pixels), -1)


@pytest.fixture(scope="session")
def ptb_bigrams(data):
    """Indicators of consecutive words of the Penn Treebank training text."""
    with lzma.open(data / "ptb" / "ptb.train.txt.xz", "rt") as file:
        words = file.read().replace("\n", " <eos> ").split()
    vocabulary, ids = np.unique(words, return_inverse=True)
    n = len(ids) - 1

    def indicators(columns):
        ones = np.ones(n)
        return sparse.csr_array((ones, (np.arange(n), columns)), shape=(n, len(vocabulary)))

    return indicators(ids[:-1]), indicators(ids[1:])
