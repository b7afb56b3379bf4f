"""Clusters and regression on canonical scores
===========================================

Two views see the same thing and different noise.

Both views mix a few hidden causes with much stronger disturbances of their own. What the views
share is what they have of the causes, so that k-means finds the clusters in the canonical scores
(Chaudhuri, Kakade, Livescu & Sridharan 2009), and a regression on the scores needs few labelled
rows (Kakade & Foster 2007).
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.metrics import adjusted_rand_score

from genelin import CCA

ROWS, CAUSES, DISTURBANCES, FEATURES, LABELLED = 3000, 3, 40, 60, 30


def view(causes, rng):
    """Causes and stronger disturbances, mixed into features, with a little noise."""
    disturbances = 3.0 * rng.laplace(size=(ROWS, DISTURBANCES))
    mixed = np.hstack([causes, disturbances]) @ rng.standard_normal(
        (CAUSES + DISTURBANCES, FEATURES)
    )
    return mixed + 0.5 * rng.standard_normal(mixed.shape)


def draw(X, scores, clusters):
    """The same rows by their principal components and by their canonical scores."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    parts = {"principal components of X": PCA(2).fit_transform(X), "canonical scores": scores}
    for axes, (name, points) in zip(panels, parts.items(), strict=True):
        axes.scatter(*points[:, :2].T, c=clusters, cmap="tab10", vmax=9, s=5)
        axes.set(title=name, xticks=[], yticks=[])
    figure.suptitle("Colours are the hidden clusters")
    plt.show()


def main():
    """Compare raw features with canonical scores."""
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 5, ROWS)
    causes = 6.0 * rng.standard_normal((5, CAUSES))[clusters] + rng.standard_normal((ROWS, CAUSES))
    target = causes @ [1.0, -2.0, 0.5] + 0.5 * rng.standard_normal(ROWS)
    X, Y = view(causes, rng), view(causes, rng)
    cca = CCA(n_components=CAUSES).fit(X, Y)
    print(f"{ROWS} rows of {FEATURES} + {FEATURES} features")
    print(f"canonical correlations {cca.canonical_correlations_.round(3)}")
    print(f"\n{'':>18}{'rand index':>12}{'R², ' + str(LABELLED) + ' labels':>16}")
    for name, data in (("features of X", X), ("canonical scores", cca.transform(X))):
        found = KMeans(5, n_init=5, random_state=0).fit_predict(data)
        model = RidgeCV(np.logspace(-3, 4, 15)).fit(data[:LABELLED], target[:LABELLED])
        r2 = model.score(data[LABELLED:], target[LABELLED:])
        print(f"{name:>18}{adjusted_rand_score(clusters, found):>12.3f}{r2:>16.3f}")
    draw(X, cca.transform(X), clusters)


if __name__ == "__main__":
    main()
