"""A stream that changes
=====================

Test, then train, with a drift detector and a floor on the step size.

Two classes change places at once, and later turn around each other slowly. Every sample is
predicted before it is learnt. A model whose steps go to zero learns the average of all it has seen;
with ``drift_detector="auto"`` a change that raises its errors reheats it, with ``alpha_min`` it
follows slow ones, and with both it does both. Draws out/drifting_stream.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from annealed import ODAClassifier
from annealed.views.colours import PALETTE

OUT = Path("out")
BATCH, BATCHES, SWAP, TURN = 200, 150, 30, 80
WAYS = {
    "neither": {},
    "drift detector": {"drift_detector": "auto"},
    "alpha_min": {"alpha_min": 0.01},
    "both": {"drift_detector": "auto", "alpha_min": 0.01},
}


def batch(step: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples of two classes on opposite sides, which change places and then turn."""
    angle = np.pi * (step >= SWAP) + np.pi * max(step - TURN, 0) / (BATCHES - TURN)
    y = rng.integers(0, 2, BATCH)
    centre = np.where(y == 0, -1.0, 1.0)[:, None] * [np.cos(angle), np.sin(angle)]
    return 2 * centre + rng.normal(size=(BATCH, 2)), y


def main() -> None:
    OUT.mkdir(exist_ok=True)
    figure, axes = plt.subplots(
        len(WAYS), figsize=(8, 6.5), layout="constrained", sharex=True, sharey=True
    )
    for ax, colour, (name, parameters) in zip(axes, PALETTE, WAYS.items(), strict=False):
        rng = np.random.default_rng(0)
        model = ODAClassifier(level="last", fine_tune=None, K_max=8, random_state=0, **parameters)
        right = []
        for step in range(BATCHES):
            X, y = batch(step, rng)
            if step:
                right.append(model.score(X, y))
            model.partial_fit(X, y)
        parts = {"before": right[:SWAP], "swapped": right[SWAP:TURN], "turning": right[TURN:]}
        words = ", ".join(f"{part} {np.mean(values):.1%}" for part, values in parts.items())
        print(f"{name:15} {words}")
        ax.plot(BATCH * np.arange(1, BATCHES), right, color=colour)
        ax.set(ylim=(0, 1.05))
        ax.set_title(f"{name}: {words}", loc="left", fontsize="medium")
        for change in (SWAP, TURN):
            ax.axvline(BATCH * change, color="0.5", linestyle="--", linewidth=1)
    axes[-1].set(xlabel="samples observed (dashed: classes change places, begin to turn)")
    figure.supylabel("accuracy on the next batch", fontsize="medium")
    figure.savefig(OUT / "drifting_stream.png", dpi=150)


if __name__ == "__main__":
    main()
