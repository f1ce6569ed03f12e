"""The expert: it knows which passages are needed and what the answer is."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentgym.searchqa.question import Question


def next_command(
    question: Question, titles: Mapping[str, str], retrieved: Collection[str], searches: int, *, can_search: bool
) -> str:
    """Return the next search for a supporting passage by its title, or the golden answer.

    Where no title is known it searches once for the question itself; after one search more than there are supporting
    passages it answers. Commands have spaces inside the tags, as in Search-R1's prompt.

    >>> question = Question("1", "Who wrote it?", ("Ada",), "one_hop", "test", ("7",))
    >>> next_command(question, {"7": "Notes"}, (), 0, can_search=True)
    '<search> Notes </search>'
    >>> next_command(question, {"7": "Notes"}, ("4", "7"), 1, can_search=True)
    '<answer> Ada </answer>'
    """
    plan = [titles[named] for named in question.supports if named not in retrieved and named in titles]
    if not plan and not searches:
        plan = [question.text]
    if can_search and plan and searches <= len(question.supports):
        return f"<search> {plan[0]} </search>"
    return f"<answer> {question.golds[0]} </answer>"
