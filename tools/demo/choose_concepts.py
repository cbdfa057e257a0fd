#!/usr/bin/env python3
"""Chooses the demo's concepts and writes concepts.txt (code point, tab, name).

Names come from the Unicode database of the running Python, so the result depends
on its version; the committed file is the one that counts.
"""
import argparse
import re
import unicodedata

import numpy as np

import pictures

BLOCKS = [(0x2600, 0x27BF), (0x2B50, 0x2B50), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF),
          (0x1F900, 0x1F9FF), (0x1FA70, 0x1FAFF)]
# Clocks, moon phases, buttons and arrows, astrological and public signs, skin tones.
SKIP = [(0x2602, 0x2602), (0x260E, 0x2614), (0x261D, 0x2692), (0x2694, 0x26AB), (0x26B0, 0x26B1),
        (0x26CE, 0x26D4), (0x26E9, 0x26E9), (0x26F7, 0x26F9), (0x2705, 0x2721), (0x2733, 0x2734),
        (0x2747, 0x27BF), (0x1F310, 0x1F318), (0x1F31A, 0x1F31D), (0x1F324, 0x1F326),
        (0x1F3FB, 0x1F3FF), (0x1F442, 0x1F450), (0x1F464, 0x1F478), (0x1F481, 0x1F483),
        (0x1F485, 0x1F487), (0x1F48F, 0x1F48F), (0x1F491, 0x1F491), (0x1F4A2, 0x1F4A2),
        (0x1F4A4, 0x1F4A9), (0x1F4AB, 0x1F4AF), (0x1F4B1, 0x1F4B2), (0x1F4B4, 0x1F4B9),
        (0x1F4C1, 0x1F4C7), (0x1F4CF, 0x1F4D6), (0x1F4DD, 0x1F4DD), (0x1F4DF, 0x1F4E5),
        (0x1F4E7, 0x1F4ED), (0x1F4F2, 0x1F4F6), (0x1F4F9, 0x1F4F9), (0x1F500, 0x1F50A),
        (0x1F50E, 0x1F510), (0x1F513, 0x1F513), (0x1F515, 0x1F524), (0x1F52A, 0x1F52B),
        (0x1F52F, 0x1F549), (0x1F54B, 0x1F567), (0x1F573, 0x1F575), (0x1F57A, 0x1F57A),
        (0x1F587, 0x1F596), (0x1F5A8, 0x1F5C4), (0x1F5D2, 0x1F5DC), (0x1F5E1, 0x1F5F3),
        (0x1F600, 0x1F64F), (0x1F6A5, 0x1F6A5), (0x1F6A9, 0x1F6A9), (0x1F6AB, 0x1F6B1),
        (0x1F6B3, 0x1F6BE), (0x1F6C0, 0x1F6C0), (0x1F6C2, 0x1F6C5), (0x1F6CC, 0x1F6CC),
        (0x1F6D0, 0x1F6D0), (0x1F6D7, 0x1F6D7), (0x1F6E0, 0x1F6E0), (0x1F900, 0x1F93E),
        (0x1F947, 0x1F949), (0x1F970, 0x1F97B), (0x1F9AE, 0x1F9B3), (0x1F9B5, 0x1F9B6),
        (0x1F9B8, 0x1F9B9), (0x1F9BB, 0x1F9BF), (0x1F9CC, 0x1F9DF), (0x1FAA6, 0x1FAA7),
        (0x1FAAA, 0x1FAAC), (0x1FAC2, 0x1FAC5), (0x1FAE0, 0x1FAFF)]
# Kept from the skipped ranges.
KEEP = {0x2614, 0x2705, 0x274C, 0x1F31D, 0x1F30F, 0x1F44D, 0x1F4A5, 0x1F4A7, 0x1F4BB, 0x1F4C5,
        0x1F4D6, 0x1F50A, 0x1F4F9, 0x1F600, 0x1F60E, 0x1F621, 0x1F634, 0x1F916, 0x1F921, 0x1F920,
        0x1F9D9, 0x1F9B4, 0x1F478, 0x1F385, 0x1F482, 0x1F46E, 0x1F9DC, 0x1F977, 0x1F6D1, 0x267B,
        0x2709, 0x270F, 0x26D4, 0x2603, 0x2764, 0x1F5A8, 0x1F5FD}
RENAME = {0x2600: "sun", 0x2614: "umbrella", 0x2705: "check mark", 0x26A1: "lightning bolt",
          0x2B50: "yellow star", 0x1F31D: "moon with face", 0x1F44D: "thumbs up",
          0x1F4A5: "explosion", 0x1F4A1: "light bulb", 0x1F4BB: "laptop computer",
          0x1F33D: "corn on the cob", 0x1F346: "eggplant", 0x1F3B0: "slot machine",
          0x1F3C0: "basketball", 0x1F3BE: "tennis racket", 0x1F50A: "loudspeaker",
          0x1F50D: "magnifying glass", 0x1F526: "flashlight", 0x1F574: "business man",
          0x1F47D: "alien", 0x1F41E: "ladybug", 0x1F452: "straw hat", 0x1F461: "sandal",
          0x1F462: "boots", 0x1F45A: "blouse", 0x1F45E: "brown shoe", 0x1F3E0: "house",
          0x1F697: "red car", 0x1F4BF: "compact disc", 0x1F6A6: "traffic light",
          0x1F30D: "planet earth", 0x1F6D1: "stop sign", 0x267B: "recycling symbol",
          0x1F4C8: "rising chart", 0x1F4C9: "falling chart", 0x1F525: "fire",
          0x1F6A8: "police light", 0x1F5FB: "mount fuji", 0x1F5FF: "stone statue",
          0x2764: "red heart", 0x1F981: "lion", 0x1F992: "giraffe", 0x1F993: "zebra",
          0x1F98A: "fox", 0x1F984: "unicorn", 0x1F3EF: "japanese castle", 0x1F576: "sunglasses",
          0x1F44E: "thumbs down", 0x1F9DC: "mermaid", 0x1F9D9: "wizard", 0x1F3A7: "headphones",
          0x1F621: "angry red face", 0x1F3D4: "snowy mountain", 0x1F373: "frying pan",
          0x1F4BA: "aircraft seat", 0x1F3AD: "theater masks", 0x1F39E: "film strip",
          0x1F3EA: "convenience store", 0x1F4D6: "open book", 0x1F5A5: "desktop computer",
          0x1F58D: "crayon"}


# Everyday things that stay however close another picture is.
MUST = """red apple;banana;slice of pizza;hamburger;elephant;dog;red heart;sun;red car;
rabbit;spouting whale;cow;birthday cake;christmas tree;balloon;beer mug;mouse;pear;
snowman;pineapple;cookie;ice cream;egg;cheese wedge;wrapped present;teddy bear;
soccer ball;basketball;bicycle;turtle;snake;panda face;pig face;monkey face;unicorn;
shark;butterfly;hot dog;cupcake;wine glass;umbrella;anchor;snowflake;yellow heart;
green heart;yellow star;violin;trumpet;ghost;skull;crystal ball;door;bed;helicopter;
flying saucer;kangaroo;flamingo;swan;squid;spider;scorpion;hedgehog;koala;grinning face;
angry red face;thumbs up;pencil;hammer;microscope;telescope;necktie;t shirt;candle;
onion;cherry blossom;tulip;dumpling;pancakes;waffle;ringed planet;stop sign;
traffic light;world map;gem stone;ring;axe;broom;toothbrush;droplet;lotus;worm;zebra;
raccoon;moon with face;hatching chick;sheep;magnifying glass;scarf;gloves;socks;kimono;
magic wand;open book;envelope;newspaper;ship;speedboat;canoe;mermaid;spoon;
carpentry saw;screwdriver"""
MUST = set(MUST.replace("\n", "").split(";"))
DROP = {"silhouette of japan", "minidisc", "izakaya lantern", "automated teller machine",
        "cinema", "mountain cableway", "suspension railway", "station", "oncoming automobile",
        "oncoming taxi", "oncoming police car", "oncoming bus", "tanabata tree",
        "moon viewing ceremony", "no entry", "earth globe americas", "heart decoration",
        "direct hit", "construction", "european post office", "articulated lorry",
        "recreational vehicle", "mountain railway", "ski and ski boot", "tram car",
        "lacrosse stick and ball", "running shirt with sash", "derelict house building",
        "rice cracker", "shallow pan of food", "microbe", "firework sparkler",
        "multiple musical notes", "motorway", "japanese post office", "goal net", "flag in hole",
        "x ray", "red gift envelope", "minibus", "military medal", "reminder ribbon",
        "control knobs", "building construction", "light rail"}


def inside(code, ranges):
    return any(a <= code <= b for a, b in ranges)


def name_of(code):
    if code in RENAME:
        return RENAME[code]
    name = unicodedata.name(chr(code)).lower()
    name = re.sub(r"^(black|white|heavy) (?!heart)", "", name)
    name = re.sub(r" (sign|symbol)$", "", name)
    return name.replace("-", " ").replace("womans", "woman's").replace("mans ", "man's ")


def candidates():
    blank = pictures.render(0x10FFFD).tobytes()
    for first, last in BLOCKS:
        for code in range(first, last + 1):
            if not unicodedata.name(chr(code), ""):
                continue
            if inside(code, SKIP) and code not in KEEP:
                continue
            picture = pictures.render(code)
            if picture.tobytes() == blank or len(name_of(code).split()) > 4:
                continue
            pixels = np.asarray(picture, dtype=int)
            if name_of(code) not in MUST and (pixels.max(2) - pixels.min(2)).mean() < 4:  # no colour
                continue
            yield code, name_of(code)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--output", default=pictures.CONCEPTS)
    args = parser.parse_args()
    found, names = [], set()
    for code, name in candidates():
        if name not in names and name not in DROP:
            names.add(name)
            found.append((code, name))
    print(len(found), "candidates")
    thumbs = np.stack([pictures.thumbnail(pictures.render(c)) for c, _ in found])
    distance = ((thumbs[:, None] - thumbs[None]) ** 2).mean(-1)
    np.fill_diagonal(distance, np.inf)
    alive = list(range(len(found)))
    kept = np.array([name in MUST for _, name in found])
    distance[np.ix_(kept, kept)] = np.inf
    while len(alive) > args.count:
        # Of the closest pair drop the one with the longer name.
        sub = distance[np.ix_(alive, alive)]
        i, j = divmod(int(sub.argmin()), len(alive))
        a, b = alive[i], alive[j]
        alive.remove(max(a, b, key=lambda k: (not kept[k], len(found[k][1].split()), k)))
    print("closest pair left: RMS distance %.3f" % distance[np.ix_(alive, alive)].min() ** 0.5)
    with open(args.output, "w", encoding="utf-8") as file:
        file.write("# Concepts of the demo checkpoint: code point, name.\n")
        for k in alive:
            file.write("%x\t%s\n" % found[k])


if __name__ == "__main__":
    main()
