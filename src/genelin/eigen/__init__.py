"""Eigen methods: the paper's algorithms, the dense reference, and the calls that use them."""

from genelin.eigen.api import top_k, top_k_cca
from genelin.eigen.methods.dense import Dense
from genelin.eigen.paper.ccalin import CCALin
from genelin.eigen.paper.genelin import GenELin
from genelin.eigen.paper.genelink import GenELinK

__all__ = ["CCALin", "Dense", "GenELin", "GenELinK", "top_k", "top_k_cca"]
