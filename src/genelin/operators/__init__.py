"""`A @ V` without forming A: matrices, functions, covariances of data, and a meter on them."""

from genelin.operators.base import Entries, Operator
from genelin.operators.block import BlockDiagonal, Compressed, OffDiagonal
from genelin.operators.chunked import ChunkedRows
from genelin.operators.convert import as_operator, as_rows, kept_elsewhere
from genelin.operators.counting import Counter, Counting
from genelin.operators.covariance import Cross, Gram
from genelin.operators.matrix import FunctionOperator, Identity, MatrixOperator, Scaled, Shifted
from genelin.operators.parts import Part, RowBlock, RowSource, Task
from genelin.operators.row_sum import RowSum
from genelin.operators.rows import Rows
from genelin.operators.sum import Sum

__all__ = [
    "BlockDiagonal",
    "ChunkedRows",
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
    "Part",
    "RowBlock",
    "RowSource",
    "RowSum",
    "Rows",
    "Scaled",
    "Shifted",
    "Sum",
    "Task",
    "as_operator",
    "as_rows",
    "kept_elsewhere",
]
