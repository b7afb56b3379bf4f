"""Eigen methods: the paper's algorithms, the dense reference, and the calls that use them."""

from genelin.eigen.ccalin import CCALin
from genelin.eigen.dense import Dense
from genelin.eigen.genelin import GenELin
from genelin.eigen.genelink import GenELinK
from genelin.eigen.solve import top_k, top_k_cca

__all__ = ["CCALin", "Dense", "GenELin", "GenELinK", "top_k", "top_k_cca"]
