"""Word vectors from consecutive words
===================================

The paper's experiment on the Penn Treebank, with a text that is written by a small grammar.

Row i of X says which word stands at place i of a text, row i of Y which word follows. Both are
indicators with one 1 per row; their covariances are diagonal, and canonical weights place words
that are followed by similar words next to each other.
"""

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from genelin import CCA

WORDS = {
    "article": "the a this every",
    "colour": "red green blue white black brown",
    "size": "big small tiny huge old young",
    "animal": "dog cat horse cow pig goat fox wolf",
    "person": "farmer baker teacher doctor child sister",
    "food": "bread cheese soup apple cake rice fish",
    "eating": "eats tastes wants cooks",
    "moving": "runs walks jumps swims sleeps",
    "speaking": "says thinks believes hopes",
    "manner": "slowly quickly quietly happily",
    "end": ".",
}
SENTENCES = (
    "article size animal moving manner end",
    "article animal moving end",
    "article colour animal eating food end",
    "article person eating colour food end",
    "article size person eating food manner end",
    "article person speaking that article person moving end",
    "article person speaking that article size animal eating food end",
)


def text(sentences, rng):
    """Words of random sentences, one after the other."""
    groups = {name: words.split() for name, words in WORDS.items()} | {"that": ["that"]}
    return [
        groups[kind][rng.integers(len(groups[kind]))]
        for place in rng.integers(len(SENTENCES), size=sentences)
        for kind in SENTENCES[place].split()
    ]


def indicators(ids, size):
    """A row for every place in the text, with a 1 in the column of its word."""
    n = len(ids)
    return sparse.csr_array((np.ones(n), (np.arange(n), ids)), shape=(n, size))


def draw(similarity, words, kinds):
    """Similarity of all words, sorted by kind: those that are used alike form squares."""
    import matplotlib.pyplot as plt

    order = np.argsort(kinds, kind="stable")
    figure, axes = plt.subplots(figsize=(7, 6.4), layout="constrained")
    image = axes.imshow(similarity[np.ix_(order, order)], cmap="RdBu_r", vmin=-1, vmax=1)
    for names in (axes.set_xticks, axes.set_yticks):
        names(range(len(words)), words[order], fontsize=6)
    axes.tick_params(axis="x", rotation=90)
    figure.colorbar(image, label="cosine", shrink=0.8)
    axes.set_title("Words that are used alike have like vectors")
    plt.show()


def main():
    """Learn vectors, print the nearest words of some, and count neighbours of the same kind."""
    words = text(20_000, np.random.default_rng(0))
    vocabulary, ids = np.unique(words, return_inverse=True)
    X, Y = (indicators(part, len(vocabulary)) for part in (ids[:-1], ids[1:]))
    cca = CCA(n_components=10, reg=1e-5, center=False, random_state=0).fit(X, Y)
    # A word as what comes before others, and as what comes after: both sides describe it.
    strengths = cca.canonical_correlations_
    vectors = normalize(np.hstack([cca.x_weights_ * strengths, cca.y_weights_ * strengths]))
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -1.0)
    nearest = np.argsort(-similarity, axis=1)[:, :3]
    print(f"{len(words)} words of text, {len(vocabulary)} different ones")
    print(f"canonical correlations {strengths[:5].round(3)}")
    for word in ("dog", "cheese", "runs", "blue", "doctor"):
        place = np.flatnonzero(vocabulary == word)[0]
        print(f"{word:>8}: {', '.join(vocabulary[nearest[place]])}")
    kind = {word: name for name, group in WORDS.items() for word in group.split()}
    kinds = np.array([kind.get(word, "that") for word in vocabulary])
    alone = ~np.isin(kinds, ["end", "that"])
    same = (kinds[nearest] == kinds[:, None])[alone]
    print(f"neighbours of the same kind: {same.mean():.3f}")
    draw((vectors @ vectors.T)[np.ix_(alone, alone)], vocabulary[alone], kinds[alone])


if __name__ == "__main__":
    main()
