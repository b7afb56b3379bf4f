import os
import signal
from pathlib import Path

import pytest

from genelin import datasets

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in its background like that, and their children would miss Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
    return tuple(datasets.mnist_halves())


@pytest.fixture(scope="session")
def ptb_bigrams(data):
    """Indicators of consecutive words of the Penn Treebank training text."""
    return tuple(datasets.ptb_bigrams())
