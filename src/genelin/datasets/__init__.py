"""Data sets: two views of the same rows, real ones and generated ones whose answer is known."""

from genelin.datasets.bunches import KnownPencil, Views
from genelin.datasets.debian import debian_paths
from genelin.datasets.fetch import cache_folder, data_folders, download
from genelin.datasets.generated import mesh_pencil, pencil, sparse_pairs, two_view_gaussian
from genelin.datasets.images import digits_halves, mnist_halves
from genelin.datasets.text import ptb_bigrams
from genelin.datasets.topics import sparse_topics, topic_correlations
from genelin.datasets.url import url_reputation
from genelin.errors import DataError
from genelin.io.formats.svmlight import read_svmlight, stream_svmlight

__all__ = [
    "DataError",
    "KnownPencil",
    "Views",
    "cache_folder",
    "data_folders",
    "debian_paths",
    "digits_halves",
    "download",
    "mesh_pencil",
    "mnist_halves",
    "pencil",
    "ptb_bigrams",
    "read_svmlight",
    "sparse_pairs",
    "sparse_topics",
    "stream_svmlight",
    "topic_correlations",
    "two_view_gaussian",
    "url_reputation",
]
