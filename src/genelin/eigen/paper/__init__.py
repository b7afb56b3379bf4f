"""The algorithms of the paper, as it prints them, and its theory."""
