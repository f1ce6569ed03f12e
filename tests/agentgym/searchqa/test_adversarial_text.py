"""Parsers of foreign text take time in proportion to its length, whatever stands in it."""

import json
import time

import pytest

from agentgym.foreign_text import ForeignError
from agentgym.searchqa.official.corpus import CorpusError, PassageReader
from agentgym.searchqa.official.questions import read_questions
from agentgym.searchqa.player import SearchQAPlayer, names_in
from agentgym.searchqa.protocol import Format, escape_tags, parse
from agentgym.searchqa.question import QuestionError
from agentgym.searchqa.retrieval.formats import read_answer, read_request
from agentgym.searchqa.retriever import Passage
from agentgym.searchqa.scoring import (
    FormatReward,
    exact_match,
    extract_answer,
    f1,
    is_well_formed,
    normalise,
    sub_match,
)
from tests.growth import growth

#: A beginning, and what is written again and again after it.
FAMILIES = {
    "one bracket and spaces": ("<", " "),
    "bracket, slash and spaces": ("</", " "),
    "brackets and spaces": ("", "< "),
    "brackets": ("", "<"),
    "opening search tags": ("", "<search>"),
    "opening answer tags": ("", "<answer>"),
    "closing search tags": ("", "</search>"),
    "both opening tags": ("", "<answer><search>"),
    "answers before an end": ("</search>", "<answer>x"),
    "information tags": ("", "<information>"),
    "closed blocks": ("", "<answer>a</answer>"),
    "think blocks": ("", "<think></think>"),
    "special tokens": ("", "<|"),
    "documents": ("<information>", "Doc 1(Title: "),
    "digits of a document": ("<information>Doc ", "1"),
    "quotation marks": ("<information>Doc 1(Title: ", '"'),
    "capital letters": ("Who? ", "A "),
    "names with of": ("Is it ", "The King of or "),
    "articles": ("", "a an the "),
    "sentences": ("<information>", ". A"),
    "years": ("when ", "1999 "),
    "spaces": ("x", " "),
    "line breaks": ("<information>", "\n"),
    "hyphens": ("A", "-"),
    "brackets of JSON": ("", "["),
    "escapes of JSON": ('"', "\\ud800"),
    "digits": ("", "7"),
    "separators": ("", "<|answer_split|>"),
    "questions": ("", "Question: "),
    "lone surrogates": ("", "\ud800"),
}
LIMITS = (None, 500)
#: Characters of the shorter text; the longer one has eight times as many, and may take less than twenty times as long.
SIZE, MOST_GROWTH = 5_000, 20


def read(observation: str) -> None:
    player = SearchQAPlayer()
    player.act(observation, ())
    player.act(f"<information>{observation}</information>", ())
    player.act(f"Was it {observation}, or Ada?", ())
    for _ in range(4):
        player.act(observation + "</information>", ())


def score(text: str) -> None:
    normalise(text)
    golds = (text, "Ada")
    for each in (exact_match, f1, sub_match):
        each(text + "!", golds)
    extract_answer(text)
    is_well_formed(text)
    FormatReward(retrieval=0.1)("<think>x</think><answer>y</answer>" + text, text, golds)
    FormatReward(retrieval=0.1)(text, "x", golds)


def show(text: str) -> None:
    for protocol in ("searchr1", "verl_agent"):
        for limit in LIMITS:
            Format(protocol, limit).show([Passage("1", text), Passage("2", f"T\n{text}")])


def failure_of(work, given, known) -> str:
    """What an error that may come says; "" without one."""
    try:
        work(given)
    except known as error:
        return str(error)
    return ""


def read_formats(text: str) -> None:
    for content in (text, {"queries": [text], "topk": text}, {"query": text, "return_scores": True}, {"result": text}):
        for reading in (lambda value: read_request(value, 3), lambda value: read_answer(value, 1, 3)):
            assert len(failure_of(reading, content, ForeignError)) < 1000
    read_answer({"result": [[{"document": {"id": text, "contents": text}, "score": text}, text]]}, 1, 3)


PARSERS = {
    "searchr1": lambda text: parse(text, "searchr1"),
    "verl_agent": lambda text: parse(text, "verl_agent"),
    "escape_tags": escape_tags,
    "show": show,
    "score": score,
    "names_in": names_in,
    "reader": read,
    "formats": read_formats,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("parser", PARSERS)
def test_time_grows_with_the_length_of_a_text(parser, family):
    first, again = FAMILIES[family]
    short, long = (first + again * (size // len(again)) for size in (SIZE, 8 * SIZE))
    assert growth(PARSERS[parser], short, long) < MOST_GROWTH


@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_with_the_length_of_a_row(family, tmp_path):
    first, again = FAMILIES[family]

    for size in (SIZE, 8 * SIZE):
        text = first + again * (size // len(again))
        row = {"id": "1", "contents": text, "question": text, "golden_answers": text, "prompt": [{"content": text}]}
        (tmp_path / str(size)).write_text(json.dumps(row) + "\n" + text, "utf-8", "surrogatepass")

    def load(size: int) -> None:
        for reader in (lambda path: list(PassageReader(path)), read_questions):
            assert len(failure_of(reader, tmp_path / str(size), (CorpusError, QuestionError))) < 1000

    assert growth(load, SIZE, 8 * SIZE) < MOST_GROWTH


def test_the_texts_that_were_slow():
    start = time.process_time()
    escape_tags("<" + " " * 200_000)
    parse("<search>" * 125_000, "searchr1")
    parse("<search>" * 125_000, "verl_agent")
    extract_answer("<answer>" * 125_000)
    names_in("A " * 100_000)
    assert time.process_time() - start < 5  # each took minutes
