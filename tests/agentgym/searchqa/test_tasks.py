"""Files of passages and questions, which of them are tasks, how replies are read, passages shown, answers scored."""

import gzip
import json
import lzma
import math
import pickle
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.outside.text import DataError
from agentgym.searchqa import scoring
from agentgym.searchqa.env import SearchQAEnv
from agentgym.searchqa.official import SOURCES, PassageReader, check_passages, read_passages, read_questions
from agentgym.searchqa.protocol import INVALID, Command, Format, Turns, escape_tags, parse, searchr1_prompt
from agentgym.searchqa.question import Question, check_questions, is_answerable
from agentgym.searchqa.retriever import Passage, SearchFailure
from agentgym.searchqa.scoring import Evidence, FormatReward, StepReward
from agentgym.searchqa.tasks import Questions
from tests.agentgym.searchqa.support import COUNTRY, LOOSE, PASSAGES, QUESTIONS, WHERE, Gives, Titles, write_corpus
from tests.cases import cases
from tests.oracles import oracle
from tests.playing import begun
from tests.refusals import refuses

ROWS = b"""{"id": "a", "contents": "\\"Caf\\u00e9\\"\\nCoffee."}

{"id": 7, "contents": "No text", "source": "x"}
"""
TWO = (Passage("a", '"Café"\nCoffee.'), Passage("7", "No text"))


@pytest.mark.parametrize(("name", "pack"), [("c.jsonl", bytes), ("c.jsonl.xz", lzma.compress), ("c.gz", gzip.compress)])
def test_rows_of_all_formats_are_read_in_order(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(ROWS))
    assert read_passages(path) == TWO
    assert [(each.title, each.text) for each in TWO] == [('"Café"', "Coffee."), ("No text", "")]
    reader = PassageReader(path, start=1)
    assert (tuple(reader), reader.fraction) == (TWO[1:], 1.0)


def test_passages_and_questions_have_one_id_each_and_are_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "1", "contents": "A"}\n{"id": 1, "contents": "B"}\n', encoding="utf-8")
    refuses(DataError, "lines 1 and 2 have the same id '1'", read_passages, path)
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "\\udfff", "contents": "T\\n\\ud800 \\u001b[2J \\u0000"}\n')
    assert read_passages(path) == (Passage("\ufffd", "T\n\ufffd \ufffd[2J \ufffd"),)
    with open(path, "ab") as stream:
        stream.write(b'\n{"id": "\\udffe", "contents": "B"}\n')  # the same id once it is clean
    refuses(DataError, "lines 1 and 3 have the same id", read_passages, path)
    assert check_passages([Passage("\ud800", "a\udfff")]) == (Passage("\ufffd", "a\ufffd"),)
    for wrong in (Passage("1", 2), Passage(None, "x"), "text", ("1", "x")):  # type: ignore[arg-type]
        refuses(DataError, r"passage 0 \(from 0\) must be a Passage of two texts", check_passages, [wrong])
    row = '{"id": "\\ud800", "question": "Who \\udfff\\u0007?", "golden_answers": ["\\ud801"], "type": "\\u0000"}'
    (tmp_path / "q.jsonl").write_text(row)
    expected = Question("\ufffd", "Who \ufffd\ufffd?", ("\ufffd",), "questions", "test", (), "\ufffd")
    assert read_questions(tmp_path / "q.jsonl") == (expected,)
    given = Question("\ud800", "Who \udfff\x07?", ("\ud801",), "questions", "test", (), "\x00")
    assert check_questions([given]) == (expected,)
    refuses(DataError, r"question 0 .* expected texts", check_questions, [Question(3, "Who?", ("x",), "s", "test")])

    for golds in ("Rome", (), ("the", "?"), (3,)):  # it needs a golden answer
        refuses(DataError, r"question 0 \(from 0\)", check_questions, [Question("q", "Where?", golds, "s", "test")])


FLASHRAG = {"id": "dev_0", "question": "Who?", "golden_answers": ["Ada", "The"], "metadata": {"x": 1}}
VERL = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer the given question. Question: For example? Question: Where?\n"}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ulm"]}},
    "extra_info": {"split": "train", "index": 3},
}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rows_of_all_formats_and_ids_of_several_sources(tmp_path) -> None:
    (tmp_path / "dev.jsonl.xz").write_bytes(lzma.compress(json.dumps(FLASHRAG).encode()))
    assert read_questions(tmp_path / "dev.jsonl.xz") == (Question("dev_0", "Who?", ("Ada",), "questions", "dev"),)
    assert read_questions(write(tmp_path / "any.jsonl", VERL)) == (Question("3", "Where?", ("Ulm",), "nq", "train"),)
    path = tmp_path / "q.jsonl"
    row = {
        "id": 5, "data_source": "hotpotqa", "split": "eval", "question": " Both? ",
        "golden_answers": "a b<|answer_split|>c", "supporting_ids": ["7", 8], "type": "bridge", "level": None,
    }  # fmt: skip
    expected = Question("5", "Both?", ("a b", "c"), "hotpotqa", "eval", ("7", "8"), "bridge")
    assert read_questions(write(path, row)) == (expected,)
    rows = [{**VERL, "data_source": source} for source in ("nq", "popqa")]
    assert [each.id for each in read_questions(write(path, *rows))] == ["nq/3", "popqa/3"]
    rows = [{**VERL, "extra_info": {"split": split, "index": 3}} for split in ("train", "test")]
    assert [each.id for each in read_questions(write(path, *rows))] == ["train/nq/3", "test/nq/3"]
    rows = [{**FLASHRAG, "golden_answers": ["The", "?"]}, {**FLASHRAG, "id": "2"}]
    assert [question.id for question in read_questions(write(path, *rows))] == ["2"]
    refuses(DataError, "no row that is a question", read_questions, write(path, rows[0]))


@pytest.mark.parametrize("what", ["long text", "many rows", "many answers"])
def test_parquet_is_read_like_json_and_unpacked_up_to_a_limit(tmp_path, what):
    """Each takes less than 100 kB, and gigabytes of memory when it is unpacked."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist([VERL]), tmp_path / "train.parquet")
    assert read_questions(tmp_path / "train.parquet") == (Question("3", "Where?", ("Ulm",), "nq", "train"),)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not")
    refuses(DataError, "expected a Parquet file", read_questions, tmp_path / "bad.parquet")
    if what == "many answers":
        lists = arrow.ListArray.from_arrays(arrow.array([0, 9_000_000], arrow.int32()), arrow.nulls(9_000_000))
        table = arrow.table({"question": ["Where?"], "golden_answers": lists})
    else:
        count, text = (9_000_000, "Where?") if what == "many rows" else (20_000, "Where? " * 10_000)
        alike = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(count, np.int32)), arrow.array([text]))
        answers = arrow.DictionaryArray.from_arrays(alike.indices, arrow.array(["Ulm"]))
        table = arrow.table({"question": alike, "golden_answers": answers})
    parquet.write_table(table, tmp_path / "x.parquet", store_schema=False)
    refuses(DataError, r"x\.parquet: unpacks to more than 67,108,864 bytes", read_questions, tmp_path / "x.parquet")


@cases(
    "read, row, words",
    (read_passages, b"{", "not JSON"), (read_questions, b'{"id": 1', "not JSON"),
    (read_passages, b"\xff\xfe", "not UTF-8"), (read_questions, b'{"question": "\xff"}', "not UTF-8"),
    (read_passages, {"id": "i" * 1001}, "field 'id' has 1,001 characters, at most 1,000"),
    (read_passages, {"id": "b", "contents": "x" * 1_000_001}, "field 'contents' has 1,000,001 characters"),
    (read_passages, b'["a", "b"]', "expected an object with 'id' and 'contents', got list"),
    (read_questions, b"[1]", "expected an object, got list"),
    (read_passages, b'{"contents": "x"}', "no field 'id'; the row has \\['contents'\\]"),
    (read_passages, {"id": True}, "field 'id' must be a string or an integer, got True"),
    (read_passages, {"id": "b", "contents": " \n"}, "field 'contents' is blank"),
    (read_questions, {"question": " "}, "no question; expected a text in 'question'"),
    (read_questions, {"golden_answers": None}, "field 'golden_answers' must be a list of texts, got None"),
    (read_questions, {"golden_answers": [["x"]]}, "field 'golden_answers' must be a list of texts"),
    (read_questions, {"golden_answers": [True]}, "field 'golden_answers' must be a list of texts"),
    *((read_questions, {"id": name}, "field 'id' must be a text") for name in ([1], 1.5, True)),
    *((read_questions, {named: {"a": 1}}, f"field '{named}' must be")
      for named in ("supporting_ids", "data_source", "split")),
    (read_questions, {"question": "x" * 100_001}, "field 'question' has 100,001 characters"),
    (read_questions, {"golden_answers": ["x" * 100_001]}, "field 'golden_answers' has 100,001"),
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)  # fmt: skip
def test_a_bad_row_is_named_by_file_line_and_field(tmp_path, read, row, words):
    path, good = tmp_path / "q.jsonl", {**FLASHRAG, "contents": "A"}
    bad = row if isinstance(row, bytes) else json.dumps({**good, **row}).encode()
    path.write_bytes(json.dumps(good).encode() + b"\n\n" + bad + b"\n")
    refuses(DataError, f"{re.escape(str(path))}, line 3: {words}", read, path)


@pytest.mark.parametrize("read", [read_passages, read_questions])
def test_files_that_cannot_be_read_and_equal_ids_are_named(tmp_path, read) -> None:
    refuses(DataError, "cannot be read.*No such file", read, tmp_path / "none.jsonl")
    refuses(DataError, "cannot be read.*Is a directory", read, tmp_path)
    row = json.dumps({**VERL, "id": "a", "contents": "A"}).encode() + b"\n"
    for name, content, words in (
        ("short.xz", lzma.compress(row * 99)[:-20], "cannot be read"),
        ("large.gz", gzip.compress(row + b" " * 80_000_000), r"large\.gz cannot be read.*unpacks to more than"),
        ("empty.jsonl", b"\n", "holds no passages|no row that is a question"),
        ("same.jsonl", b"\n" + row + b"\n" + row, r"same\.jsonl[,:] lines 2 and 4(: the id '| have the same id 'a')"),
    ):
        (tmp_path / name).write_bytes(content)
        refuses(DataError, words, read, tmp_path / name)


def test_all_questions_of_all_sources_are_read():
    questions = read_questions(oracle("searchqa", "questions.jsonl.xz"))
    assert len(questions) == 8881
    assert sum(bool(question.supports) for question in questions) == 3455
    counts = Counter(question.source for question in questions)
    assert set(counts) == set(SOURCES)
    assert [counts[source] for source in SOURCES] == [2970, 633, 624, 2072, 1324, 1133, 125]


@pytest.mark.slow
def test_episodes_over_the_given_corpus():
    corpus, questions = (oracle("searchqa", f"{name}.jsonl.xz") for name in ("corpus", "questions"))
    env = SearchQAEnv(corpus=corpus, questions=questions, retriever="lexical", top_k=3, split="train", expert=True)
    task = "hotpot-5a84690c5542992ef85e23ea"
    observation, info = env.reset(options={"split": "train", "task_id": task})
    assert observation.startswith("Amazon Prime Air is a cargo airline")
    commands = []
    while info["expert_action"]:
        commands.append(info["expert_action"])
        info = env.step(commands[-1])[-1]
    assert info["won"]
    assert info["support_recall"] == 1.0
    assert commands[-1] == "<answer> Airborne Express </answer>"
    easy = SearchQAEnv(corpus=corpus, questions=questions, answerable=True)
    assert 4700 < len(easy.questions.all) < 4850  # 3,455 by their passages, the others by what BM25 finds


def test_tasks_are_counted_within_sources_and_questions_of_a_file_are_read_again(tmp_path):
    questions = Questions(QUESTIONS, "mine")
    tasks = questions.narrowed()
    assert (tasks.splits, tasks.count("train")) == (("test", "train"), 2)
    assert list(tasks.ids("train")) == ["where", "country"]
    assert tasks.by_index("train", 1) is COUNTRY
    some = questions.narrowed(("two_hop",))
    assert (some.count("train"), some.count("test"), some.by_index("train", 0)) == (1, 0, COUNTRY)
    assert some.by_id("where", None) is WHERE  # ids are those of all questions
    assert some.by_id("loose", "test") is LOOSE
    with pytest.raises(IndexError):
        some.by_index("train", 1)
    assert questions.narrowed(("two_hop",)) is some
    path = write(tmp_path / "dev.jsonl", FLASHRAG)
    env = SearchQAEnv(corpus=write_corpus(tmp_path / "c.jsonl", PASSAGES), questions=path)
    data = pickle.dumps(env.questions)
    assert b"Who?" not in data
    assert pickle.loads(data).all == read_questions(path)
    assert pickle.loads(pickle.dumps(env)).reset(seed=0)[0] == "Who?"


@pytest.mark.parametrize("module", [pickle, cloudpickle])
def test_an_environment_goes_to_another_process_as_a_recipe(module):
    env = begun(gym.make("AgentRL/SearchQA-v0", expert=True), seed=1)
    data = module.dumps(env)
    assert len(data) < 2_000_000  # passages, but not the 32,000 questions and no index
    one, other = module.loads(data), module.loads(data)
    assert one.step("<search>founded town</search>") == env.step("<search>founded town</search>")
    assert one.unwrapped.retriever is other.unwrapped.retriever


def test_answerable_by_support_or_by_a_gold_that_is_found() -> None:
    asked = [Question("supported", "zzz", ("anything",), "s", "test", supports=("ada",))]
    for text, *golds in (
        ("ada", "port ulm!"), ("ada", "Zell"), ("ada", "Ada Be"), ("ada", "no"),  # absent, part of a word, closed
        ("kingdom", "pound", "Crown"),
    ):  # fmt: skip
        asked.append(Question(f"{text} {golds}", text, tuple(golds), "s", "test"))
    assert is_answerable(asked, Titles(PASSAGES)) == [True, True, False, False, False, True]
    assert is_answerable([], Titles()) == []
    broken = Gives([SearchFailure("down")])
    refuses(RuntimeError, "down", is_answerable, [Question("1", "x", ("y",), "s", "test")], broken)


NOTHING = Command("", "", False)


@cases(
    "reply, expected",
    ("<search>Ada</search>", Command("search", "Ada", True)), ("<answer>Ulm</answer>", Command("answer", "Ulm", True)),
    ("<answer>a</answer><search>b</search>", Command("search", "b", False)),  # search wins, invalid but played
    ("<answer>a</answer><answer>b</answer>", Command("answer", "a", False)),
    ("<search>a</search><search>b</search>", Command("search", "a", False)),
    ("<search>a</search> or <answer>", Command("search", "a", False)),
    ("<SEARCH>a</SEARCH>", Command("search", "a", True)), ("<answer>a", NOTHING), ("no block", NOTHING),
)  # fmt: skip
def test_verl_agent_lets_search_win_and_marks_what_is_odd(reply, expected):
    assert parse(reply, "verl_agent") == expected


def published_searchr1(reply):
    """The two steps as they are described: cut, then the first block."""
    if "</search>" in reply:
        reply = reply.split("</search>")[0] + "</search>"
    elif "</answer>" in reply:
        reply = reply.split("</answer>")[0] + "</answer>"
    match = re.search(r"<(search|answer)>(.*?)</\1>", reply, re.DOTALL)
    return Command(match.group(1), match.group(2).strip(), True) if match else NOTHING


PARTS = st.lists(
    st.sampled_from(["<search>", "</search>", "<answer>", "</answer>", "<think>", "x", " ", "\n", "<", "Ada"]),
    max_size=9,
).map("".join)


@settings(derandomize=True, max_examples=500)
@given(PARTS)
def test_reading_equals_the_published_steps(reply):
    assert parse(reply, "searchr1") == published_searchr1(reply)


def test_turns_and_prompts_and_documents_that_are_shown_as_published_and_cut() -> None:
    assert [Turns(4, "extra").total, Turns(4, "counted").total, Turns(1, "extra").total] == [5, 4, 2]
    refuses(ValueError, "did you mean 'extra'", Turns, 4, "extr")
    assert Turns(0, "extra").total == Turns(1, "counted").total == 1  # nothing but the answer
    for number in (-1, 2.0, True, "4"):
        refuses(ValueError, "max_turns must be an integer of at least 0", Turns, number, "extra")
    refuses(ValueError, "max_turns must be an integer of at least 1, got 0", Turns, 0, "counted")
    prompt = searchr1_prompt(" who wrote Emma ")
    assert prompt.endswith("Question: who wrote Emma?\n")
    assert searchr1_prompt("Who?").endswith("Question: Who?\n")
    assert "For example, <answer> Beijing </answer>." in prompt
    assert len(INVALID) == len(INVALID.strip()) + 2
    words = 'Doc 1(Title: "Ada Bell") She wrote\nnotes.\nDoc 2(Title: Port Ulm) A town.'
    assert Format("searchr1").show([BELL, PORT]) == f"\n\n<information>{words}</information>\n\n"
    shown = Format("verl_agent").show([BELL, PORT])
    assert shown.startswith("<information>")
    assert shown.endswith("</information>")
    words = 'Doc 1: "Ada Bell"\nShe wrote\nnotes.\nDoc 2: Port Ulm\nA town.'
    assert json.loads(shown[len("<information>") : -len("</information>")]) == {"result": words}
    assert Format("searchr1").show([]) == "\n\n<information></information>\n\n"
    frame = len("\n\n<information></information>\n\n")
    shown = Format("searchr1", max_tokens=frame + 10, tokenizer=Letters()).show([BELL])
    assert shown == "\n\n<information>Doc 1(Titl</information>\n\n"
    cut = Format("searchr1", max_tokens=30, tokenizer=Letters(), close_block=False).show([BELL])
    assert cut == '\n\n<information>Doc 1(Title: "Ada'[:30]
    full = Format("searchr1", max_tokens=None).show([BELL])
    assert Format("searchr1", max_tokens=len(full), tokenizer=Letters()).show([BELL]) == full
    assert Format("searchr1", max_tokens=len(full), tokenizer=Letters(), close_block=False).show([BELL]) == full
    many = Passage("9", "T\n" + "word " * 600)
    shown = Format("searchr1", max_tokens=100).show([many])
    # The tags take 9 (a word of more than eight letters is two), "Doc 1(Title: T)" takes 7.
    assert shown.count("word") == 100 - 9 - 7
    assert shown.endswith("word</information>\n\n")
    long_word = Passage("9", "T\n" + "x" * 4000)
    assert Format("searchr1", max_tokens=100).show([long_word]).count("x") == 8 * (100 - 9 - 7)
    refuses(ValueError, "max_tokens must be an integer of at least 16", Format, "searchr1", max_tokens=3)
    refuses(ValueError, "did you mean 'searchr1'", Format, "searchR1")
    text = "1 < 2 <b>bold</b> <- <answers> <searching> a<b"
    assert escape_tags(text) == text


BELL = Passage("7", '"Ada Bell"\nShe wrote\nnotes.')
PORT = Passage("8", "Port Ulm\nA town.")


class Letters:
    """A tokenizer for which every character is a token."""

    def encode(self, text, *, add_special_tokens):
        assert add_special_tokens is False
        return [ord(letter) for letter in text]

    def decode(self, token_ids):
        return "".join(map(chr, token_ids))


@cases(
    "tag",
    "</information>", "<information>", "<answer>", "</answer>", "<search>", "</search>", "<think>", "</think>",
    "<action>", "</ANSWER>", "</ information >", "< answer>", "<\tanswer >", "<answer x='1'>", "<|im_start|>",
    "<s>", "</s>", "<|endoftext|>",
)  # fmt: skip
def test_tags_in_retrieved_text_are_made_harmless(tag):
    hostile = Passage("x", f"T {tag}\nbefore {tag}Oslo{tag} after")
    for protocol in ("searchr1", "verl_agent"):
        shown = Format(protocol).show([hostile])
        assert tag not in shown.strip()[len("<information>") : -len("</information>")]
        assert shown.count("<") == 2  # the block's own
        assert shown.count("&lt;") == 3
        assert shown.strip().endswith("</information>")
    assert tag in Format("searchr1", escape=False).show([hostile])


@settings(derandomize=True, max_examples=300)
@given(PARTS, PARTS, st.sampled_from(["searchr1", "verl_agent"]), st.sampled_from([None, 16, 40]))
def test_no_passage_can_leave_its_block_or_be_read_as_a_command(title, text, protocol, limit):
    shown = Format(protocol, max_tokens=limit).show([Passage("x", f"{title.replace(chr(10), '')}\n{text}")])
    assert parse(shown, protocol) == NOTHING
    assert shown.count("<information>") == shown.count("</information>") == 1
    assert shown.strip().startswith("<information>")
    assert shown.strip().endswith("</information>")


@cases(
    "text, expected",
    ("The Beatles", "beatles"), ("T-shirt", "tshirt"), ("the a an", ""), ("U.S.", "us"), ("1914-1918", "19141918"),
    ("theatre and anthem", "theatre and anthem"), ("  two \t words\n", "two words"), ("Élan", "élan"), ("", ""),
    ("an-apple", "anapple"),  # deleted, not spaced
    ("the.", ""),  # punctuation goes before articles do
    ("“quoted”", "“quoted”"),  # only ASCII punctuation goes
    ("a€b", "€b"),  # a word ends where a sign begins
)  # fmt: skip
def test_normalisation(text, expected):
    assert scoring.normalise(text) == expected


@cases(
    "score, answer, golds, expected",
    (scoring.exact_match, "Ada Lovelace", ["ada lovelace."], True),
    (scoring.exact_match, "Lovelace", ["Ada Lovelace", "The Lovelace"], True),
    (scoring.exact_match, "Ada", ["Ada Lovelace"], False), (scoring.exact_match, "The", ["A"], False),
    (scoring.exact_match, "", ["The"], False),  # a gold that is nothing matches nothing
    (scoring.sub_match, "It is Port Ulm, I think", ["Port Ulm"], True),
    (scoring.sub_match, "concatenate", ["cat"], True),  # character by character, as published
    (scoring.sub_match, "anything", ["The"], False), (scoring.sub_match, "anything", [], False),
    (scoring.f1, "dog", ["cat", "old dog"], pytest.approx(2 / 3)),  # the best gold
    (scoring.f1, "noanswer", ["no answer"], 0.0), (scoring.f1, "", ["The"], 0.0), (scoring.f1, "x", [], 0.0),
    (scoring.f1, "no way", ["no doubt"], pytest.approx(0.5)),  # neither is closed
)  # fmt: skip
def test_exact_sub_match_and_f1(score, answer, golds, expected):
    found = score(answer, golds)
    assert found == expected
    assert type(found) is (float if score is scoring.f1 else bool)


def naive_f1(answer: str, gold: str) -> float:
    given, wanted = scoring.normalise(answer), scoring.normalise(gold)
    if given != wanted and {given, wanted} & {"yes", "no", "noanswer"}:
        return 0.0
    left, shared = wanted.split(), 0
    for word in given.split():
        if word in left:
            left.remove(word)
            shared += 1
    if not shared:
        return 0.0
    precision, recall = shared / len(given.split()), shared / len(wanted.split())
    return 2 * precision * recall / (precision + recall)


WORDS = st.lists(st.sampled_from(["yes", "no", "ada", "the", "red", "dog,", "A"]), max_size=5).map(" ".join)


@settings(derandomize=True, max_examples=300)
@given(WORDS, WORDS)
def test_f1_equals_a_naive_one_and_is_symmetric(one, other):
    assert scoring.f1(one, [other]) == pytest.approx(naive_f1(one, other))
    assert scoring.f1(one, [other]) == pytest.approx(scoring.f1(other, [one]))
    if scoring.exact_match(one, [other]):
        assert (scoring.f1(one, [other]), scoring.sub_match(one, [other])) == (1.0, True)


T, S, I, A = "<think>t</think>", "<search>s</search>", "<information>i</information>", "<answer>x</answer>"  # noqa: E741


@cases(
    "transcript, expected",
    (T + A, True), (T + S + I + T + A, True), (f" {T}\n{S}\n\n{I}\n\n{T} {A}\n", True),
    (T + S + I + A, False),  # no thought before the answer
    (S + I + T + A, False), (T + S + T + A, False), (T + T + A, False), (T + A + T, False), (T + "well" + A, False),
    ("<think><search>x</search></think>" + A, False), ("", False),
)  # fmt: skip
def test_well_formed_transcripts(transcript, expected):
    assert scoring.is_well_formed(transcript) is expected


def test_the_format_reward_is_the_published_one_and_that_of_steps_is_worked_out_by_hand() -> None:
    reward = FormatReward()
    assert (reward(T + A, "x", ["x"]), reward(A, "x", ["x"]), reward(T + A, "x", ["b"])) == (1.0, 0.8, 0.2)
    assert (reward(A, "x", ["b"]), reward("", None, ["b"]), reward(T + S, None, ["b"])) == (0.1, 0.0, 0.0)
    found = T + "<search>s</search><information>It is B.</information>" + T + A
    assert FormatReward(retrieval=0.1)(found, "x", ["b"]) == pytest.approx(0.3)
    assert FormatReward(retrieval=0.1)(found, "x", ["c"]) == pytest.approx(0.2)
    assert scoring.countable(["A", "the", "-", "a b"]) == ("a b",)
    refuses(ValueError, "key must be a finite number, got nan", StepReward, key=math.nan)
    assert (round(FIRST, 4), round(SECOND, 4)) == (0.6936, 0.2364)
    assert scoring.matches(["ada ulm"], SUPPORTS) == pytest.approx([FIRST, SECOND])
    # The best of several found texts counts, for each support by itself; a letter alone is no word.
    assert scoring.matches(["ada ulm", "Ulm Zell town!"], SUPPORTS) == pytest.approx([FIRST, 1.0])
    assert scoring.matches(["x y z"], SUPPORTS) == scoring.matches([], SUPPORTS) == [0.0, 0.0]
    assert scoring.matches(["ada"], []) == []
    reward = StepReward()
    first, evidence = reward.search(Evidence(), "q1", ["ada ulm"], SUPPORTS)
    assert first == pytest.approx((FIRST + SECOND) / 2)  # nothing was known, nothing is repeated
    again, _ = reward.search(evidence, "q2", ["ada ulm"], SUPPORTS)
    assert again == -1.0  # no gain, and the one passage was there
    # One of two passages is new, and matches the second support wholly.
    mixed, after = reward.search(evidence, "q2", ["ada ulm", "Ulm Zell town"], SUPPORTS)
    assert mixed == pytest.approx((1 - SECOND) / 2 - 1 / 2)
    assert (after.matches, after.queries) == (pytest.approx((FIRST, 1.0)), ("q1", "q2"))
    # Twice in one search is no repetition of an earlier search; both repeat it in the next one.
    doubled, twice = reward.search(Evidence(), "q", ["zzz", "zzz"], SUPPORTS)
    assert doubled == 0.0
    assert reward.search(twice, "q", ["zzz", "zzz"], SUPPORTS)[0] == -1.0
    assert reward.search(evidence, "q", [], SUPPORTS)[0] == 0.0
    assert reward.search(evidence._replace(matches=()), "q", ["ada ulm"], [])[0] == 0.0
    found, _ = StepReward(gain=2.0, redundancy=0.0).search(Evidence(), "q", ["ada ulm"], SUPPORTS)
    assert found == pytest.approx(FIRST + SECOND)
    reward, keys = StepReward(), [("Ada Bell",), ("Port Ulm",)]
    asked = Evidence(queries=("Who is Ada Bell", "Port Ulm"))
    # F1 of "who is ada bell" and "ada bell": 2 * 2 / (4 + 2) = 2/3; the second is 1.
    assert scoring.key_match(asked.queries, keys) == pytest.approx((2 / 3 + 1) / 2)
    # F1 of the answer "Zell" to "Kingdom of Zell": 2 * 1 / (1 + 3) = 1/2.
    assert reward.end(asked, "Zell", ["Kingdom of Zell"], keys) == pytest.approx(1 / 2 + 0.618 * 5 / 6)
    assert reward.end(asked, None, ["Kingdom of Zell"], keys) == -1.0
    for queries, wanted in ((["nothing shared"], keys), ([], keys), (["Ada"], [])):
        assert scoring.key_match(queries, wanted) == 0.0
    assert scoring.key_match(["Ada Bell"], keys) == 0.5
    assert scoring.key_match(["Ada Bell", "about Ada Bell"], keys) == pytest.approx(0.8 / 2)


SUPPORTS = ["Ada, born: Ulm.", "Ulm Zell town"]
# Three texts, "ada ulm" and the supports. idf = 1 + ln(4 / (1 + df)): ulm is in 3 of them, 1; ada in 2, 1 + ln(4/3);
# born, zell and town in 1, 1 + ln 2.
ADA, ONCE = 1 + math.log(4 / 3), 1 + math.log(2)
FOUND = math.sqrt(ADA**2 + 1)
FIRST = (ADA**2 + 1) / (FOUND * math.sqrt(ADA**2 + ONCE**2 + 1))
SECOND = 1 / (FOUND * math.sqrt(1 + 2 * ONCE**2))


def test_matches_are_those_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    words, rng = ["ada", "bell", "port", "ulm", "zell", "town", "king", "42", "of", "x"], np.random.default_rng(0)
    for _ in range(20):
        found, *supports = [" ".join(rng.choice(words, 6)) for _ in range(4)]
        vectors = text.TfidfVectorizer().fit_transform([found, *supports]).toarray()
        assert scoring.matches([found], supports) == pytest.approx((vectors[1:] @ vectors[0]).tolist())


def test_an_episode_pays_it_step_by_step():
    env = SearchQAEnv(questions=QUESTIONS, retriever=Titles(), reward="stepsearch")
    env.reset(options={"task_id": "country"})
    key = env.step("<search>bell ada</search>")[-1]["state_key"]
    env.reset(options={"task_id": "country"})
    texts = [passage.text for passage in PASSAGES]
    _, reward, *_, info = env.step("<search>ada</search>")
    assert reward == pytest.approx(sum(scoring.matches(texts[:1], texts[:2])) / 2)
    assert info["state_key"] != key  # the reward to come is another one
    saved = env.snapshot()
    assert env.step("<search>bell</search>")[1] == pytest.approx(-1.0)
    assert env.step("hm")[1] == env.step("<search>broken</search>")[1] == 0.0
    # Queries: "ada" and "bell" share one word of "Ada Bell" each, F1 2/3; no query shares one with "Port Ulm".
    assert env.step("<answer>Kingdom of Zell</answer>")[1] == pytest.approx(1 + 0.618 * (2 / 3) / 2)
    env.restore(saved)
    for _ in range(3):
        env.step("hm")
    assert env.step("hm")[1] == -1.0
