"""Run the Python blocks of the README and the documentation as tests."""

import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from hypothesis import HealthCheck, settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    patterns=["README.md", "docs/*.md"],
).pytest()

collect_ignore_glob = ["docs/*.py", "docs/_*", "docs/gallery/*"]

settings.register_profile(
    "genelin",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("genelin")
