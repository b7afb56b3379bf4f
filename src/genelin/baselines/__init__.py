"""The baselines of the paper and two from after it, behind the interface of the eigen methods.

Flops are counted by the rule of `Cost`: two for every stored entry and column of a product, and
14·d·m² for the dense work of an iteration, or of a final CCA, on m columns of both views, 6·d·m² +
4·d·m for a step of AppGrad, which only normalises. A step of Lanczos adds 4·d for every vector of
its basis, QR of a block 4·d·m², a dense SVD of size d₁×d₂ 14·d₁·d₂·min(d₁, d₂), a dense
eigenproblem 9·d³. Products that only serve the certificate of an answer are part of its cost, but
not of its trace.
"""

from genelin.baselines.als import MomentumALS
from genelin.baselines.appgrad import AppGrad, StochasticAppGrad
from genelin.baselines.oneshot import DWCCA, NWCCA, PCACCA, RandomizedCCA

__all__ = [
    "DWCCA",
    "NWCCA",
    "PCACCA",
    "AppGrad",
    "MomentumALS",
    "RandomizedCCA",
    "StochasticAppGrad",
]
