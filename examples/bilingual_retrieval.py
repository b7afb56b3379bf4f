"""Find the translation of a sentence
==================================

A small grammar writes the same sentences in English and in German, with synonyms, inflected words
and another word order. CCA of their tf-idf matrices, which stay sparse, learns a common space from
training pairs alone; there the German sentence nearest to a new English one is its translation.
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from genelin import CCA

TRAIN, TEST = 150, 500

# English (synonyms after a bar); German nominative and accusative, with articles.
NOUNS = """
farmer|peasant:der Bauer:den Bauern        baker:der Bäcker:den Bäcker
teacher:die Lehrerin:die Lehrerin          child|kid:das Kind:das Kind
dog|hound:der Hund:den Hund                cat:die Katze:die Katze
doctor|physician:der Arzt:den Arzt         queen:die Königin:die Königin
thief|burglar:der Dieb:den Dieb            woman|lady:die Frau:die Frau
fisherman:der Fischer:den Fischer          student|pupil:der Schüler:den Schüler
horse:das Pferd:das Pferd                  bird:der Vogel:den Vogel
house|home:das Haus:das Haus               boat|ship:das Boot:das Boot
bread:das Brot:das Brot                    letter:der Brief:den Brief
book:das Buch:das Buch                     car|automobile:das Auto:das Auto
apple:der Apfel:den Apfel                  window:das Fenster:das Fenster
key:der Schlüssel:den Schlüssel            picture|image:das Bild:das Bild
"""
VERBS = """
sees:sieht|erblickt       buys|purchases:kauft       paints:malt
finds:findet              loves|adores:liebt         forgets:vergisst
steals:stiehlt            carries:trägt              looks_for|seeks:sucht
sells:verkauft            shows:zeigt                hides:versteckt
"""
WHEN = """
today:heute               yesterday:gestern          in_the_morning:am_Morgen
at_night:in_der_Nacht     in_winter:im_Winter        in_summer:im_Sommer
always|constantly:immer   often|frequently:oft       again|once_more:wieder
"""
WHERE = """
in_the_garden:im_Garten   at_the_market:auf_dem_Markt   at_the_river:am_Fluss
in_the_city|in_town:in_der_Stadt                        in_the_forest|in_the_woods:im_Wald
at_the_station:am_Bahnhof  in_the_kitchen:in_der_Küche   on_the_bridge:auf_der_Brücke
"""


def entries(table):
    """Fields of the entries of a table, synonyms split."""
    cells = (cell for line in table.split("\n") for cell in line.split("  ") if cell.strip())
    return [[field.split("|") for field in cell.strip().split(":")] for cell in cells]


def corpus(n, rng):
    """N different sentences, in English and in German."""
    nouns, verbs, when, where = map(entries, (NOUNS, VERBS, WHEN, WHERE))

    def one(synonyms):
        return synonyms[rng.integers(len(synonyms))].replace("_", " ")

    pairs = {}
    while len(pairs) < n:
        meaning = tuple(rng.integers(len(t)) for t in (nouns, verbs, nouns, when, where))
        subject, verb, thing = nouns[meaning[0]], verbs[meaning[1]], nouns[meaning[2]]
        time, place = when[meaning[3]], where[meaning[4]]
        english = (
            f"{one(time[0])} the {one(subject[0])} {one(verb[0])} the {one(thing[0])} "
            f"{one(place[0])}"
        )
        german = f"{one(time[1])} {one(verb[1])} {one(subject[1])} {one(place[1])} {one(thing[2])}"
        pairs[meaning] = english, german
    return zip(*pairs.values(), strict=True)


def draw(similarity, english, german):
    """Similarity in the common space: the translation of a row stands on the diagonal."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.5, 5.6), layout="constrained")
    image = axes.imshow(similarity, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    places = range(len(similarity))
    axes.set_yticks(places, english[: len(similarity)], fontsize=7)
    short = [f"{text[:34]}…" for text in german[: len(similarity)]]
    axes.set_xticks(places, short, fontsize=7, rotation=35, ha="right")
    figure.colorbar(image, label="cosine")
    axes.set_title("Sentences held out, in the common space")
    plt.show()


def main():
    """Learn the common space, and look translations up in it."""
    english, german = corpus(TRAIN + TEST, np.random.default_rng(0))
    X = TfidfVectorizer(sublinear_tf=True).fit_transform(english)
    Y = TfidfVectorizer(sublinear_tf=True).fit_transform(german)
    cca = CCA(n_components=40, reg=1e-3, random_state=0).fit(X[:TRAIN], Y[:TRAIN])
    U, V = cca.transform(X[TRAIN:], Y[TRAIN:])
    similarity = cosine_similarity(U, V)
    ranks = (similarity > np.diag(similarity)[:, None]).sum(axis=1)
    print(f"{TRAIN} pairs of sentences, {X.shape[1]} English and {Y.shape[1]} German words")
    print(f"canonical correlations {cca.canonical_correlations_[[0, 19, 39]].round(3)}")
    print(f"precision at 1: {np.mean(ranks == 0):.3f}  (by chance {1 / TEST:.3f})")
    print(f"mean reciprocal rank: {np.mean(1 / (1 + ranks)):.3f}\n")
    for asked in range(3):
        print(f"  {english[TRAIN + asked]}\n  → {german[TRAIN + similarity[asked].argmax()]}")
    draw(similarity[:12, :12], english[TRAIN:], german[TRAIN:])


if __name__ == "__main__":
    main()
