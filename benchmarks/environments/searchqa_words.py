"""The vocabulary of Search-QA's tiny policy: which texts are one token, and which words it must know."""

from __future__ import annotations

#: Phrases that occur in every prompt are one token each; otherwise a word and the space before it are one.
PIECES: tuple[str, ...] = (
    r"At the start you saw:\n",
    r"\n\nYou did:",
    r"\n\nNow you see:\n",
    r"\n*<information>Doc 1\(Title: \"",
    r"\.?</information>\n*",
    r"\"\)",
    r" ?</?[a-z]+>",
    r";(?= )",
    r" ?[A-Za-z]+",
    r" ?(?:1[0-9]{3}|20[0-9]{2}|[89][0-9]{2})(?![0-9,])",
)

#: What is said in the prompts, apart from questions and passages.
_SAID = (
    "At the start you saw:\n\n\nYou did: <search> a </search>; <answer> a </answer>",
    '\n\nNow you see:\n\n\n<information>Doc 1(Title: "A") a.</information>\n\n',
    "<search>a</search><answer>a</answer>",
)


def encyclopaedia_words() -> list[str]:
    """Return texts that hold every word of the generated encyclopaedia and of its questions, and every year."""
    from agentgym.searchqa.generated.encyclopaedia import make_encyclopaedia
    from agentgym.searchqa.protocol import FAILED, INVALID

    made = make_encyclopaedia()
    questions = [question.text for question in made.questions if question.split == "train"]
    years = [f" {year} {year}" for year in range(820, 2016)]
    passages = [f"(Title: {passage.title}) {passage.title} {passage.text}" for passage in made.passages]
    return [*_SAID, INVALID, FAILED, *questions, *passages, *years]
