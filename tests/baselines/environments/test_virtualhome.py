"""What the report of the learning benchmark shows of VirtualHome: the state graph of a group, in readable texts."""

import dataclasses

import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")

from agentgym.rollout import collect
from agentgym.trajectory import Reply
from baselines.environments.virtualhome import VIRTUALHOME
from baselines.runs.config import make_config
from baselines.runs.stack import ObservationLog, make_envs
from benchmarks.report.state_graph import build_graph
from policies.scripted import tagged

#: Its program: walk to novel 2, grab it, walk to glass 2, grab it, walk to nightstand 1, put both there.
TASK = "train/place/8"


class Scripts:
    """Plays a script in each sub-environment; told apart by the prompts, which are those of the commands before."""

    def __init__(self, *scripts):
        self._scripts = scripts
        self._step = 0

    def act(self, observations, infos, rng):
        running = [script for script in self._scripts if self._step < len(script)]
        assert len(running) == len(observations)  # who has no command left has won
        self._step += 1
        return [Reply(tagged(script[self._step - 1])) for script in running]


def played(*scripts):
    """The graph of a group with a script for each episode, and the log."""
    config = make_config(VIRTUALHOME, methods=["grpo"], seeds=[0], model="tiny", history=None, sizes=VIRTUALHOME.quick)
    config = dataclasses.replace(config, setup=dataclasses.replace(config.setup, options={"data": "generated"}))
    envs = make_envs(config, len(scripts), log=True)
    log = envs
    while not isinstance(log, ObservationLog):
        log = log.env
    table = collect(envs, Scripts(*scripts), tasks=[{"task_id": TASK}], group_size=len(scripts), seed=0)
    texts = {key: text for (task, key), text in log.texts.items() if task == TASK}
    return table, build_graph(table, 0, texts, method="grpo", stage="clone", seed=0)


@pytest.fixture(scope="module")
def program():
    import gymnasium as gym

    env = gym.make(VIRTUALHOME.id, data="generated").unwrapped
    env.reset(options={"task_id": TASK})
    return list(env.episode.activity.program)


def test_the_graph_of_two_ways_to_one_place(program):
    # the second episode says something impossible first and makes a detour to where the things belong: it has
    # discovered more than the first, until that one comes there as well. A start, four states, five, three in common
    table, graph = played(program, ["grab moon 1", "walk to nightstand 1", *program])
    steps = len(program)
    assert (steps, graph.episodes, graph.won) == (7, 2, 2)
    assert len(graph.nodes) == len({*table.states}) == 1 + 4 + 5 + 3
    start = next(node for node in graph.nodes if node.start)
    assert (start.distance, start.depth, start.visits) == (steps, 0, 3)
    assert start.text.startswith("Your task is to: Put novel 2 and glass 2 on nightstand 1.\n\nYou are in kitchen 1.")
    # the refused command is no edge
    apart = ["walk to nightstand 1", *program[:5] * 2]
    assert sorted((edge.action, edge.count) for edge in graph.edges) == sorted(
        [*((command, 1) for command in apart), *((command, 2) for command in program[5:])]
    )
    assert sum(node.success for node in graph.nodes) == 1
    for node in graph.nodes:
        assert node.start or node.text.startswith("You are in ")
        assert "\nNear you: " in node.text
        if node.success:
            near = "glass 2 (dirty) on nightstand 1; nightstand 1; novel 2 on nightstand 1"
            assert node.text == f"You are in bedroom 1.\nNear you: {near}.\nYou hold nothing."
    # potentials .9 ** distance: every step of the program comes one closer, the detour leads one away
    gains = {(graph.nodes[edge.source].distance, graph.nodes[edge.target].distance) for edge in graph.edges}
    assert gains == {(d, d - 1) for d in range(1, steps + 1)} | {(steps, steps)}


def test_equal_states_are_one_node(program):
    # walking to the same thing twice: the second time nothing changes
    _, graph = played([program[0], program[0], *program[1:]], program)
    assert len(graph.nodes) == len(program) + 1
    loops = [(edge.action, edge.count, edge.gain) for edge in graph.edges if edge.source == edge.target]
    assert loops == [(program[0], 1, 0.0)]
    assert max(edge.count for edge in graph.edges) == 2
