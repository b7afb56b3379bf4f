"""Residual checks, gaps, inertia, angle bounds."""
