"""Whether an answer would be found again: classical tests."""
