"""The colours of a photograph
===========================

One annealing, a palette of every size.

The flower that ships with scikit-learn, its pixels annealed once; `at` gives the palette of 4, 8 or
32 colours without another fit. Draws out/quantise_image.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from annealed import ODAClustering

OUT = Path("out")
SIZES = (4, 8, 32)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    photograph = load_sample_image("flower.jpg")[::2, ::2] / 255.0
    pixels = photograph.reshape(-1, 3)
    rng = np.random.default_rng(0)
    some = rng.choice(pixels, 4000, replace=False)
    model = ODAClustering(None, K_max=64, random_state=0).fit(some)

    figure, axes = plt.subplots(1, 4, figsize=(14, 3), layout="constrained")
    axes[0].imshow(photograph)
    axes[0].set_title(f"{len(np.unique(pixels, axis=0)):,} colours")
    for ax, K in zip(axes[1:], SIZES, strict=True):
        palette = model.at(n_codevectors=K)
        painted = palette.cluster_centers_[palette.predict(pixels)]
        error = np.sqrt(np.mean((painted - pixels) ** 2))
        print(f"{K:3d} colours: off by {255 * error:.1f} of 255")
        ax.imshow(painted.reshape(photograph.shape).clip(0, 1))
        ax.set_title(f"{K} colours")
    for ax in axes:
        ax.set_axis_off()
    figure.savefig(OUT / "quantise_image.png", dpi=150)


if __name__ == "__main__":
    main()
