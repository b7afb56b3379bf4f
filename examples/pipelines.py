"""Pipelines and a grid search over the ridge
==========================================

CCA in pipelines, with scaling, with tf-idf, and with a grid search.

`CCA.score` is the mean correlation of the scores of held-out rows, so `GridSearchCV` finds the
ridge that generalises best, without any wrapper.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genelin import CCA

TOPICS = {
    "food": "soup bread taste dish spice menu fresh sweet plate dinner",
    "service": "waiter friendly quick smile staff greeting order polite help bill",
    "room": "light music table view chairs warm quiet garden candle space",
}
FILLER = [f"word{i}" for i in range(150)]


def reviews(n, rng):
    """Texts of 40 words, and marks for food, service and room that their words hint at."""
    words = np.array([*" ".join(TOPICS.values()).split(), *FILLER])
    quality = rng.standard_normal((n, len(TOPICS)))
    # A topic is mentioned the more, the better it was.
    mentioned = np.repeat(np.exp(0.8 * quality), 10, axis=1)
    others = np.tile(60.0 / np.arange(1, len(FILLER) + 1), (n, 1))  # Zipf's law
    weights = np.hstack([mentioned, others])
    texts = [" ".join(rng.choice(words, 40, p=row / row.sum())) for row in weights]
    return texts, np.round(2 * (quality + 0.3 * rng.standard_normal(quality.shape))) / 2


def search(name, pipeline, X, y, regs):
    """Choose the ridge by cross-validation, and compare it with hardly any on test rows."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    found = GridSearchCV(pipeline, {"cca__reg": regs}, cv=folds).fit(X, y)
    bare = pipeline.set_params(cca__reg=regs[0]).fit(X, y).score(X_test, y_test)
    print(
        f"{name:>8}: reg={found.best_params_['cca__reg']}, correlation of test scores "
        f"{found.score(X_test, y_test):.3f} (with reg={regs[0]}: {bare:.3f})"
    )
    return found


def draw(searches):
    """How the correlation of held-out scores depends on the ridge."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for name, found in searches.items():
        results = found.cv_results_
        regs = [np.max(reg) for reg in results["param_cca__reg"]]
        mean, deviation = results["mean_test_score"], results["std_test_score"]
        axes.errorbar(regs, mean, deviation, fmt="o-", capsize=3, label=name)
    axes.set(xscale="log", xlabel="reg", ylabel="correlation of held-out scores")
    axes.set_title("The ridge that generalises best")
    axes.grid(alpha=0.3)
    axes.legend()
    plt.show()


def main():
    """Two pipelines: numbers that are scaled, texts that become sparse matrices."""
    images = load_digits().images[:300]
    left, right = (half.reshape(len(images), -1) for half in np.split(images, 2, axis=2))
    scaled = make_pipeline(StandardScaler(), CCA(n_components=5))
    digits = search("digits", scaled, left, right, [1e-6, 1e-3, 1e-2, 1e-1, 1.0, 10.0])
    texts, marks = reviews(600, np.random.default_rng(0))
    written = make_pipeline(TfidfVectorizer(), CCA(n_components=3))
    # Words need a ridge, three marks need none: one for each view.
    ridges = [(reg, 0.0) for reg in (1e-6, 1e-3, 1e-2, 1e-1, 1.0)]
    found = search("reviews", written, texts, marks, ridges)
    draw({"digits": digits, "reviews": found})


if __name__ == "__main__":
    main()
