"""Estimators for scikit-learn users, and their displays."""
