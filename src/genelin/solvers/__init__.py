"""Linear solvers with the paper's contract: reduce the B-norm error by a factor, warm-started."""

from genelin.solvers.agd import AGD
from genelin.solvers.base import IterativeSolver, LinearSolver, Step
from genelin.solvers.cg import CG
from genelin.solvers.custom import Custom, as_solver
from genelin.solvers.direct import Direct
from genelin.solvers.gd import GD
from genelin.solvers.minibatch_agd import MinibatchAGD
from genelin.solvers.preconditioners.block_jacobi import BlockJacobi
from genelin.solvers.preconditioners.incomplete_cholesky import IncompleteCholesky, SparseCholesky
from genelin.solvers.preconditioners.jacobi import Jacobi, Preconditioner
from genelin.solvers.preconditioners.nystrom import Nystrom
from genelin.solvers.spectral_bounds import SpectralBounds, spectral_bounds
from genelin.solvers.svrg import ASVRG, SVRG
from genelin.validation import check_count

__all__ = [
    "AGD",
    "ASVRG",
    "CG",
    "GD",
    "SVRG",
    "BlockJacobi",
    "Custom",
    "Direct",
    "IncompleteCholesky",
    "IterativeSolver",
    "Jacobi",
    "LinearSolver",
    "MinibatchAGD",
    "Nystrom",
    "Preconditioner",
    "SparseCholesky",
    "SpectralBounds",
    "Step",
    "as_solver",
    "check_count",
    "spectral_bounds",
]
