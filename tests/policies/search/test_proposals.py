import numpy as np
import pytest

from policies.scripted import tagged
from policies.search.proposals import Listed


def objects(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def test_infos_without_commands_say_what_to_do() -> None:
    with pytest.raises(KeyError, match="leave the list out"):
        Listed().replies(["board"], {"won": np.array([False])})


def test_states_that_list_nothing_are_left_to_the_policy() -> None:
    replies, priors, tokens = Listed().replies(
        ["board"] * 2, {"admissible_actions": objects((), ("up", "down", "left"))}
    )
    assert (replies[0], priors[0]) == ([], [])
    assert (len(replies[1]), priors[1], tokens) == (3, [1 / 3] * 3, [0, 0])


def test_a_policys_probabilities_are_shared_among_the_listed_commands() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from policies.tiny import tiny_policy

    policy = tiny_policy(["a b", "c"], seed=0, extra_words=["up", "down", "left"], width=16, layers=1, heads=2)
    boards, infos = ["a b", "c", "a"], {"admissible_actions": objects(("up", "down"), ("left",), ())}
    replies, priors, tokens = Listed(policy).replies(boards, infos)
    assert [[reply.text for reply in each] for each in replies] == [
        [tagged("up"), tagged("down")], [tagged("left")], [],
    ]  # fmt: skip
    assert priors[1:] == [[1.0], []]
    first, second = (policy.score([reply.prompt_ids], [reply.token_ids]).logprobs.sum() for reply in replies[0])
    odds = torch.exp(first - second).item()
    assert priors[0] == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], rel=1e-5)
    assert tokens == [sum(len(reply.token_ids) for reply in each) for each in replies]
    assert all(reply.prompt_ids for each in replies for reply in each)
