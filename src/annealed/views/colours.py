"""Colours of all our pictures and pages."""

from __future__ import annotations

Colour = tuple[float, float, float]

# Okabe and Ito's colours, which people with any kind of colour vision tell apart, less yellow and
# black: the one is lost on white, the other beside the grey of what branches share.
PALETTE: tuple[Colour, ...] = (
    (0.00, 0.45, 0.70),  # blue
    (0.90, 0.62, 0.00),  # orange
    (0.00, 0.62, 0.45),  # bluish green
    (0.84, 0.37, 0.00),  # vermilion
    (0.34, 0.71, 0.91),  # sky blue
    (0.80, 0.47, 0.65),  # reddish purple
)
# Each comes twice, as it is and darker; more branches have no colours of their own.
MOST_BRANCHES = 2 * len(PALETTE)
SHARED: Colour = (0.55, 0.55, 0.55)
INK: Colour = (0.2, 0.2, 0.2)


def branch_colour(branch: int) -> Colour:
    """The colour of a branch: grey if negative, from the palette, then darker once more."""
    if branch < 0:
        return SHARED
    r, g, b = PALETTE[branch % len(PALETTE)]
    dark = 1.0 if branch < len(PALETTE) else 0.55
    return dark * r, dark * g, dark * b


def paler(colour: Colour) -> Colour:
    """The same colour mixed with white."""
    r, g, b = colour
    return 0.4 * r + 0.6, 0.4 * g + 0.6, 0.4 * b + 0.6


def as_hex(colour: Colour) -> str:
    """The colour as HTML and SVG write it: #0072b2."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour)
