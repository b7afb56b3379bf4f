"""`A @ V` without forming A: matrices, functions, covariances of data, and a meter on them."""

from genelin.data.as_rows import as_rows, is_row_container
from genelin.data.out_of_core import ChunkedRows
from genelin.data.row_blocks import Part, RowBlock, RowSource, Task
from genelin.data.rows import Rows
from genelin.operators.base import Entries, Operator
from genelin.operators.block_pair import BlockDiagonal, Compressed, OffDiagonal
from genelin.operators.conversion import as_operator
from genelin.operators.counting import Counter, Counting
from genelin.operators.covariance import Cross, Gram
from genelin.operators.covariance_sum import Sum
from genelin.operators.finite_sum import RowSum
from genelin.operators.matrices import FunctionOperator, Identity, MatrixOperator, Scaled, Shifted

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
    "is_row_container",
]
