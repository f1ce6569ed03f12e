import numpy as np

from policies.scripted import SILENT, ExpertPolicy, RandomPolicy, tagged
from tests.playing import objects
from tests.refusals import refuses


def test_random_and_expert_players() -> None:
    infos = {"admissible_actions": objects(*([("up", "down", "left")] * 3000), ("right",))}
    texts = [reply.text for reply in RandomPolicy().act(["b"] * 3001, infos, np.random.default_rng(0))]
    assert texts[-1] == "<action>right</action>"
    # 3000 draws of probability 1/3: mean 1000, standard deviation sqrt(3000 * 1/3 * 2/3) = 25.8; five of them = 129.
    for word in ("up", "down", "left"):
        assert abs(texts.count(tagged(word)) - 1000) < 129
    infos = {"admissible_actions": objects((), ("up", "down"), ())}
    first, second = (RandomPolicy().act(["b"] * 3, infos, np.random.default_rng(7)) for _ in range(2))
    assert first == second
    assert first[0].text == first[2].text == SILENT == "<action></action>"
    alone = RandomPolicy().act(["b"], {"admissible_actions": objects(("up", "down"))}, np.random.default_rng(7))
    assert first[1] == alone[0]
    replies = ExpertPolicy().act(["b", "b"], {"expert_action": objects("left", "")}, np.random.default_rng(0))
    assert [reply.text for reply in replies] == ["<action>left</action>", SILENT]
    for policy, words in ((ExpertPolicy(), "expert=True"), (RandomPolicy(), "admissible_actions")):
        refuses(KeyError, words, policy.act, ["b"], {"won": np.array([False])}, np.random.default_rng(0))
