"""The colour words that WebShop's reward knows, and option values reduced to them."""

from __future__ import annotations

from functools import lru_cache

#: In the order in which the reward looks for them.
COLOURS = (
    "alabaster", "apricot", "aqua", "ash", "asphalt", "azure", "banana", "beige", "black", "blue", "blush", "bordeaux",
    "bronze", "brown", "burgundy", "camel", "camo", "caramel", "champagne", "charcoal", "cheetah", "chestnut",
    "chocolate", "christmas", "coffee", "cognac", "copper", "coral", "cranberry", "cream", "crystal", "dark", "denim",
    "eggplant", "elephant", "espresso", "fuchsia", "gold", "granite", "grape", "graphite", "grass", "gray", "green",
    "grey", "heather", "indigo", "ivory", "ivy", "khaki", "lavender", "lemon", "leopard", "light", "lilac", "lime",
    "magenta", "maroon", "mauve", "merlot", "midnight", "mint", "mocha", "multicolor", "mushroom", "mustard", "natural",
    "navy", "nude", "olive", "orange", "peach", "pewter", "pink", "plum", "purple", "rainbow", "red", "rose", "royal",
    "rust", "sand", "sapphire", "seashell", "silver", "skull", "slate", "steel", "stone", "stonewash", "sunflower",
    "tan", "taupe", "teal", "tiger", "turquoise", "violet", "walnut", "wheat", "white", "wine", "yellow",
)  # fmt: skip


@lru_cache(maxsize=1 << 14)
def reduced(option: str | tuple[str, str]) -> str:
    """Return the first colour word inside an option, else the option as text.

    A word counts anywhere in a value ("tan" in "standard"). A (name, value) pair, as synthetic goals wish it, is only
    reduced when its name or value *is* a colour word; otherwise the reward compares the text of the pair as Python
    prints it. So does the original.

    Example:
        >>> reduced("dark blue"), reduced("standard"), reduced(("color", "red")), reduced(("color", "dark red"))
        ('blue', 'tan', 'red', "('color', 'dark red')")
    """
    return next((colour for colour in COLOURS if colour in option), str(option))
