"""What every run has: a meter, checkpoints, an outcome, canonical pairs with signs."""
