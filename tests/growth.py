"""How processor time grows with the length of an input, and texts that hurt whatever reads them."""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: Eight times the input may take less than so many times the time: linear with room for noise, quadratic is 64.
MOST_GROWTH = 20
#: What is shorter than this is noise (of the clock, the caches, the allocator), in seconds.
_NOISE = 5e-4
#: How often what looks too long is measured again: quadratic time looks so every time, a busy machine does not.
_PATIENCE = 12


def seconds(work: Callable[[], object], tries: int = 3) -> float:
    """Return the processor time of the fastest of some runs; nothing is collected meanwhile."""
    best, collecting = float("inf"), gc.isenabled()
    gc.disable()
    try:
        for _ in range(tries):
            begin = time.process_time()
            work()
            best = min(best, time.process_time() - begin)
    finally:
        if collecting:
            gc.enable()
    return best


def growth(work: Callable[[T], object], small: T, large: T, tries: int = 3) -> float:
    """Return how many times longer `work` takes for `large`, eight times as long, than for `small`; 0 if it is nothing.

    Noise makes a run longer only, so one run of `large` is enough unless it looks too long.
    """
    long = seconds(lambda: work(large), 1)
    if long < MOST_GROWTH * _NOISE:
        return 0.0
    ratio = long / max(seconds(lambda: work(small), tries), _NOISE)
    for attempt in range(_PATIENCE):  # a slow clock or neighbour between the two runs: both again, close together
        if ratio < MOST_GROWTH:
            break
        time.sleep(0.02 * attempt)
        long = min(seconds(lambda: work(large), 1), seconds(lambda: work(large), 1))
        ratio = min(ratio, long / max(seconds(lambda: work(small), tries), _NOISE))
    return ratio


#: Beginning, what is repeated, and end; "№" in what is repeated stands for the number of the repetition.
Family = tuple[str, str, str]
FAMILIES: dict[str, Family] = {
    # Letters and white space
    "one letter": ("", "a", ""), "letters and an end": ("we ", "a", " give you"),
    "capital letters": ("Who? ", "A ", ""), "growing letters": ("", "İß", ""), "low lines": ("", "_", ""),
    "letter and low lines": ("a", "_", ""), "low lines between": ("", "a_", ""), "katakana": ("", "カ_", ""),
    "hyphens": ("A", "-", ""), "question marks": ("", "?", ""), "equals": ("", "=", ""), "ampersands": ("", "&", ""),
    "at signs": ("", "@", ""), "spaces": ("x", " ", "x"), "only spaces": ("", " ", ""),
    "line feeds": ("yes", "\n", "x"), "returns": ("", "\r", "x"), "line breaks": ("", "\r\n", "x"),
    "any line breaks": ("", "\r\n\x85\u2028", ""), "white space": ("", " \t\n", ""), "surrogates": ("", "\ud800", ""),
    "surrogate lines": ("", "\ud800\n", ""), "control characters": ("", "\x00\x1b[31m", ""), "nulls": ("", "\x00a", ""),
    "accents": ("e", "\u0301", ""), "accents on low lines": ("", "_\u0301", ""), "emoji": ("", "\U0001f44d\u200d", ""),
    "flags": ("", "\U0001f1eb", ""),
    # Digits and amounts
    "digits": ("", "7", ""), "an amount of digits": ("$", "1", "x"), "digits and dollars": ("for ", "1", " dollar"),
    "groups of digits": ("$1", ",111", "."), "numbers with commas": ("", "1,", ""), "fraction": ("0.", "1", ""),
    "decimals": ("pay 1.", "0", ".5"), "points": ("$", "1.", ""), "dollars": ("", "$1", ""), "prices": ("", "$1 ", ""),
    "amounts": ("", "not for 70, ", ""), "years": ("when ", "1999 ", ""), "digits of a document": ("Doc ", "1", ""),
    # Brackets, quotation marks, JSON
    "open brackets": ("", "[", ""), "closed brackets": ("", "[", "]"), "brackets": ("", "[a]", ""),
    "pairs": ("", "[],", ""), "parentheses": ("", "()", ""), "open parentheses": ("", "(", ""),
    "braces": ("", "{", "}"), "objects": ("", "{}", ""), "nested objects": ("", '{"a":', ""),
    "brackets and quotes": ("", '[{"', ""), "lists and quotes": ("", '[["', ""), "quotation marks": ("", '"', ""),
    "escaped quotation marks": ("", '\\"', ""), "backslashes": ('"', "\\", '"'), "only backslashes": ("", "\\", ""),
    "backslashes in an object": ('{"a": "', "\\", '"'), "escapes": ('"', "\\u0000", '"'),
    "borders of texts": ("", '","', ""), "escaped borders": ("", '\\"  ,', ""), "percents": ("", "%25", ""),
    "percent and digits": ("", "%73", ""), "letters of a page": ("", "&#115;", ""), "half keys": ("", "sk-12345", "6"),
    "escaped keys": ("", "\\u0073k-123456", ""),
    "surrogate escapes": ('"', "\\ud800", ""), "apostrophes": ("", "'", "s"), "genitives": ("", "'s", ""),
    "quotes": ("", "\"א'", ""), "quote after accents": ("א", "\u0301", '"'), "fences": ("", "```json\n", ""),
    "fence and spaces": ("```json", " ", "x"), "fence and line feeds": ("```\n", "\n ", "x"),
    # Tags
    "angles": ("", "<", ""), "angles and an end": ("", "<", ">"), "angles and spaces": ("", "< ", ""),
    "tag of spaces": ("<", " ", ">"), "tag and spaces": ("<p", " ", "x"), "end tag of spaces": ("</", " ", ""),
    "slash and spaces": ("<", " ", "/ "), "half tags": ("", "<action", ""), "special tokens": ("", "<|", ""),
    "open actions": ("", "<action>", ""), "closed actions": ("", "</action>", ""),
    "empty actions": ("", "<action></action>", ""), "one long action": ("<action>", "x", "</action>"),
    "one blank action": ("<action>", " ", "</action>"), "unclosed action": ("<action>", "up ", ""),
    "tags of any case": ("", "<AcTiOn></aCtIoN>", ""), "open thoughts": ("", "<think>", ""),
    "closed thoughts": ("", "</think>", ""), "empty thoughts": ("", "<think></think>", ""),
    "crossed tags": ("", "<think><action></think></action>", ""),
    "crossed answers": ("", "<think><answer></think>", "</answer>"), "open searches": ("", "<search>", ""),
    "open searches and an answer": ("", "<search>", "</answer>"), "closed searches": ("", "</search>", ""),
    "open answers": ("", "<answer>", ""), "answers": ("", "<answer>a</answer>", ""),
    "answers and searches": ("", "<answer><search>", ""), "answers before an end": ("</search>", "<answer>x", ""),
    "information": ("", "<information>", ""), "viewers": ("", '<p viewer="a">', ""),
    "separators": ("", "<|answer_split|>", ""),
    # Sentences
    "names": ("Is it ", "The King of or ", ""), "genitive names": ("", "Kim's ", ""), "articles": ("", "a an the ", ""),
    "sentences": ("<information>", ". A", ""), "refusals": ("", "no. I cannot; deal? ", ""), "no": ("", "no. ", ""),
    "denials": ("", "I cannot; ", "deal"), "agreements": ("", "works aa bb ", "deal?"),
    "claims": ("I ", "can ", "take all"), "shares": ("", "you get 2 books, for me ", ""),
    "many books": ("I take ", "9", " books"), "all books": ("I take all", " ", "of the"), "counts": ("", "1 book ", ""),
    "worths": ("", "the book is ", "1 point"), "attributes": ("Kim: a: ", "  b", ": "),
    "documents": ("<information>", "Doc 1(Title: ", ""), "questions": ("", "Question: ", ""),
    "title of quotation marks": ("<information>Doc 1(Title: ", '"', ""),
    # A shop
    "words": ("", "wool socks ", ""), "different words": ("", "w№ ", ""), "dots": ("", "a.", ""),
    "commas and colons": ("", ", and a: ", ""), "with": ("", " with", ""),
    "asking": ("", ", and price lower than ", ""), "wishes": ("", ", and price lower than 1", ""),
    "price": ("", "price lower than 1", ""), "lines of buttons": ("", "[button] \n", ""),
    "pieces of a page": ("", " [SEP] b1", ""),
    # A household
    "commands": ("", "put a mug in/on ", "drawer"), "mugs": ("", "mug 1", ""), "from": ("", " from ", ""),
    "to": ("", " to ", ""), "in or on": ("", " in/on ", ""), "going": ("", "go to ", ""), "a thing": ("", "a pen", ""),
    "numbered things": ("", "a pen 1", ""), "list": ("You see ", "a mug 1, ", "and a mug 2."),
    "seen on": ("", "On the a 1, you see ", ""), "opened": ("", "The a 1 is open. In it, you see ", ""),
    "seen": ("", "On the desk 1, you see a pen 1, ", ""), "picked up": ("", "You pick up the a 1 from the ", ""),
    "half picked up": ("", "You pick up the aaa", ""), "put down": ("", "You put the a 1 in/on the ", ""),
    "cleaned": ("", "You clean the ", ""), "tasks": ("", "Your task is to: ", ""), "blank and dot": ("", " .", ""),
    "looking": ("", "Looking quickly around you, you see ", ""), "putting": ("", "put a ", ""), "a a": ("", "a a ", ""),
    # Files of a household
    "parenthesis and spaces": ("(", " ", ""), "facts that do not end": ("", "(a b ", ""), "one name": ("(", "a", ""),
    "open facts": ("", "( a", ""), "spaces in a fact": ("(a b", " ", "c"),
    "one fact": ("", "(objectType Mug_bar_1 MugType)\n", ""),
    "objects of a type": ("", "(objectType Mug_bar_№ MugType)\n", ""),
    "places": ("", "(inReceptacle Mug_bar_1 Drawer_bar_№)", ""), "types": ("", "(canContain X№Type MugType)", ""),
    "locations": ("", "(objectAtLocation Mug_bar_1 loc_bar_№)", ""), "goals": ("", "(:goal", ""),
    "a word of a type": ("", "type", ""), "quoted tasks": ("", '"Your task is to: ', ""),
    "escaped tasks": ("", '\\"Your task is to: ', ""), "tasks and backslashes": ("", '"Your task is to: \\', ""),
    "tasks over lines": ("", '"Your task is to: \\\n', ""), "placeholders": ("", "You open the {r.name}", ""),
    "templates": ("", 'template :: "', ""), "variables": ("", "(objectType ?o ", ""),
    "variables of a type": ("", "(objectType ?o xtype", ""), "open variables": ("", "(objecttype ?o (", ""),
    "types of variables": ("", "?o typetype", ""), "equal variables": ("", "(= ?", ""),
    # Boards
    "walls": ("", "#", ""), "rows": ("", "#####\n", ""), "rows of one": ("", "#\n", ""), "boards": ("", "#@$.", ""),
    "board": ("#", "@$.# ", "#"), "blank lines and a board": ("", "\n", "#####\n#@$.#\n#####"),
    "board and blank lines": ("#####\n#@$.#\n#####", "\n", ""), "check marks": ("", "√", "\n?"),
    "walls and blank lines": ("", "#\n\n", ""), "spaces and a wall": ("", " ", "#"), "signs": ("", "-_\t", "#\n"),
    "unknown signs": ("", "\ufffd#", ""), "levels": ("", "; №\n#####\n#@$.#\n#####\n\n", ""),
    # Logs of other programs
    "acts": ("", "Act 1: \n", ""), "acts and texts": ("", "Act 1: go\nObs 1: ok\n", ""), "orders": ("", ">\n", ""),
    "numbered environments": ("", "Environment #1:\n", ""), "names of games": ("", "a-b-c-d-1/trial_a\n", ""),
    "hyphens between words": ("", "a-", "1/trial_a"), "observations now": ("", "current observation is: ", ""),
    "steps taken": ("", "already taken 1 ", ""),
    # Commands, addresses and credentials
    "right": ("", "right", ""), "right and spaces": ("", " right ", ""), "URLs": ("", "http://a:b@c/?key=1 ", ""),
    "schemes": ("", "://", ""), "hosts": ("", "://a", ""), "nobody's hosts": ("", "://@", ""), "users": ("", "a@", ""),
    "keys": ("", "key=", ""), "keys and values": ("", "key=a&", ""), "API keys": ("", "api_key:", ""),
    "API keys and equals": ("", "api_key=", ""), "API keys and spaces": ("", "api_key   ", ""),
    "bearers": ("", "bearer ", ""), "bearers of a": ("", "Bearer a", ""), "basic": ("", "Basic  ", ""),
    "passwords": ("", "password: '", ""), "addresses": ("", "http://", ""),
}  # fmt: skip


def text_of(family: Family, length: int) -> str:
    """Return a text of a family, of about so many characters."""
    begin, unit, end = family
    if "№" in unit:
        return begin + "".join(unit.replace("№", str(i)) for i in range(length // (len(unit) + 2))) + end
    return begin + unit * (length // max(len(unit), 1)) + end
