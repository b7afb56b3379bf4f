"""What methods would cost: the speeds of a machine, what is known of a problem, routes."""
