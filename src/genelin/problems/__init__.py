"""What is to be solved: a pencil (A, B), or views of the same rows."""

from genelin.problems.forming import SMALL, estimated_entries, worth_forming
from genelin.problems.pencil import Pencil, check_pencil
from genelin.problems.rank_deficiency import Deficiency
from genelin.problems.views import TwoView, Views, is_diagonal

__all__ = [
    "SMALL",
    "Deficiency",
    "Pencil",
    "TwoView",
    "Views",
    "check_pencil",
    "estimated_entries",
    "is_diagonal",
    "worth_forming",
]
