"""How products of the generated shop are named, described and asked for."""

from __future__ import annotations

#: Makers' names are an opening and an ending: 24 x 20 of them.
OPENINGS = (
    "Al", "Bran", "Cor", "Dal", "El", "Fen", "Gal", "Hol", "Il", "Jor", "Kel", "Lum", "Mar", "Nor", "Or", "Pel", "Quin",
    "Ros", "Sol", "Tam", "Ul", "Ver", "Wex", "Zan",
)  # fmt: skip
ENDINGS = (
    "vik", "dora", "mont", "eska", "ino", "ford", "anta", "ley", "osa", "wick", "een", "ora", "bury", "ixo", "undo",
    "hart", "ella", "ano", "stead", "una",
)  # fmt: skip

#: Titles. {maker}, {kind}, {quality} (may be two) and {feature} (may be two) are filled in, {code} is a model number.
TITLES = (
    "{maker} {quality} {kind} with {feature}",
    "{maker} {kind}, {quality}, {feature}",
    "{maker} {code} {kind} with {feature}, {quality}",
    "{quality} {kind} by {maker}, {feature}",
    "{maker} {kind} {code}, {feature}, {quality}",
)
TITLES_WITHOUT_FEATURE = ("{maker} {quality} {kind}", "{maker} {kind} {code}, {quality}", "{quality} {kind} by {maker}")

#: Sentences of a description, by category; the first place says what it is, the others what is told about it.
OPENERS: dict[str, tuple[str, ...]] = {
    "beauty": (
        "A {kind} for every day, made by {maker} in small runs.",
        "{maker} worked two years on this {kind} before it left the lab.",
        "This {kind} keeps a bathroom shelf simple.",
        "",
    ),
    "electronics": (
        "{maker} built this {kind} for people who work in more than one place.",
        "A {kind} that needs no manual.",
        "This {kind} replaces last year's model and keeps its price.",
        "",
    ),
    "garden": (
        "{maker} makes this {kind} in a family workshop.",
        "A {kind} that suits a small room as well as a large one.",
        "This {kind} brings some calm into a busy home.",
        "",
    ),
    "fashion": (
        "{maker} cut this {kind} after asking a hundred customers what theirs lacked.",
        "A {kind} you will reach for first.",
        "This {kind} goes from the office to the weekend.",
        "",
    ),
    "grocery": (
        "{maker} buys from growers it knows by name for this {kind}.",
        "A {kind} with a short list of ingredients.",
        "This {kind} belongs in every pantry.",
        "",
    ),
}
REMARKS: dict[str, tuple[str, ...]] = {
    "beauty": (
        "A little is enough for one use.",
        "The tube can be recycled where plastics are collected.",
        "Keep it away from direct sun and close it after use.",
        "Try it on the wrist first if your skin reacts easily.",
    ),
    "electronics": (
        "The box holds a quick guide in five languages.",
        "Updates come twice a year at no cost.",
        "The maker answers questions within one working day.",
        "Spare parts can be ordered for five years.",
    ),
    "garden": (
        "Measure the place before you order.",
        "It ships flat with all screws in one bag.",
        "Colors on a screen may differ a little from the real thing.",
        "Wipe it with a damp cloth now and then.",
    ),
    "fashion": (
        "Take one size more if you are between two.",
        "Wash it with similar colors and let it dry on a line.",
        "The fabric gets softer with every wash.",
        "It comes in a paper bag instead of plastic.",
    ),
    "grocery": (
        "Store it in a cool and dry place.",
        "Once opened, use it within a few weeks.",
        "Packed in a plant that also handles sesame.",
        "Good as a gift, better kept for yourself.",
    ),
}
#: Sentences that tell an attribute: a quality, a feature.
QUALITY_SENTENCES = (
    "It is {0}.",
    "Buyers praise that it is {0}.",
    "Like everything from {maker}, it is {0}.",
    "Tested and found {0}.",
)
FEATURE_SENTENCES = ("It comes with {0}.", "You get {0} as well.", "{maker} adds {0}.", "New this year: {0}.")
#: Bullet points that tell an attribute, and others.
QUALITY_BULLETS = ("{0}, as promised on the box", "{0} for years of use", "made to be {0}", "always {0}")
FEATURE_BULLETS = ("with {0}", "{0} included", "{0} that you will notice", "comes with {0}")
PLAIN_BULLETS = (
    "thirty days to send it back",
    "designed by {maker}",
    "a sensible gift",
    "ready when you are",
    "one of our best selling items",
    "ships in plain packaging",
)

#: Requests. {kind} comes with its qualities before and its features behind.
REQUESTS = (
    "i am shopping for {wish}",
    "show me {wish}",
    "please find {wish}",
    "i would like to order {wish}",
    "we are out of {wish}",
    "help me pick {wish}",
    "where can i get {wish}",
    "my sister wants {wish}",
)
