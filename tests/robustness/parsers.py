"""Everything that reads text from outside, by name; `linear` tries each with every family of text."""

import contextlib
import itertools
import json
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym.alfworld.official.problem import read_game as read_problem
from agentgym.alfworld.player import ALFWorldPlayer, Beliefs, read_task
from agentgym.outside.chat.wire import read_answer
from agentgym.outside.dialogue import Turn, act_line, write
from agentgym.outside.dialogue import parse as parse_act
from agentgym.outside.redaction import redact
from agentgym.outside.text import clean, one_line, quote, read_json
from agentgym.registry import ROWS
from agentgym.searchqa import scoring
from agentgym.searchqa.official import PassageReader, read_questions
from agentgym.searchqa.player import SearchQAPlayer, names_in
from agentgym.searchqa.protocol import Format, escape_tags
from agentgym.searchqa.protocol import parse as parse_search
from agentgym.searchqa.retrieval.remote import read_answer as read_passages
from agentgym.searchqa.retrieval.remote import read_request
from agentgym.searchqa.retriever import Passage
from agentgym.sokoban.tasks import LevelFiles
from agentgym.sokoban.text import parse_level
from agentgym.sotopia.dialogue import Dialogue
from agentgym.sotopia.games.bargain import Bargain
from agentgym.sotopia.games.divide import Divide, Pool
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.phrases import read as read_phrases
from agentgym.sotopia.games.schedule import Calendar, Schedule
from agentgym.sotopia.judge import RulesJudge
from agentgym.sotopia.models import read_act, read_verdict
from agentgym.sotopia.official import read_game
from agentgym.sotopia.profiles import Relationship, Scenario, Task, render
from agentgym.virtualhome.commands import LineError, Words, parse_line
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.hindsight import split_id, with_chore
from agentgym.virtualhome.player import VirtualHomePlayer
from agentgym.virtualhome.player import read_task as read_chore
from agentgym.virtualhome.scene import Scene
from agentgym.virtualhome.text import failure
from agentgym.webshop.catalogue import read_tag
from agentgym.webshop.player import WebShopPlayer, keywords, mentioned, price_limit, wished_options
from agentgym.webshop.reward import _phrase, alike
from agentgym.webshop.reward import words as nouns
from agentgym.webshop.search.analyser import terms
from agentgym.webshop.search.bm25 import Bm25
from agentgym.webshop.search.bm25_build import build
from agentgym.webshop.search.search import documents
from agentgym.webshop.session import parse as parse_shop
from benchmarks.play.transcripts import read_log
from policies.engines.judge import read_scores
from policies.engines.step_lines import Story, StoryStep, step_lines
from tests.agentgym.alfworld.support import GOALS, PROBLEM, content, grammar, small_game
from tests.agentgym.outside.chat.chat_server import completion
from tests.agentgym.sotopia.support import ADA, BEN, first, say
from tests.agentgym.virtualhome.houses import EDGES, NODES, activity
from tests.agentgym.webshop.support import product, shop_of, visit
from wrappers import PromptStyle, SymbolPlanes
from wrappers.canonical import enriched_key
from wrappers.prompt import Episode
from wrappers.reply import parse_reply

Parser = Callable[[str], object]


def refusing(run: Parser) -> Parser:
    """Refusing a text is fine; it is the time that counts."""

    def parse(text: str) -> None:
        with contextlib.suppress(ValueError):
            run(text)

    return parse


def fresh(run: Parser) -> Parser:
    """Give each call a text that no cache knows."""
    numbers = itertools.count()
    return lambda text: run(f"{text}{next(numbers)}")


@cache
def made(env_id: str) -> Any:
    return gym.make(env_id, disable_env_checker=True)


def step(env_id: str, text: str) -> None:
    env = made(env_id)
    env.reset(seed=0)
    env.step(text)
    env.reset(seed=0)
    env.step(f"search[{text}]" if "Shop" in env_id else f"<search>{text}</search>")


# What models reply, judge, and are shown


@cache
def planes() -> SymbolPlanes:
    return SymbolPlanes(made("AgentRL/Sokoban-v0"))


def prompt(text: str) -> None:
    style = PromptStyle(instructions=False, max_chars=500, history=None, keep_first=True, admissible=True)
    episode = Episode(text, text)
    for _ in range(3):
        style.remember(episode, text, text)
    style.user_text(episode, [text], {"fact": text})


def telling(text: str) -> None:
    step = StoryStep(text, text, then=text)
    for most in (500, 100_000):
        step_lines(Story(text, (step, step), text), text_chars=most, task_chars=most, all_chars=3 * most)


def encoded(answer: object) -> None:
    json.dumps(answer, ensure_ascii=False).encode()


REPLIES: dict[str, Parser] = {
    "clean": lambda text: one_line(clean(text, len(text))),
    "JSON": refusing(read_json),
    "JSON of a text": refusing(lambda text: read_json(f'{{"a": "{text}"}}')),
    "redact": lambda text: redact(text, ["sk-123456", "key"]),
    "answer": refusing(lambda text: read_answer(read_json(text.encode("utf-8", "replace")))),
    "answer of a text": refusing(lambda text: read_answer(read_json(completion(text)))),
    "answer of choices": refusing(
        lambda text: read_answer(read_json(b'{"choices": ' + text.encode("utf-8", "replace")))
    ),
    "reply": lambda text: encoded(parse_reply(text)),
    "thought": lambda text: encoded(parse_reply(f"<think>{text}</think><action>{text[:60]}</action>")),
    "labels": lambda text: parse_reply(text, form="labels"),
    "action label": lambda text: parse_reply(f"Action{text}: up", form="labels"),
    "strict reply": lambda text: parse_reply(text, require_think=True, outside="error", ignore_case=False),
    "first action": lambda text: parse_reply(text, several="first", command_tags=("search", "answer")),
    "last action": lambda text: parse_reply(text, several="last", command_tags=("search", "answer")),
    "prompt": prompt,
    "key": lambda text: enriched_key("fact")(text, {"fact": text}),
    "scores": refusing(lambda text: read_scores(text, 3, -5, 5)),
    "scores of a text": refusing(lambda text: read_scores(f'{{"1": {text}, "2": "{text}"}}', 2, -5, 5)),
    "lines of steps": telling,
    "symbols": refusing(lambda text: planes().observation(text)),
}

# Sokoban


def level_file(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "levels.txt"
        path.write_text("; 0\n#####\n#@$.#\n#####\n\n" + text, "utf-8", "replace")
        files = LevelFiles(path)
        assert files.size
        files[len(files) - 1]


BOARDS: dict[str, Parser] = {
    "level": refusing(parse_level),
    "level within": refusing(lambda text: parse_level(f"{text}\n#####\n#@$.#\n#####\n{text}")),
    "level below": refusing(lambda text: parse_level("#" * len(text) + "\n" + text)),
    "level file": refusing(level_file),
}

# SearchQA


def researcher(text: str) -> None:
    player = SearchQAPlayer()
    player.act(text, ())
    player.act(f"<information>{text}</information>", ())
    player.act(f"Was it {text}, or Ada?", ())
    for _ in range(4):
        player.act(text + "</information>", ())


def score(text: str) -> None:
    golds, reward = (text, "Ada"), scoring.FormatReward(retrieval=0.1)
    for each in (scoring.exact_match, scoring.f1, scoring.sub_match):
        each(text + "!", golds)
    for read in (scoring.normalise, scoring.is_well_formed):
        read(text)
    reward("<think>x</think><answer>y</answer>" + text, text, golds)
    reward(text, "x", golds)


def show(text: str) -> None:
    for protocol, limit in itertools.product(("searchr1", "verl_agent"), (None, 500)):
        Format(protocol, limit).show([Passage("1", text), Passage("2", f"T\n{text}")])


def retrieval(text: str) -> None:
    for given in (text, {"queries": [text], "topk": text}, {"query": text, "return_scores": True}, {"result": text}):
        for read in (lambda value: read_request(value, 3), lambda value: read_passages(value, 1, 3)):
            short(read, given)
    read_passages({"result": [[{"document": {"id": text, "contents": text}, "score": text}, text]]}, 1, 3)


def row(text: str) -> None:
    fields = {"id": "1", "contents": text, "question": text, "golden_answers": text, "prompt": [{"content": text}]}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.jsonl"
        path.write_text(json.dumps(fields) + "\n" + text, "utf-8", "surrogatepass")
        short(lambda path: list(PassageReader(path)), path)
        short(read_questions, path)


def short(read: Callable[[Any], object], given: Any) -> None:
    """Read, or refuse in less than a thousand characters."""
    try:
        read(given)
    except ValueError as error:
        assert len(str(error)) < 1_000  # noqa: PT017


SEARCH: dict[str, Parser] = {
    "searchr1": lambda text: parse_search(text, "searchr1"),
    "verl_agent": lambda text: parse_search(text, "verl_agent"),
    "escape tags": escape_tags, "show": show, "score": score, "names in": names_in, "researcher": researcher,
    "retrieval": retrieval, "row": row,
}  # fmt: skip

# WebShop

SHOP = shop_of(product("B1", "Wool Socks", (("size", ("s", "m")),)), product("B2", "Hat"))
INDEX = Bm25(build(documents(SHOP.catalogue)))


def visitor(text: str) -> None:
    session = visit(SHOP)
    for command in (f"search[{text}]", f"click[{text}]", text):
        session.play(command)


def shopper(text: str) -> None:
    page = f"Instruction: [SEP] {text} [SEP] Back to Search [SEP] < Prev [SEP] {text}"
    player = WebShopPlayer()
    offered = [f"click[{piece}]" for piece in text.split(" ")]
    player.act(page, [*offered, "click[buy now]"])
    player.act(page, [*offered, "click[next >]"])


def same(text: str) -> None:
    _phrase.cache_clear()
    alike.cache_clear()
    alike(text, text[1:] + "b")
    alike(text, f"{text[: len(text) // 2]}q{text[len(text) // 2 :]}")


SHOPPING: dict[str, Parser] = {
    "shop": lambda text: (
        parse_shop(text), parse_shop(text, True), parse_shop(f"search[{text}]"), parse_shop(f"click[{text}]", True)
    ),
    "visitor": visitor,
    "terms": terms,
    "index": lambda text: INDEX.top(text, 50),
    "tag": refusing(read_tag),
    "alike": same,
    "nouns": nouns,
    "request": lambda text: (price_limit(text), wished_options(text), keywords(text)),
    "mentioned": lambda text: (mentioned(text, text.split(" ")), mentioned(text, ["red", "wool socks"])),
    "shopper": shopper,
}  # fmt: skip

# Sotopia

SALE = Bargain(100.0, (80.0, 90.0), ("buyer", "seller"))
SHARES = Divide(Pool((("book", "books"), ("hat", "hats")), (3, 2)), ((1, 2), (2, 1)))
FRIENDS = MutualFriend(
    (("town", ("Old York", "Ham")), ("job", ("tailor", "cook"))),
    ((Friend("Kim", ("Ham", "cook")), Friend("Lee", ("Ham", "tailor"))), (Friend("Kim", ("Ham", "cook")),)),
)
MEETING = Schedule(Calendar((("Monday", "noon"), ("Friday", "evening"))), ((0, 5), (5, 0)))


def scenario(source: str, text: str) -> Scenario:
    return Scenario("s", "s", source, text, (f"Sell. {text}", f"Buy as a buyer. {text}"), Relationship.stranger)


def judged(text: str) -> None:
    task = Task("t", scenario("ours", "x"), (ADA, BEN), SALE, 0)
    RulesJudge().score([Dialogue(task, [Turn(0, first(say(text))), Turn(1, first(say(text)))], "left")])


TALK: dict[str, Parser] = {
    name: refusing(fresh(run))
    for name, run in {
        "act": parse_act,
        "act in JSON": lambda text: parse_act(write(say(text))),
        "act in a fence": lambda text: parse_act(f"```json\n{write(say(text))}\n```"),
        "player's answer": lambda text: read_act(text, ("speak",)),
        "verdict": read_verdict,
        "verdict with reasons": lambda text: read_verdict(
            json.dumps({"evaluations": {"agent_1": {"goal": [text, 1]}}})
        ),
        "line": lambda text: act_line("Ada", say(text)),
        "quote": quote,
        "phrases": read_phrases,
        "bargain": lambda text: SALE.hear(0, text),
        "divide": lambda text: SHARES.hear(1, text),
        "friend": lambda text: FRIENDS.hear(0, text),
        "schedule": lambda text: MEETING.hear(0, text),
        "judge": judged,
        "markup": lambda text: render(text, "agent_0"),
        "official sale": lambda text: read_game(scenario("craigslist_bargains", text)),
        "official division": lambda text: read_game(scenario("deal-or-no-deal", text)),
        "official friends": lambda text: read_game(scenario("mutual_friends", text)),
    }.items()
}

# ALFWorld

ROOM = "Looking quickly around you, you see a desk 1, and a shelf 1.\n\nYour task is to: put a pen in desk."
VERBS = ("", "go to ", "take ", "move ", "clean ", "examine ", "use ", "slice ", "look ")


def explorer(form: str, text: str) -> None:
    text = form.replace("{}", text)
    player = ALFWorldPlayer()
    for observation in (ROOM, text, text, ROOM, text):
        assert player.act(observation, ("look", "go to desk 1")) in ("look", "go to desk 1")
    Beliefs(text, ()).update(text, ())
    assert len(read_task(text)) == 3


def problem(mark: str, text: str) -> None:
    """Read a game with the text after a mark of its problem."""
    found = PROBLEM.replace("GOAL", GOALS["look_at_obj_in_light"]).replace(mark, f"{mark} {text} ", 1)
    read_problem(content(pddl_problem=found), "task/trial")


def wording(form: str, text: str) -> None:
    read_problem(content(grammar=form.format(text=text, grammar=grammar())), "task/trial")


@cache
def household() -> Any:
    from tests.agentgym.alfworld.support import env_of

    rooms = [("cabinet", 0, True), ("shelf", 1, False), ("sinkbasin", 2, False)]
    things = [("desklamp", [1]), ("mug", [1]), ("mug", [2]), ("teddybear", [1])]
    env = env_of(small_game("pick_two_obj_and_place", ("mug", "cabinet"), rooms, things), repairs="all", expert=True)
    env.reset()
    return env


HOUSEHOLD: dict[str, Parser] = {
    **{
        f"explorer {number}": partial(explorer, form)
        for number, form in enumerate(
            ("{}", "{}x", ROOM + "{}", ROOM[:-1] + "{}x", "Your task is to: a{}b.", "Looking {}", "You see {}.")
        )
    },
    "problem": refusing(lambda text: read_problem(content(pddl_problem=text), "task/trial")),
    "facts": refusing(partial(problem, "(:init")),
    "start of a goal": refusing(partial(problem, "(:goal")),
    "goal": refusing(partial(problem, "(and")),
    **{
        f"wording {number}": refusing(partial(wording, form))
        for number, form in enumerate(
            ("{text}", "{text}.", "{text}{grammar}", "{text}.{grammar}", '{grammar}"{text}')
        )
    },
    **{f"command {verb or 'alone'}".strip(): lambda text, verb=verb: household().act(verb + text) for verb in VERBS},
}  # fmt: skip

# Logs of other programs, as `grade` reads them

PROMPT = "You have already taken {taken} step(s). Your current observation is:{now}{end} of the current situation are"
ADMISSIBLE = "Your admissible actions"


def log(form: str | None, write: Callable[[str], str], text: str) -> None:
    """Read a log, or refuse it in less than a thousand characters."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log"
        path.write_text(write(text), "utf-8", "surrogatepass")
        short(lambda path: read_log(path, form), path)


def rows(write: Callable[[int, str], object], text: str) -> str:
    """A line for each word."""
    return "\n".join(json.dumps(write(i, word)) for i, word in enumerate(text.split(" ")))


def prompted(now: str, output: str, taken: object = 0, end: str = ADMISSIBLE) -> dict[str, object]:
    return {"input": PROMPT.format(taken=taken, now=now, end=end), "output": output, "score": 0.0}


def told_row(text: str) -> str:
    words = text.split(" ")
    return json.dumps({"task": text, "actions": words, "observations": [text, *words], "won": True, "score": 0.5})


def played_row(i: int, word: str) -> dict[str, object]:
    kind = {"kind": "step", "action": word} if i else {"kind": "reset", "game": word}
    return {**kind, "observation": word, "done": False}


LOGS: dict[str, Parser] = {
    f"log, {name}": partial(log, form, write)
    for name, form, write in (
        ("format", None, str),
        ("lines", "lines", told_row),
        ("line", "lines", lambda text: told_row("a b") + "\n" + text),
        ("steps", "steps", partial(rows, played_row)),
        ("verl", "verl", lambda text: json.dumps(prompted(text, text))),
        ("verl, no end", "verl", lambda text: json.dumps(prompted(text, text, end=""))),
        ("verl, taken", "verl", lambda text: json.dumps(prompted("x", "y", taken=text))),
        ("verl, rows", "verl", partial(rows, lambda i, word: prompted(word, f"<action>{word}</action>", i))),
    )
}

CHORE = "Your task is to: Put mug 1 on desk 1.\n\nYou are in hall 1.\nNear you: mug 1 in box 1.\nYou hold nothing."

_SHOWN = ("{}", CHORE + "{}", "Your task is to: {}", "Your task is to: Put {} on {}.", "Near you: {}.", "You hold {}.")
_NAMED = ("{}", "wash:{}", "wash:mug_2,{}", "store:{}:fridge_1", "place:mug_1:{}")
_SAID = ("{}", "grab {}", "put {} on mug 1", "put mug 1 on {}", "pour {} into {}")


def chores(form: str, text: str) -> None:
    text = form.replace("{}", text)
    player = VirtualHomePlayer()
    for observation in (CHORE, text, text, CHORE, text):
        assert player.act(observation, ("wash mug 1", "stand up")) in ("wash mug 1", "stand up")
    assert len(read_chore(text)) == 2


@cache
def house() -> Words:
    return Words(Scene(NODES, EDGES))


def order(form: str, text: str) -> None:
    house().line(form.replace("{}", text))


def script(text: str) -> None:
    with contextlib.suppress(LineError):
        parse_line(text)


def why_not(text: str) -> None:
    failure([text, f"<{text}> (20)"], house().names, house().scene)


def named(form: str, text: str) -> None:
    name = form.replace("{}", text)
    assert "#".join(filter(None, split_id(f"train/wash/0#{name}"))) == f"train/wash/0#{name}"
    with contextlib.suppress(ValueError):
        with_chore(activity(Goal()), name)


HOUSE: dict[str, Callable[[str], object]] = {
    **{f"chores {number}": partial(chores, form) for number, form in enumerate(_SHOWN)},
    **{f"order {number}": partial(order, form) for number, form in enumerate(_SAID)},
    **{f"chore {number}": partial(named, form) for number, form in enumerate(_NAMED)},
    "script line": script,
    "why not": why_not,
}

PARSERS: dict[str, Parser] = {
    **REPLIES, **BOARDS, **SEARCH, **SHOPPING, **TALK, **HOUSEHOLD, **HOUSE, **LOGS,
    **{f"step of {row.id[8:]}": partial(step, row.id) for row in ROWS},
}  # fmt: skip
