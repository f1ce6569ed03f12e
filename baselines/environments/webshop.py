"""WebShop in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

import re
from collections import defaultdict
from collections.abc import Iterable

from agentgym.webshop.generated.departments import KINDS
from agentgym.webshop.generated.generator import CENTS, CODE_LETTERS, ENDINGS, OPENINGS, REQUESTS
from agentgym.webshop.keys import page_key
from agentgym.webshop.player import WebShopPlayer
from baselines.environments.settings import limit_of_steps, read


def _phrases() -> list[str]:
    found = {phrase for kind in KINDS for phrase in (kind.name, *kind.qualities, *kind.features)}
    for kind in KINDS:
        for name, values in kind.groups:
            found |= {name, *values}
    return sorted(found, key=lambda phrase: (-len(phrase), phrase))


def _any_of(phrases: Iterable[str]) -> str:
    by_letter = defaultdict(list)
    for phrase in phrases:
        by_letter[phrase[0]].append(re.escape(phrase[1:]))
    branches = [f"{re.escape(letter)}(?:{'|'.join(rest)})" for letter, rest in sorted(by_letter.items())]
    return rf"(?<![a-z0-9$.])(?:{'|'.join(branches)})(?![a-z0-9])"


#: Names of makers.
MAKERS = tuple(f"{opening}{ending}" for opening in OPENINGS for ending in ENDINGS)
_OPENINGS = tuple(request.partition("{")[0] for request in REQUESTS)
_CLICKS = ("buy now", "< prev", "next >", "back to search", "features", "description", "reviews")

#: How the numbers of all products of a shop with less than 10,000 begin.
FEW = "B00000"
#: A phrase, a click on a button and what stands on every page are one token each; the last four digits of a product's
#: number are two.
_PIECES: tuple[str, ...] = (
    r"(?:webshop \[sep\] )?instruction: \[sep\] (?:" + "|".join(map(re.escape, _OPENINGS)) + ")",
    r", and price lower than ",
    r"\.00 dollars \[sep\] (?:search|back to search \[sep\] (?:< prev \[sep\] |page )?)",
    r" \[sep\] back to search \[sep\] (?:< prev \[sep\] |page )?",
    r" \(total results: \d+\) \[sep\] (?:< prev \[sep\] )?next > \[sep\] (?:b00000)?",
    r" \[sep\] price: ",
    r" \[sep\] rating: n\.a\. \[sep\] description \[sep\] features \[sep\] reviews \[sep\] buy now",
    r" \[sep\] \$",
    r"\.\d+ \[sep\] b00000",
    r" \[sep\] ",
    r" [a-z]\d(?![a-z0-9])",
    r"click\[(?:" + "|".join(map(re.escape, _CLICKS)) + r")\]",
    r"search\[",
    r"click\[(?:b00000)?",
    r"\$",
    r"\d+(?=\.\d)",
    r"\.\d+",
    r", and (?=[a-z]+: )",
    r" (?:with|and|by) ",
    r" to (?=\$)",
    r", ",
    r": ",
    r"(?: ?\[cut\])?\n\noptions: ",
    r"; ",
    _any_of(_phrases()),
    r"\d\d",
    r"[a-z]+",
)


def _words() -> list[str]:
    head = "Instruction: [SEP] x with y by z, and color: x"
    pages = [
        f"{head} [SEP] Back to Search [SEP] Page {page} (Total results: {total}) [SEP] {buttons} [SEP] x"
        for page in range(1, 6)
        for total in (0, 50)
        for buttons in (f"{prev}Next >{first}" for prev in ("", "< Prev [SEP] ") for first in ("", f" [SEP] {FEW}12"))
    ]
    return [
        *_phrases(),
        *MAKERS,
        # Searches leave out the small words of a phrase: "plug play".
        *sorted({word for phrase in _phrases() for word in phrase.split()}),
        *(f" {letter}{number}, x" for letter in CODE_LETTERS for number in range(1, 10)),
        *(f"{site}Instruction: [SEP] {opening}" for site in ("", "WebShop [SEP] ") for opening in _OPENINGS),
        *pages,
        *(f", and price lower than {limit}.00 dollars [SEP] x" for limit in range(10, 1000, 10)),
        ".00 dollars [SEP] Search",
        *(f".00 dollars [SEP] Back to Search [SEP] {next}" for next in ("< Prev [SEP] x", "Page 1", "x")),
        *(f" [SEP] Back to Search [SEP] {next}" for next in ("< Prev [SEP] x", "x")),
        " [SEP] Price: $1 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now",
        *(f"click[{button}]" for button in _CLICKS),
        "search[x, y]; click[x] $1 to $2 x and y\n\noptions: nothing [cut]\n\noptions: x [SEP] [cut]\n\noptions: x",
        *(f"x [SEP] ${amount}.0 ${amount}.0" for amount in range(1, 1000)),
        *(f" .{cents} x.{cents} [SEP] {FEW}12" for cents in CENTS),
        *(f"click[{FEW}{number:02d}] {number:02d}" for number in range(100)),
    ]


WEBSHOP = read(
    __file__,
    papers_options={"steps": limit_of_steps},
    words=_words,
    pieces=_PIECES,
    advisers={"shopper": WebShopPlayer, "quick_shopper": lambda: WebShopPlayer(patience=0)},
    key=page_key,
)
