"""Subspaces: Ritz bases, search spaces, Krylov spaces, corrections, initial guesses."""
