import copy
import pickle
from collections import Counter
from collections.abc import Callable

import pytest

from agentgym.virtualhome.env import VirtualHomeEnv
from agentgym.virtualhome.generated.families import FAMILIES
from agentgym.virtualhome.player import VirtualHomePlayer, read_task
from tests.cases import cases


def test_every_sentence_is_understood() -> None:
    env = VirtualHomeEnv(data="generated")
    for index in range(4 * len(FAMILIES)):
        observation, info = env.reset(seed=0, options={"index": index})
        kind, things = read_task(observation)
        assert kind == info["task_type"]
        names = [name for each in things.values() for name in each]
        assert names
        assert all(name in env.episode.activity.lexicon.names.position for name in names)


@cases(
    "sentence, kind, things",
    ("Put a 1, b 2 and pan 3 on desk 1.", "place", {"things": ["a 1", "b 2", "pan 3"], "target": ["desk 1"]}),
    ("Switch fan 1 off, and plug fan 1 out.", "switch_off", {"devices": ["fan 1"], "plugs": ["fan 1"]}),
    ("Put on hat 1 and scarf 1.", "dress", {"clothes": ["hat 1", "scarf 1"]}),
    ("Do something else.", "", {}),
)  # fmt: skip
def test_sentences(sentence: str, kind: str, things: dict[str, list[str]]) -> None:
    assert read_task(f"Your task is to: {sentence}\n\nYou are in hall 1.") == (kind, things)


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_it_does_what_it_is_told(split: str) -> None:
    env, player, won = VirtualHomeEnv(data="generated"), VirtualHomePlayer(), Counter[str]()
    for index in range(68):
        text, info = env.reset(seed=0, options={"split": split, "index": index})
        for _ in range(40):
            if info["won"]:
                break
            command = player.act(text, info["admissible_actions"])
            assert command in info["admissible_actions"]
            text, *_, info = env.step(command)
        won[split] += info["won"]
    assert won[split] >= 66


def test_without_a_task_a_copy_or_a_plan_it_goes_on() -> None:
    player = VirtualHomePlayer()
    assert player.act("", ("wash mug 1",)) == "wash mug 1"
    assert player.act("You hold mug 1.", ()) == ""
    player, offered = VirtualHomePlayer(), ("a", "b", "c")
    # It goes through what is offered: b, c, a, b; and holds on to nothing that it was shown.
    assert [player.act("no task", offered) for _ in range(4)] == ["b", "c", "a", "b"]
    assert copy.deepcopy(player).act("no task", offered) == player.act("no task", offered) == "c"
    assert player.__getstate__() == ([], 5)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda player: pickle.loads(pickle.dumps(player))])
def test_a_copy_plays_on_as_the_player_does(again: Callable[[VirtualHomePlayer], VirtualHomePlayer]) -> None:
    env, player = VirtualHomeEnv(data="generated"), again(VirtualHomePlayer())
    for index in range(4):
        text, info = env.reset(seed=0, options={"index": index})
        while not info["won"]:
            copied, offered = again(player), info["admissible_actions"]
            command = player.act(text, offered)
            assert copied.act(text, offered) == command
            player = again(copied)
            text, _, _, _, info = env.step(command)
