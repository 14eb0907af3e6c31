"""Colours of the pictures: those of everything we draw."""

from annealed.colours import INK, PALETTE, SHARED, Colour, branch_colour, paler

__all__ = ["INK", "PALETTE", "SHARED", "Colour", "branch_colour", "paler"]
