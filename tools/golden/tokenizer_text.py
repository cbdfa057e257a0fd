"""The text that the tokenizer goldens are made of: deterministic, one string a line."""

import random

SENTENCES = [
    "A photograph of an astronaut riding a horse on the moon, 35mm film, soft light.",
    "The quick brown fox jumps over the lazy dog; it's said that they'll never tire.",
    "We've seen what I'd call the best: she's here, you're there, I'm lost, don't go.",
    "cinematic wide shot, neon-lit street at night, rain, reflections, ultra-detailed, 8k",
    "An oil painting of a small village in the mountains, in the style of the old masters",
    "Der schnelle braune Fuchs springt über den faulen Hund, Größe und Straße, Äpfel.",
    "Où est passé l'élève qui aimait les crêpes à la crème brûlée ? Ça m'étonne, Noël !",
    "El niño pequeño comió una piña mañana; ¿dónde está el corazón? ¡Qué alegría!",
    "A rápida raposa marrom não saltou sobre o cão preguiçoso; coração, ações, pão.",
    "Il gatto è andato in città perché voleva più latte, però non c'era più nulla.",
    "Zażółć gęślą jaźń, pchnąć w tę łódź jeża lub ośm skrzyń fig.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy nad městem.",
    "İstanbul'da ILIK bir gün, ığdır ve şişli; çocuklar güldü, İĞÜŞÇÖ.",
    "Đây là một con mèo nhỏ ngồi trên bàn gỗ, Tiếng Việt rất đẹp.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Щедрий вечір, ґанок і їжак у лісі під зорями.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, ΟΔΥΣΣΕΥΣ και ΣΟΦΟΣ.",
    "敏捷的棕色狐狸跳过了懒狗。一只猫坐在窗边,看着雨。",
    "月面で馬に乗る宇宙飛行士の写真、フィルム調、柔らかい光。ひらがなとカタカナ。",
    "빠른 갈색 여우가 게으른 개를 뛰어넘었다. 밤하늘의 별.",
    "صورة فوتوغرافية لرائد فضاء يركب حصانًا على سطح القمر، إضاءة ناعمة.",
    "السَّلَامُ عَلَيْكُمْ وَرَحْمَةُ اللهِ",
    "צילום של אסטרונאוט רוכב על סוס, שָׁלוֹם עולם.",
    "चाँद पर घोड़े की सवारी करते हुए अंतरिक्ष यात्री की तस्वीर, क्षत्रिय।",
    "นักบินอวกาศขี่ม้าบนดวงจันทร์ แสงนุ่ม ภาษาไทยไม่มีช่องว่าง",
    "அழகான பூனை மேசையில் அமர்ந்திருக்கிறது.",
    "სწრაფი ყავისფერი მელა, საქართველო.",
    "Արագ շագանակագույն աղվեսը ցատկեց։",
    "ፈጣን ቡናማ ቀበሮ ዘለለ።",
    "ស្រមោលពណ៌ត្នោតរហ័ស",
    "lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor",
    "def main(argv: list[str]) -> int: return len(argv) * 0x1F // 3  # comment",
    "https://example.org/a/b?c=d&e=%20f#g and mail@example.org, C:\\path\\file.txt",
    "Prices: $1,234.56, €99.90, £5, ¥1000; 50% off -- 3/4 of 2²=4, H₂O, x⁻¹, №5, ½ ⅔ Ⅷ",
    "“Curly quotes” ‘single’ – en dash — em dash … ellipsis « guillemets » „low”",
]

EMOJI = [
    "😀", "🐱", "❤️", "❤", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇫🇷", "1️⃣", "#️⃣", "🧑🏿‍🚀", "🤷‍♀️", "☺️", "✨", "🔥",
    "©️", "™", "㊗️", "🈚", "🫠", "🐦‍⬛", "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
]

SPECIALS = [
    "<|endoftext|>", "<|startoftext|>", "<|ENDOFTEXT|>", "<|StartOfText|>", "<| endoftext |>", "<|endoftext|", "|endoftext|>",
    "<extra_id_0>", "<extra_id_1>", "<extra_id_99>", "<extra_id_100>", "<EXTRA_ID_0>", "<extra_id_>", "</s>", "<s>", "<pad>",
    "<unk>", "</S>", "<PAD>", "</w>", "<0x0A>", "▁", "▁▁", "▁word", "a▁b", "<<extra_id_7>>", "[MASK]",
]

# Code points whose handling differs between libraries, or that a hand-written rule could miss.
ODD = [
    0x00, 0x01, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x7F, 0x80, 0x85, 0x9F, 0xA0,
    0xAD, 0x34F, 0x61C, 0x1680, 0x180E, 0x2000, 0x2003, 0x2007, 0x2009, 0x200A, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F,
    0x2028, 0x2029, 0x202A, 0x202E, 0x202F, 0x205F, 0x2060, 0x2061, 0x2066, 0x3000, 0x3164, 0xFE00, 0xFE0F, 0xFEFF, 0xFFF9,
    0xFFFC, 0xFFFD, 0xFFFE, 0xFFFF, 0xE000, 0xF8FF, 0x1D173, 0xE0001, 0xE0041, 0xE0100, 0x10FFFF,
]

WORDS = [
    "ﬁre", "ﬂow", "oﬃce", "ﬀ", "ﬅ", "ĳ", "Ǆ", "ǅ", "ǆ", "ß", "ẞ", "İ", "ı", "I", "i̇", "K", "Å", "Å", "Å", "Ω", "Ω", "µ", "ſ",
    "ＦＵＬＬ", "ｗｉｄｔｈ", "１２３", "（）", "！？", "ｶﾞｷﾞｸﾞ", "ﾊﾟ", "ｶﾀｶﾅ", "カ゛", "カ\u3099", "か\u3099", "ハ\u309a", "㌔", "㍻", "㏂", "ℵ", "№",
    "\u1112\u1161\u11ab", "\u1100\u1161", "\u1100\u1161\u11a8\u1102\u1161", "한", "ㅎㅏㄴ", "e\u0301", "e\u0301\u0323", "e\u0323\u0301", "u\u0308\u0304",
    "a\u0300\u0301\u0302\u0303", "o\u0308", "n\u0303", "q\u0307\u0323", "\u0301a", " \u0301", "A\u030a", "\u212b", "s\u0323\u0307", "\u1e69",
    "x\u20d7", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!", "क्ष", "क्‍ष", "त्र", "श्री", "নি", "கு", "ကို",
    "นี้", "กำ", "ຳ", "ﷺ", "ﻻ", "لا", "ـــ", "٠١٢٣", "۴۵۶", "०१२", "১২৩", "๑๒๓", "፩፪", "௧௨", "Ⅻ", "①②③", "⒈", "¼", "𝟘𝟙𝟚", "𝔘𝔫𝔦",
    "𝒜𝒷", "ℌ", "𐐀𐐁", "𐐨", "𒀀𒁀", "𓀀", "𠀀𠮷", "丽", "\u2f800", "豈", "鼻", "⿰", "〇", "々", "〆", "ー", "ーー", "・", "~", "〜", "～", "―", "‐", "‑",
    "don't", "DON'T", "it's", "IT'S", "we'll", "WE'LL", "they've", "I'd", "I'm", "you're", "'s", "'S", "'tis", "''s", "rock'n'roll",
    "o’clock", "l’été", "ΣΑΣ", "ΟΔΟΣ", "Σ", "ς", "ΑΣ ΑΣ.", "ǰ", "ΐ", "ΰ", "ŉ", "և", "ẖ", "ᾳ", "ᾼ", "Ꭰ", "ꭰ", "Ა", "ა", "Ⴀ", "ⴀ",
    "snake_case", "kebab-case", "CamelCase", "ALLCAPS", "3D", "4k", "1st", "v2.0", "10,000", "3.14159", "1e-5", "0xFF", "a1b2c3",
    "!!!!!!", "??", "...", "…", "--", "---", "===", "***", "~~~", "@@@", "###", "$$$", "%%", "^^", "&&", "((()))", "[]{}", "<>", "\\\\", "//",
    "\"\"", "``", "''", "||", "::", ";;", ",,", ",,,,", "♥", "♪", "★☆", "→←", "∑∫√", "≤≥≠", "½", "°C", "µm", "€", "₿", "™", "®", "©", "¶", "§",
]


def _odd_lines():
    for cp in ODD:
        c = chr(cp)
        yield c
        yield f"a{c}b"
        yield f"{c} x {c}y{c}{c}z {c}"
        yield f"word{c} {c}word  {c}{c}  tail{c}"


def _case_variants(rng):
    for s in SENTENCES:
        yield s
        yield s.upper()
        yield s.lower()
        yield s.title()
        yield s.swapcase()
        yield "".join(s.split())
        yield "  " + s.replace(" ", "  ") + "   "
        yield "\t" + s.replace(" ", " \t ") + "\r\n"
        yield s.replace(" ", "\u00a0")
        yield s.replace(" ", "\u3000")
        yield s[: rng.randrange(1, len(s))]
        yield s[rng.randrange(len(s)) :]


def _long_lines(rng):
    yield "a" * 1000
    yield "ab" * 500
    yield "é" * 300
    yield "漢" * 300
    yield "한글" * 100
    yield "😀" * 100
    yield "👩‍💻" * 40
    yield "e\u0301" * 200
    yield "!" * 400
    yield "1234567890" * 50
    yield "-" * 77 + "=" * 78 + "_" * 79
    yield " " * 400
    yield "\u0300" * 300
    yield "x" + "\u0323\u0301" * 80
    yield "a " * 300
    yield "\U00100000" * 60
    letters = "abcdefghijklmnopqrstuvwxyz"
    for length in (100, 300, 1000):
        yield "".join(rng.choice(letters) for _ in range(length))
    yield " ".join(SENTENCES)
    yield "".join(WORDS)
    yield "".join(EMOJI)
    yield "".join(SPECIALS)
    yield " ".join(SPECIALS)
    for n in (70, 73, 74, 75, 76, 77, 80, 100):
        yield " ".join(rng.choice(SENTENCES[0].split()) for _ in range(n))


def _random_mixes(rng, count):
    pools = [WORDS, EMOJI, SPECIALS, [w for s in SENTENCES for w in s.split()], [chr(c) for c in ODD]]
    weights = [4, 2, 1, 6, 1]
    gaps = [" ", " ", " ", " ", "", "", "  ", "\t", "\n", ", ", "\u00a0", "\u3000", "\u200b"]
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 9)):
            parts.append(rng.choice(rng.choices(pools, weights)[0]))
            parts.append(rng.choice(gaps))
        yield "".join(parts)


def _random_code_points(rng, count):
    blocks = [
        (0x20, 0x7F), (0x80, 0x24F), (0x250, 0x36F), (0x370, 0x58F), (0x590, 0x77F), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x11FF),
        (0x1200, 0x1AFF), (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x33FF), (0x4E00, 0x9FFF), (0xA000, 0xABFF),
        (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10000, 0x107FF), (0x10A00, 0x10FFF), (0x11000, 0x11FFF),
        (0x1D400, 0x1D7FF), (0x1E000, 0x1E8FF), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF), (0x2F800, 0x2FA1D), (0xE0000, 0xE01EF),
    ]
    for i in range(count):
        n = rng.randrange(1, 14)
        low, high = blocks[i % len(blocks)]
        cps = []
        while len(cps) < n:
            cp = rng.randrange(low, high + 1) if rng.random() < 0.8 else rng.randrange(0x20, 0x7F)
            if rng.random() < 0.15:
                cp = rng.randrange(0x300, 0x370)
            cps.append(cp)
        yield "".join(map(chr, cps))


def lines():
    rng = random.Random(20261129)
    out = ["", " ", "  ", "\n", "\r\n", "\t \t"]
    out += list(_case_variants(rng))
    out += WORDS + EMOJI + SPECIALS
    out += [f"a{s}b {s} {s}{s}  {s}\n c" for s in SPECIALS]
    out += list(_odd_lines())
    out += list(_long_lines(rng))
    out += list(_random_mixes(rng, 700))
    out += list(_random_code_points(rng, 560))
    return out
