"""Preconditioners: M ≈ B with M⁻¹ cheap to apply."""
