"""Which method runs when the user names none: costs, the machine, plans."""
