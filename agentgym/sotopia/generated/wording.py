"""Words of the generated scenarios: people, things, places and times."""

from __future__ import annotations

#: First names with gender and pronouns; friends that people talk about have names of their own, see `FRIENDS`.
FIRST_NAMES: tuple[tuple[str, str, str], ...] = tuple(
    (name, gender, pronoun)
    for gender, pronoun, names in (
        ("Woman", "She/her", "Adele Berta Carla Dora Edith Frida Greta Hilda Irma Judith Klara Lotte Marta Nelly Olga"),
        ("Man", "He/him", "Anton Bruno Casper Dario Emil Felix Gustav Hugo Ivo Jonas Kurt Ludwig Marco Niels Otto"),
        ("Nonbinary", "They/them", "Ari Bo Charlie Devin Ellis Finley Gale Harper"),
    )
    for name in names.split()
)
LAST_NAMES = (
    "Abbot", "Barlow", "Castle", "Dunmore", "Eastman", "Farrow", "Gardner", "Holloway", "Ingram", "Jessop", "Kingsley",
    "Lockhart", "Merrow", "Northcott", "Oakes", "Pemberton", "Quayle", "Redfern", "Stockton", "Tillman", "Underhill",
    "Vickers", "Westcott", "Yarrow",
)  # fmt: skip
#: An occupation, and what it makes a person known for.
OCCUPATIONS: tuple[tuple[str, str], ...] = (
    ("Baker", "opens the shop before six and knows every customer's order"),
    ("Nurse", "works nights and bakes for the ward on Sundays"),
    ("Carpenter", "builds kitchens and repairs old boats"),
    ("Teacher", "runs the school's chess club"),
    ("Bus Driver", "collects maps of cities"),
    ("Gardener", "looks after the park by the river"),
    ("Librarian", "reads to children on Saturdays"),
    ("Electrician", "plays the trombone in a brass band"),
    ("Photographer", "takes portraits at weddings"),
    ("Pharmacist", "trains for a marathon"),
    ("Translator", "speaks five languages and is learning a sixth"),
    ("Cook", "writes down recipes of old neighbours"),
    ("Surveyor", "walks in the hills whatever the weather"),
    ("Tailor", "sews costumes for the village theatre"),
    ("Postal Worker", "knows the name of every dog in town"),
    ("Beekeeper", "sells honey at the market"),
)
PERSONALITIES = (
    "is calm and likes to hear both sides before deciding.",
    "speaks openly and expects the same of others.",
    "is cautious with promises and keeps every one of them.",
    "likes a joke and is quick to forgive.",
    "plans everything and does not like surprises.",
    "trusts first impressions more than numbers.",
    "is generous with time and careful with money.",
    "is curious and asks more than is usual.",
)
DECISIONS = ("Analytical", "Intuitive", "Conceptual", "Directive")
SECRETS = (
    "has failed the driving test seven times and tells nobody",
    "writes love stories under another name",
    "once found a wallet and kept what was in it",
    "is looking for work in another country",
    "wears a wig since an unlucky experiment with bleach",
    "has never read the book that everybody was told about",
    "lost the family's ring and had a copy made",
    "is afraid of pigeons and takes detours to avoid squares",
    "feeds the neighbour's cat behind the neighbour's back",
    "spent the holiday savings on lottery tickets",
    "learned to swim at forty and pretends otherwise",
    "copied the prize-winning cake from a magazine",
    "pays a stranger's rent every month",
    "has a twin whom no one here has met",
)

#: Things for sale: what it is, lowest and highest list price, a remark.
GOODS: tuple[tuple[str, int, int, str], ...] = (
    ("a city bicycle", 80, 320, "The chain is new, the saddle is not."),
    ("an oak table", 90, 380, "It seats six, and one leg has a dent."),
    ("a record player", 60, 240, "It runs well and comes with two records."),
    ("a folding kayak", 120, 480, "It was on the water twice."),
    ("a sewing machine", 50, 220, "It has been cleaned and oiled."),
    ("a telescope", 70, 300, "One lens cap is missing."),
    ("a leather armchair", 80, 360, "The cat has left a few marks on it."),
    ("a set of garden tools", 30, 110, "Eight pieces in a wooden box."),
    ("an electric guitar", 100, 420, "The strings have just been changed."),
    ("a coffee machine", 40, 180, "It grinds beans, too."),
    ("a pair of skis", 50, 210, "They were waxed in spring."),
    ("a camera", 90, 400, "A bag and a spare battery are included."),
)
SALE = (
    "One person offers {thing} for {price}, and another has come to look at it. {remark}",
    "{thing} is for sale on a notice board for {price}. {remark} Somebody who wants it meets the owner.",
    "At a flea market a stall shows {thing}. {remark} The label says {price}. A visitor stops.",
)

#: Things to divide: the occasion, and kinds in singular and plural.
OCCASIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Two people give up their shared flat",
     (("lamp", "lamps"), ("chair", "chairs"), ("plant", "plants"), ("rug", "rugs"))),
    ("Two people have won the raffle together",
     (("mug", "mugs"), ("puzzle", "puzzles"), ("kite", "kites"), ("scarf", "scarves"))),
    ("Two people are back from the orchard",
     (("apple", "apples"), ("pear", "pears"), ("plum", "plums"), ("melon", "melons"))),
    ("Two people clear out a workshop",
     (("hammer", "hammers"), ("saw", "saws"), ("drill", "drills"), ("vice", "vices"))),
    ("Two people share what is left after the fair",
     (("book", "books"), ("candle", "candles"), ("basket", "baskets"), ("jar", "jars"))),
)  # fmt: skip

#: What people arrange to meet for.
MEETINGS = (
    "to rehearse a duet",
    "to paint the fence they share",
    "to go through the accounts of their club",
    "to practise for a quiz",
    "to repair a boat",
    "to plan a street party",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
TIMES = ("morning", "noon", "evening")

#: Names of friends, none of which is a name of `FIRST_NAMES`.
FRIENDS = (
    "Agnes", "Alba", "Basil", "Beatrix", "Cedric", "Clement", "Daphne", "Desmond", "Elias", "Elsa", "Fabian", "Flora",
    "Gideon", "Gloria", "Hector", "Helen", "Igor", "Isolde", "Jasper", "Joan", "Kasimir", "Kitty", "Lambert", "Leonie",
    "Magnus", "Mildred", "Nadine", "Norbert", "Odette", "Oswald", "Paula", "Percy", "Quentin", "Ramona", "Rufus",
    "Selma", "Silas", "Tessa", "Tobias", "Ulla", "Ursula", "Valentin", "Vera", "Walter", "Wilma", "Xaver", "Yvonne",
    "Zacharias", "Zelda",
)  # fmt: skip
#: What is known of friends: values of each attribute, and how it is told and asked.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    name: tuple(values.split())
    for name, values in (
        ("town", "Ashford Brambury Corvale Dunwick Elmstead Fernhill Glenmoor Harrowby Inverlea Juniper"),
        ("job", "plumber dentist painter farmer lawyer barber miner sailor judge florist"),
        ("hobby", "chess fishing pottery fencing karate archery judo sailing origami surfing"),
        ("pet", "cat dog parrot rabbit tortoise goldfish hamster lizard pony canary"),
    )
}
