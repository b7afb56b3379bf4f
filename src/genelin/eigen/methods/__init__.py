"""Methods beyond the paper: one file each."""
