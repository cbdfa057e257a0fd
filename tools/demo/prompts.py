"""Phrasings of a concept's name. Needs nothing but Python."""
import random

PREFIXES = ["", "", "", "", "a picture of ", "a photo of ", "an image of ", "an emoji of ",
            "a drawing of ", "an icon of ", "a painting of ", "a small picture of ", "picture of ",
            "emoji of ", "draw ", "show me ", "please draw ", "this is ", "here is ", "i want ",
            "a sketch of ", "a cartoon of ", "a nice picture of ", "clip art of "]
SUFFIXES = ["", "", "", "", "", "", " emoji", " icon", " on a white background", ".", ", simple",
            " on white", " in bright colours", ", high quality", " please", "!", ", clip art"]
ADJECTIVES = ["", "", "", "", "", "", "nice ", "small ", "cute ", "big ", "simple ", "single "]
PLURAL = {"scissors", "grapes", "cherries", "bowling", "fireworks", "footprints", "jeans", "shorts",
          "briefs", "books", "gloves", "socks", "shopping bags", "peanuts", "pancakes", "chopsticks",
          "beans", "blueberries", "paw prints", "two hearts", "japanese dolls", "nesting dolls",
          "camping", "bread", "theater masks", "father christmas", "broccoli", "water wave"}


def article(name, following):
    if name in PLURAL or name.startswith("mount "):
        return ""
    return "an " if following[0] in "aeio" or following.startswith("um") else "a "


def plain(name):
    """The usual phrasing: "a red apple"."""
    return article(name, name) + name


def phrase(name, rng):
    """One random phrasing, mostly lower case."""
    adjective = rng.choice(ADJECTIVES)
    noun = adjective + name
    kind = rng.random()
    if kind < 0.55:
        noun = article(name, noun) + noun
    elif kind < 0.7:
        noun = "the " + noun
    text = rng.choice(PREFIXES) + noun + rng.choice(SUFFIXES)
    kind = rng.random()
    if kind < 0.15:
        return text[0].upper() + text[1:]
    if kind < 0.2:
        return text.title()
    if kind < 0.25:
        return text.upper()
    return text


def bank(names, count, seed=0):
    """count phrasings of every name; the first three are the plainest ones."""
    rng = random.Random(seed)
    result = []
    for name in names:
        texts = [name, plain(name), "a picture of " + plain(name)]
        result.append(texts + [phrase(name, rng) for _ in range(count - len(texts))])
    return result


def questions(concepts, count=100, seed=20):
    """The evaluation's draw: list of (index of the concept, prompt, picture seed)."""
    rng = random.Random(seed)
    result = []
    for i, index in enumerate(rng.sample(range(len(concepts)), count)):
        name = concepts[index][1]
        forms = [plain(name), name, "a picture of " + plain(name), plain(name).capitalize() + "."]
        result.append((index, forms[i % len(forms)], i))
    return result
