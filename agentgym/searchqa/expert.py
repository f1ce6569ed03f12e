"""The expert, which knows the supporting passages and the answer."""

from collections.abc import Collection, Mapping

from agentgym.searchqa.question import Question


def next_command(
    question: Question, titles: Mapping[str, str], retrieved: Collection[str], searches: int, *, can_search: bool
) -> str:
    """Return the next search for a supporting passage by its title, or the golden answer.

    Without titles it searches once for the question. It searches at most once more than there are supporting passages.
    """
    plan = [titles[named] for named in question.supports if named not in retrieved and named in titles]
    if not plan and not searches:
        plan = [question.text]
    if can_search and plan and searches <= len(question.supports):
        return f"<search> {plan[0]} </search>"
    return f"<answer> {question.golds[0]} </answer>"
