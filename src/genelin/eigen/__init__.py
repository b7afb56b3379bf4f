"""Eigen methods, what they are made of, how one is chosen, and the calls that use them."""
