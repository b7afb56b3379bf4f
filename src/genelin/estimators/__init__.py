"""scikit-learn estimators, their statistics and displays."""
