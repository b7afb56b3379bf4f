"""`A @ V` without forming A: matrices, functions, covariances of data, and a meter on them."""

from genelin.operators.base import Entries, Operator
from genelin.operators.block import BlockDiagonal, Compressed, OffDiagonal
from genelin.operators.convert import as_operator, as_rows
from genelin.operators.counting import Counter, Counting
from genelin.operators.covariance import Cross, Gram
from genelin.operators.matrix import FunctionOperator, Identity, MatrixOperator, Shifted
from genelin.operators.row_sum import RowSum
from genelin.operators.rows import RowBlock, Rows
from genelin.operators.sum import Sum

__all__ = [
    "BlockDiagonal",
    "Compressed",
    "Counter",
    "Counting",
    "Cross",
    "Entries",
    "FunctionOperator",
    "Gram",
    "Identity",
    "MatrixOperator",
    "OffDiagonal",
    "Operator",
    "RowBlock",
    "RowSum",
    "Rows",
    "Shifted",
    "Sum",
    "as_operator",
    "as_rows",
]
