"""The words that names of the generated encyclopaedia are made of.

Every name is put together from two words or more of a table, so that the entities of one split are other entities than
those of another although all splits use the same words.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WOMEN = _words(
    "Ada Agnes Alma Anna Astrid Beatrix Berta Carla Celia Clara Cora Daria Delia Dora Edith Elena Elsa Emilia Erika "
    "Esther Flora Frida Greta Hanna Helga Ida Ilse Ingrid Irma Judith Klara Laura Lena Lidia Linda Lucia Magda Maria "
    "Marta Mina Nadia Nora Olga Paula Rosa Ruth Selma Silvia Thea Vera"
)
MEN = _words(
    "Adam Albert Anton Arne August Axel Bruno Carl Cedric Conrad David Edgar Emil Erik Felix Frank Fritz Georg Gregor "
    "Gustav Hannes Hugo Igor Ivan Jakob Jan Jonas Josef Julian Karl Kaspar Klaus Lars Leo Lorenz Lukas Marius Martin "
    "Max Nils Oskar Otto Paul Peter Philip Robert Rolf Simon Theo Viktor"
)
SURNAMES = _words(
    "Abel Albrecht Amsel Anders Arden Bach Baker Barlow Becker Bell Berger Blake Bloom Bolt Brandt Brook Brunner Burke "
    "Busch Cole Cooper Cramer Crane Dahl Dale Decker Drake Ebner Eder Elm Engel Ernst Faber Falk Finch Fisher Fleming "
    "Ford Forster Franke Frost Fuchs Gabler Gale Garner Gerber Glass Gold Graf Graham Gruber Haas Hale Hansen Harper "
    "Hart Hartwig Hawk Heller Henning Herzog Hill Hirsch Hoff Holt Horn Huber Hunt Jansen Jarvis Keller Kern "
    "King Klein Knight Koch Kramer Krause Kruger Lamb Lang Larsen Lehner Lindner Locke Lorenzen Maas Marlow Marten "
    "Mason Meister Melville Merz Miller Moll Moore Morris Moser Nagel Neumann Noble North Olsen Paige Palmer Parker "
    "Peck Petersen Pike Pohl Porter Quint Raab Rademacher Reed Reich Reuter Richter Ritter Rivers Robin Roth Rowe "
    "Sander Sattler Schell Schmidt Seidel Sharp Shaw Sommer Sparrow Stark Steele Stein Stone Storm Strand Sutter Swan "
    "Tanner Taylor Thorn Tiller Turner Ullman Vance Vogel Voss Wagner Walker Wallis Walter Ward Weber Weiss Wells "
    "Werner West Wick Wilder Winter Wolf Wood Wren Yates Young Zeller Ziegler Zimmer"
)

SIDES = _words(
    "North South East West Upper Lower Old New Port Fort Mount Great Little High Long Saint Market Castle Bishop Abbey"
)
_STEMS = _words(
    "Ald Barn Bram Cald Carr Dorn Eld Farl Gath Hael Harl Inver Kell Kirn Lang Mard Nort Orl Pell Quar Rav Sark Selk "
    "Tarn Thur Ulm Vard Wend Yarl Zell"
)
_ENDINGS = _words("ath eck en ick oven ow und wald")
#: What follows a side in the name of a town, or "... of" in the name of a country.
PLACES = tuple([stem + ending for stem in _STEMS for ending in _ENDINGS])
REALMS = _words("Kingdom Republic Duchy Commonwealth Principality Federation")
RIVERS = _words("Amber Birch Clover Deer Eagle Fern Heron Ivy Juniper Kite Lark Maple Otter Pine Reed Salmon")

ADJECTIVES = _words(
    "Ancient Bitter Blue Borrowed Brave Broken Burning Cold Crooked Crystal Dark Distant Divided Empty Endless "
    "Faithful False Final Forgotten Frozen Gentle Gilded Golden Green Grey Hidden Hollow Hungry Idle Invisible Iron "
    "Last Lonely Lost Merry Midnight Narrow Open Pale Patient Quiet Red Restless Second Secret Shattered Silent Silver "
    "Sleeping Stolen Strange Sunken Thirsty Unfinished Velvet Wandering White Wild Winding"
)
NOUNS = _words(
    "Acrobat Anchor Apple Archive Attic Balcony Bell Bridge Candle Carriage Cathedral Clock Coast Compass Corridor "
    "Crown Cup Dancer Desert Door Echo Engine Feather Ferry Fiddle Flame Forest Fountain Garden Gate Glove Harbour "
    "Hat Horizon Hourglass House Hunter Island Key Kingdom Ladder Lamp Lantern Letter Lighthouse Mask Meadow Mill "
    "Mirror Mountain Needle Nest Nightingale Orchard Painter Palace Passenger Pearl Pilgrim Portrait Promise Raven "
    "Ring River Road Rope Sailor Shadow Shore Shepherd Staircase Stranger Summer Tailor Theatre Tower Train Valley "
    "Violin Voyage"
)
METALS = _words("Amber Bronze Copper Coral Ebony Emerald Ivory Jade Pearl Ruby Sapphire Silver")
TROPHIES = _words(
    "Arrow Bowl Branch Comb Dagger Drum Eagle Fan Flute Goblet Hammer Harp Helmet Horn Jug Lily Lion Medal Oar Owl "
    "Plate Quill Ribbon Sail Shield Spur Star Torch Wheel"
)
#: Kinds of events, each with what was done there.
CONTESTS = {
    "Regatta": "boats raced",
    "Poetry Prize": "poems were read",
    "Chess Cup": "chess was played",
    "Air Race": "aeroplanes raced",
    "Song Contest": "songs were sung",
    "Flower Show": "gardens were judged",
    "Ski Race": "people raced on skis",
    "Cookery Fair": "dishes were judged",
}

#: Occupations: what they make, and the word for having made it; () for those who make no works.
MAKERS: dict[str, tuple[str, str, str]] = {
    "novelist": ("novel", "author", "wrote"),
    "playwright": ("play", "author", "wrote"),
    "composer": ("opera", "composer", "composed"),
    "painter": ("painting", "painter", "painted"),
    "film director": ("film", "director", "directed"),
    "sculptor": ("statue", "sculptor", "carved"),
}
OTHERS = _words("botanist astronomer engineer lawyer physician teacher")
CURRENCIES = _words("crown thaler florin ducat shilling guilder mark groat penny dinar")
LANGUAGES = _words("Aldish Bramic Caldian Dornish Eldic Farlian Kellish Mardic Selkian Thurish Vardic Wendish")
GOODS = _words("barrels cheese cider clocks glass honey lace leather lenses paper pottery rope salt soap tiles wool")
