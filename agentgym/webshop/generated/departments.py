"""The kinds of products of the generated shop and their differences, as tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of product; `name` is also the products' query, `path` runs from the widest department to the kind.

    `cheapest`, `dearest`: usual prices in dollars; `groups`: possible option groups (name, all values); `qualities`
    stand before the name ("machine washable"), `features` after "with" ("steel legs").
    """

    name: str
    category: str
    path: tuple[str, ...]
    cheapest: float
    dearest: float
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    qualities: tuple[str, ...]
    features: tuple[str, ...]


#: Values of option groups. The first word of a key is the group's name on the page. The original's reward replaces a
#: chosen value by a colour that it contains, even inside a word ("sandalwood": "sand"); no value here has one.
VALUES: dict[str, tuple[str, ...]] = {
    key: tuple(part.strip() for part in values.split(","))
    for key, values in {
        "color": "black, white, navy, red, green, sand, teal, ivory, olive, purple, orange, gray, pink, yellow, brown, "
        "silver, dark green, light blue, rose gold, burgundy",
        "color metal": "black, white, silver, gold, bronze, copper, gray",
        "color wood": "walnut, natural oak, white, black, espresso, natural pine",
        "shade": "nude, coral, plum, berry, rose, wine, peach, mauve, champagne",
        "size clothes": "x-small, small, medium, large, x-large, xx-large",
        "size shoes": "5, 6, 7, 8, 9, 10, 11, 12",
        "size bed": "twin, full, queen, king",
        "size rug": "2 x 3 feet, 4 x 6 feet, 5 x 8 feet, 7 x 10 feet, 9 x 12 feet",
        "size frame": "4 x 6 inch, 5 x 7 inch, 8 x 10 inch, 11 x 14 inch, 16 x 20 inch",
        "size window": "38 x 45 inch, 42 x 63 inch, 52 x 84 inch, 60 x 95 inch, 100 x 108 inch",
        "size pillow": "14 x 22 inch, 16 x 16 inch, 18 x 18 inch, 20 x 20 inch, 24 x 24 inch",
        "size tube": "1 ounce, 2 ounce, 4 ounce, 6 ounce, 8 ounce",
        "size bag": "6 ounce, 12 ounce, 16 ounce, 2 pound, 5 pound",
        "size bottle": "8 fl oz, 12 fl oz, 17 fl oz, 25 fl oz, 34 fl oz",
        "size laptop": "11 inch, 13 inch, 14 inch, 15 inch, 17 inch",
        "size pot": "4 inch, 6 inch, 8 inch, 10 inch, 12 inch",
        "scent": "lavender, citrus, vanilla, cedar, coconut, mint, rose, unscented, eucalyptus, jasmine",
        "flavor": "original, vanilla, chocolate, coconut, lemon, ginger, cinnamon, sea salt, honey, maple",
        "flavor hot": "original, smoky, garlic, lemon, extra hot, chipotle, basil",
        "quantity": "1 pack, 2 pack, 3 pack, 4 pack, 6 pack, 12 pack",
        "length": "3 feet, 5 feet, 6 feet, 10 feet, 15 feet",
        "capacity": "32gb, 64gb, 128gb, 256gb, 512gb",
        "battery": "5000mah, 10000mah, 20000mah, 30000mah",
        "roast": "mild, medium, full, decaf",
        "width": "narrow, regular, wide",
    }.items()
}

_BEAUTY = (
    "fragrance free, cruelty free, paraben free, long lasting, travel size, fast absorbing, dermatologist tested, oil "
    "free, water resistant, plant based, sulfate free, alcohol free",
    """
    face cream | Skin Care > Face | 9 60 | size tube, scent |
        vitamin c, hyaluronic acid, green tea extract, aloe vera, shea butter, sun filter
    body lotion | Skin Care > Body | 6 35 | size bottle, scent |
        cocoa butter, oat milk, almond oil, pump dispenser, aloe vera, sea minerals
    lip balm | Skin Care > Lips | 3 18 | quantity, flavor |
        bees wax, shea butter, mirror cap, vitamin e, castor oil, metal tin
    hair conditioner | Hair Care > Wash | 7 40 | size bottle, scent |
        argan oil, rice protein, tea tree oil, keratin complex, pump dispenser, coconut milk
    shampoo bar | Hair Care > Wash | 5 22 | scent, quantity |
        argan oil, charcoal powder, storage tin, oat milk, biotin complex, hemp oil
    hair brush | Hair Care > Tools | 6 45 | color |
        boar bristles, bamboo handle, nylon pins, cushion base, vented back, folding mirror
    nail polish | Make Up > Nails | 4 20 | shade, quantity |
        gel finish, wide brush, glitter flakes, matte finish, quick set formula, chip guard
    lipstick | Make Up > Lips | 5 34 | shade |
        matte finish, satin finish, vitamin e, magnetic cap, jojoba oil, precise tip
    eye shadow palette | Make Up > Eyes | 8 55 | shade |
        built in mirror, double brush, matte finish, shimmer finish, mineral pigment, magnetic lid
    makeup brush set | Make Up > Tools | 8 60 | color, quantity |
        bamboo handle, storage roll, soft bristles, metal ferrule, angled tips, drying rack
    beard oil | Shaving > Beard | 6 32 | scent, size tube |
        jojoba oil, argan oil, glass dropper, wooden comb, hemp oil, vitamin e
    hand soap | Bath > Soap | 4 24 | scent, size bottle |
        pump dispenser, olive oil, aloe vera, sea minerals, glass bottle, honey extract
    toothbrush | Oral Care > Brushes | 3 70 | color, quantity |
        charcoal bristles, bamboo handle, tongue cleaner, two minute timer, travel cap, soft bristles
    """,
)
_ELECTRONICS = (
    "fast charging, noise reducing, water resistant, plug and play, ultra slim, energy saving, shock proof, heavy "
    "duty, hands free, dust proof, quick pairing, low power",
    """
    wireless earbuds | Audio > Headphones | 18 160 | color |
        charging case, touch control, deep bass, four microphones, memory foam tips, app control
    bluetooth speaker | Audio > Speakers | 20 220 | color |
        deep bass, carry strap, led lights, stereo pairing, aux input, built in microphone
    desk microphone | Audio > Microphones | 25 190 | color metal |
        pop filter, mute button, tripod base, gain knob, usb connector, headphone jack
    charging cable | Phones > Cables | 5 30 | length, color, quantity |
        braided nylon, right angle plug, led indicator, reinforced joints, data transfer, magnetic tip
    power bank | Phones > Batteries | 15 90 | battery, color |
        digital display, two usb ports, built in cable, flash torch, solar panel, wireless pad
    phone case | Phones > Cases | 7 45 | color |
        card slot, kick stand, raised edges, wrist strap, magnetic ring, screen cover
    phone tripod | Phones > Mounts | 12 75 | color metal |
        remote shutter, flexible legs, ball head, carry bag, cold shoe, extending pole
    computer mouse | Computers > Input | 9 95 | color |
        silent buttons, side buttons, usb receiver, thumb rest, scroll wheel lock, adjustable weight
    mechanical keyboard | Computers > Input | 30 180 | color, width |
        back light, wrist rest, hot swap sockets, volume wheel, usb hub, aluminum frame
    webcam | Computers > Video | 20 150 | color metal |
        privacy cover, auto focus, ring light, two microphones, tripod thread, wide lens
    laptop sleeve | Computers > Bags | 11 60 | size laptop, color |
        front pocket, padded corners, shoulder strap, felt lining, double zip, luggage belt
    memory card | Storage > Cards | 8 140 | capacity, quantity |
        card adapter, write protection, fast transfer, storage case, video rating, data recovery
    smart plug | Home Control > Plugs | 10 60 | quantity, color metal |
        energy monitor, voice control, timer function, usb port, night light, group switching
    """,
)
_GARDEN = (
    "machine washable, space saving, hand made, fade resistant, stain resistant, heavy duty, eco friendly, scratch "
    "resistant, moisture proof, pet friendly, easy to clean, weather proof",
    """
    table lamp | Lighting > Lamps | 18 140 | color metal |
        linen shade, usb port, touch dimmer, pull chain, ceramic base, marble base
    floor lamp | Lighting > Lamps | 35 260 | color metal |
        reading arm, linen shade, foot switch, three bulbs, weighted base, remote control
    throw pillow | Bedroom > Cushions | 9 55 | size pillow, color |
        hidden zip, feather filling, tassel corners, velvet cover, memory foam, piped edges
    bed sheet set | Bedroom > Bedding | 22 150 | size bed, color |
        deep pockets, bamboo fabric, corner straps, two pillow cases, cotton sateen, sateen weave
    area rug | Floors > Rugs | 28 320 | size rug, color |
        anti slip backing, low pile, woven border, jute fibers, tassel ends, geometric pattern
    door mat | Floors > Mats | 12 60 | color |
        rubber backing, coir bristles, beveled edge, drain holes, printed greeting, low profile
    window curtain | Windows > Curtains | 16 110 | size window, color |
        thermal lining, steel grommets, rod pocket, sheer fabric, back tabs, linen weave
    wall clock | Walls > Clocks | 14 120 | color wood |
        silent movement, large numerals, glass cover, pendulum, thermometer dial, glow hands
    picture frame | Walls > Frames | 8 75 | size frame, color wood |
        real glass, table stand, paper mount, hanging hooks, beveled edge, swivel clips
    bar stool | Furniture > Seating | 45 330 | color, quantity |
        swivel seat, foot rest, steel legs, padded back, height lever, rubber feet
    coffee table | Furniture > Tables | 60 480 | color wood |
        lower shelf, steel legs, lift top, hidden drawer, rounded corners, tempered glass
    bookcase | Furniture > Shelves | 50 420 | color wood |
        five shelves, steel frame, wall anchor, glass doors, adjustable shelves, cable opening
    storage basket | Storage > Baskets | 9 65 | color, quantity |
        rope handles, fitted lid, cotton lining, label holder, woven seagrass, folding frame
    plant pot | Outdoors > Planters | 7 85 | size pot, color |
        drainage hole, bamboo saucer, ceramic glaze, hanging rope, self watering base, wooden stand
    """,
)
_FASHION = (
    "machine washable, quick drying, wrinkle free, slim fit, relaxed fit, wind proof, hand stitched, moisture wicking, "
    "water resistant, light weight, odor resistant, everyday wear",
    """
    running shoes | Shoes > Sport | 35 170 | size shoes, color, width |
        rubber sole, memory foam insole, mesh upper, heel loop, arch support, reflective stripes
    hiking boots | Shoes > Outdoor | 50 230 | size shoes, color |
        rubber sole, ankle support, leather upper, toe guard, speed laces, fleece lining
    sandals | Shoes > Summer | 18 95 | size shoes, color |
        cork sole, ankle strap, open toe, leather upper, arch support, metal buckle
    wool socks | Underwear > Socks | 8 40 | size clothes, color, quantity |
        cushioned heel, arch support, ribbed cuff, flat toe seam, merino yarn, terry lining
    rain jacket | Outerwear > Jackets | 30 190 | size clothes, color |
        taped seams, folding hood, zip pockets, mesh lining, storm flap, drawstring waist
    winter scarf | Accessories > Scarves | 12 70 | color |
        cashmere blend, fringe ends, cable knit, plaid pattern, fleece lining, button loop
    sun hat | Accessories > Hats | 12 60 | color, size clothes |
        wide brim, chin strap, mesh vents, neck flap, ribbon band, folding brim
    leather belt | Accessories > Belts | 14 80 | color, size clothes |
        brass buckle, double stitching, reversible strap, ratchet buckle, embossed pattern, gift box
    linen shirt | Clothing > Shirts | 20 95 | size clothes, color |
        chest pocket, roll up sleeves, button collar, short sleeves, shell buttons, band collar
    yoga leggings | Clothing > Sport | 16 85 | size clothes, color |
        high waist, side pockets, flat seams, mesh panels, hidden pocket, tummy control
    swim shorts | Clothing > Swimwear | 14 65 | size clothes, color |
        mesh lining, elastic waist, back pocket, drain eyelets, tropical print, draw cord
    hooded sweatshirt | Clothing > Tops | 22 90 | size clothes, color |
        kangaroo pocket, fleece lining, full zip, ribbed cuff, thumb holes, draw cord
    evening dress | Clothing > Dresses | 35 240 | size clothes, color |
        lace sleeves, side slit, open back, v neck, pleated skirt, hidden zip
    canvas backpack | Bags > Backpacks | 25 130 | color |
        laptop pocket, leather straps, roll top, bottle holder, luggage strap, padded back
    """,
)
_GROCERY = (
    "gluten free, sugar free, dairy free, small batch, low sodium, nut free, non gmo, kosher certified, stone ground, "
    "high protein, fair trade, keto friendly",
    """
    green tea | Drinks > Tea | 5 40 | quantity, flavor |
        jasmine petals, loose leaves, pyramid bags, roasted rice, orange peel, spring harvest
    ground coffee | Drinks > Coffee | 7 45 | roast, size bag |
        single origin beans, chicory root, hazelnut aroma, valve bag, mushroom extract, volcanic soil
    hot cocoa mix | Drinks > Cocoa | 6 32 | flavor, size bag |
        mini marshmallows, raw cacao, oat milk powder, coconut sugar, chili pepper, resealable pouch
    granola bars | Snacks > Bars | 5 36 | flavor, quantity |
        whole oats, chia seeds, dried cranberries, almond butter, pumpkin seeds, puffed quinoa
    trail mix | Snacks > Nuts | 7 38 | size bag, flavor |
        roasted cashews, dried mango, pumpkin seeds, banana chips, goji berries, resealable pouch
    popcorn | Snacks > Corn | 4 28 | flavor, quantity |
        coconut oil, olive oil, nutritional yeast, purple kernels, mini kernels, avocado oil
    rice crackers | Snacks > Crackers | 3 24 | flavor hot, quantity |
        sesame seeds, seaweed flakes, brown rice, flax seeds, soy glaze, black pepper
    fruit snacks | Snacks > Fruit | 4 30 | quantity, flavor |
        real fruit puree, vitamin c, apple pectin, dried mango, chewy pieces, single bags
    dark chocolate | Sweets > Chocolate | 4 34 | quantity, flavor |
        sea salt flakes, roasted almonds, orange peel, cacao nibs, coconut sugar, caramel pieces
    honey | Pantry > Spreads | 8 48 | size bottle, quantity |
        raw honeycomb, clover blossom, squeeze bottle, acacia blossom, wooden dipper, ginger root
    pasta sauce | Pantry > Sauces | 4 26 | flavor hot, quantity |
        roasted garlic, plum tomatoes, fresh basil, olive oil, black olives, porcini mushrooms
    hot sauce | Pantry > Sauces | 4 28 | flavor hot, quantity |
        aged peppers, apple vinegar, pineapple juice, ghost pepper, lime juice, squeeze bottle
    olive oil | Pantry > Oils | 9 60 | size bottle, quantity |
        cold press, dark bottle, early harvest, pouring spout, black truffle, lemon zest
    """,
)

_PARTS: tuple[tuple[str, str, tuple[str, str]], ...] = (
    ("beauty", "Beauty and Care", _BEAUTY),
    ("electronics", "Electronics", _ELECTRONICS),
    ("garden", "Home and Garden", _GARDEN),
    ("fashion", "Fashion", _FASHION),
    ("grocery", "Food and Drink", _GROCERY),
)


def _split(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator))


def _kind(category: str, department: str, qualities: Sequence[str], row: str) -> Kind:
    name, path, prices, groups, features = _split(row, "|")
    low, high = prices.split()
    return Kind(
        name=name,
        category=category,
        path=(department, *_split(path, ">"), name.title()),
        cheapest=float(low),
        dearest=float(high),
        groups=tuple((key.split()[0], VALUES[key]) for key in _split(groups)),
        qualities=tuple(qualities),
        features=_split(features),
    )


#: All kinds of products, category by category.
KINDS: tuple[Kind, ...] = tuple(
    _kind(category, department, _split(qualities), row)
    for category, department, (qualities, rows) in _PARTS
    for row in re.split(r"\n {4}(?! )", rows.strip())
)
CATEGORIES: tuple[str, ...] = tuple(category for category, _, _ in _PARTS)
