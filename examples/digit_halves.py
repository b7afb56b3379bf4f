"""Classify what was never labelled
================================

Right halves of digits are classified by a classifier that has only seen left halves.

Pixels of the two halves have nothing in common. CCA learns from images without labels, as they come
in pairs, a space in which both halves of an image lie close together; there a classifier trained on
labelled left halves works on right halves too.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from genelin import CCA


def draw(cca):
    """Loadings of both halves as one image: what a pair of scores is made of."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 5, figsize=(9, 4.2), layout="constrained")
    for j, axes in enumerate(panels.flat):
        halves = (loads[:, j].reshape(8, 4) for loads in (cca.x_loadings_, cca.y_loadings_))
        whole = np.hstack([*halves])
        most = np.abs(whole).max()
        axes.imshow(whole, cmap="RdBu_r", vmin=-most, vmax=most)
        axes.axvline(3.5, color="black", linewidth=1)
        axes.set(title=f"ρ = {cca.canonical_correlations_[j]:.2f}", xticks=[], yticks=[])
    figure.suptitle("Loadings of ten canonical pairs, left and right half side by side")
    plt.show()


def main():
    """Train on left halves, test on both."""
    images, digits = load_digits().images / 16.0, load_digits().target
    left, right = (half.reshape(len(digits), -1) for half in np.split(images, 2, axis=2))
    train, test = train_test_split(np.arange(len(digits)), random_state=0, stratify=digits)
    cca = CCA(n_components=10, reg=1e-2).fit(left[train], right[train])
    print(f"canonical correlations {cca.canonical_correlations_[:5].round(3)}")
    print(f"mean correlation of held-out scores: {cca.score(left[test], right[test]):.3f}")
    U, V = cca.transform(left, right)
    print(f"\naccuracy of a classifier trained on left halves, {len(test)} digits held out")
    print(f"{'features':>17}  {'left':>6}  {'right':>6}")
    for name, lefts, rights in (("pixels", left, right), ("canonical scores", U, V)):
        model = KNeighborsClassifier().fit(lefts[train], digits[train])
        accuracies = (model.score(half[test], digits[test]) for half in (lefts, rights))
        print(f"{name:>17}", *(f"{accuracy:>7.3f}" for accuracy in accuracies))
    draw(cca)


if __name__ == "__main__":
    main()
