"""Dialogues are measured whole, with offers in every turn."""

from agentgym.outside.dialogue import parse
from benchmarks.speed.sotopia_dialogues import (
    NUM_ENVS,
    TURNS,
    make_dialogues,
    play_dialogues,
    random_commands,
    record_commands,
)
from tests.refusals import refuses


def test_dialogues_are_measured() -> None:
    envs = make_dialogues()
    plan = record_commands(envs, 0)
    assert [len(commands) for commands in plan] == [NUM_ENVS] * (TURNS // 2)
    assert all(parse(command)[0].kind == "speak" for commands in plan for command in commands)
    assert play_dialogues(envs, plan, 0).value > 0
    singles = envs.unwrapped.envs
    assert {len(env.world.dialogue.turns) for env in singles} == {TURNS}
    assert all(None not in env.world.standing.offers for env in singles)
    refuses(RuntimeError, "not of 20", lambda: play_dialogues(envs, plan[:3], 0))
    said = [parse(command)[0].text for first in (0, NUM_ENVS) for step in random_commands(first) for command in step]
    assert len(said) == len(set(said)) == TURNS * NUM_ENVS
    assert all(len(text.split()) == 10 for text in said)
    words = [word for text in said for word in text.split()]
    assert len(set(words)) > 0.999 * len(words)
