"""Plays the simulations of search trees in parallel in one vector environment.

Every sub-environment plays one simulation at a time. In each iteration of the loop

    free sub-environments take the next simulation of a tree, and are restored to its start
    the policy generates the replies that are not given, all in one call
    the vector environment makes one step
    finished simulations are evaluated and returned to their trees

Every tree has its own random generator; other trees change its result only through the number of its simulations that
run at once. A tree counts running simulations as lost until they return (virtual loss, Chaslot et al. 2008).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.rollout import Policy, act_each
from agentgym.rollout.groups import Infos, infos_of, observations_of
from agentgym.rollout.recorder import entry
from agentgym.trajectory import Reply
from policies.scripted import tagged
from policies.search.tree import Node, Simulation, Tree, Value


class Listed:
    """The commands of `infos["admissible_actions"]`, each as a reply, with its probability.

    In a state that lists no command, the policy generates the replies.

    Args:
        policy: a `policies.huggingface.HuggingFacePolicy`; its probabilities at its temperature are divided by their
            sum over the listed commands; None: all commands are equally probable.

    >>> infos = {"admissible_actions": np.array([("up", "down"), ()], dtype=object)}
    >>> replies, priors, tokens = Listed().replies(["board", "board"], infos)
    >>> [reply.text for reply in replies[0]], priors, tokens
    (['<action>up</action>', '<action>down</action>'], [[0.5, 0.5], []], [0, 0])
    """

    def __init__(self, policy: Any = None) -> None:
        self.policy = policy

    def replies(
        self, observations: Sequence[Any], infos: Infos
    ) -> tuple[list[list[Reply]], list[list[float]], list[int]]:
        """Return the replies of each of n sub-environments, their probabilities, and the tokens read for these.

        Raises:
            KeyError: the infos list no commands.
            ValueError: the policy cannot write one of them.
        """
        if "admissible_actions" not in infos:
            raise KeyError(
                f"replies are listed from infos['admissible_actions'], but the infos hold {sorted(infos)}: leave the "
                "list out, and the policy is asked for replies"
            )
        commands = [tuple(each) for each in infos["admissible_actions"]]
        if self.policy is None:
            listed = [[Reply(tagged(command)) for command in each] for each in commands]
            return listed, [_shares([0.0] * len(each)) for each in listed], [0] * len(listed)
        settings = self.policy.settings
        before, after = settings.prefix or "<action>", settings.suffix or "</action>"
        listed = [
            [self.policy.demonstrate(observation, f"{before}{command}{after}") for command in each]
            for observation, each in zip(observations, commands, strict=True)
        ]
        # A prompt that does not fit gives no tokens to be scored (the policy's setting truncate="end-episode").
        listed = [each if all(reply.token_ids for reply in each) else [] for each in listed]
        scores = self._scores([reply for each in listed for reply in each])
        ends = np.cumsum([len(each) for each in listed]).tolist()
        priors = [_shares(scores[end - len(each) : end]) for end, each in zip(ends, listed, strict=True)]
        return listed, priors, [sum(len(reply.token_ids) for reply in each) for each in listed]

    def _scores(self, replies: Sequence[Reply]) -> list[float]:
        if not replies:
            return []
        import torch

        with torch.no_grad():
            scores = self.policy.score([reply.prompt_ids for reply in replies], [reply.token_ids for reply in replies])
            found: list[float] = scores.logprobs.double().sum(dim=1).tolist()
        return found


def _shares(scores: Sequence[float]) -> list[float]:
    highest = max(scores, default=0.0)
    weights = [math.exp(score - highest) for score in scores]
    return [weight / sum(weights) for weight in weights]


#: Makes the tree of a root from the name of its task.
Plant = Callable[[Node, str], Tree]


class Simulator:
    """Simulations for trees, in a separate vector environment.

    `envs` are built like the environments whose states are searched, with autoreset `DISABLED`; their episodes are
    dropped. The other arguments are those of `policies.search.player.SearchPlayer`.

    Raises:
        TypeError: the environment cannot be branched.
        ValueError: `under_way` is below 1.
    """

    def __init__(
        self, envs: Any, policy: Policy, *, value: Value, listed: Listed | None = None, fresh: bool = False,
        under_way: int | None = None,
    ) -> None:  # fmt: skip
        if not (callable(getattr(envs, "snapshot", None)) and callable(getattr(envs, "restore", None))):
            raise TypeError(
                f"{envs}: a search needs a vector environment with snapshot(i) and restore(indices, states, seeds), "
                "see agentgym.branching.Branching"
            )
        if under_way is not None and under_way < 1:
            raise ValueError(f"under_way must be at least 1, or None, got {under_way}")
        self.envs, self.policy, self.value, self.listed, self.fresh = envs, policy, value, listed, fresh
        self.under_way = envs.num_envs if under_way is None else under_way
        settings = getattr(policy, "settings", None)
        self.longest = int(getattr(settings, "max_new_tokens", None) or 0)
        self._slots: list[Simulation | None] = [None] * envs.num_envs
        self._observations: Any = None
        self._infos: Any = None

    def run(self, states: Sequence[Any], plant: Plant, *, until_won: bool) -> list[Tree]:
        """Search from snapshots, and return one tree each.

        Args:
            states: snapshots of running episodes, the roots of the searches.
            until_won: a search ends with the first won simulation; otherwise with its budget.
        """
        trees = self._roots(states, plant)
        self._slots = [None] * self.envs.num_envs
        while True:
            if until_won:
                for i, simulation in list(self._playing()):
                    if simulation.tree.best.won:
                        self._drop(i)
            self._assign([tree for tree in trees if not (until_won and tree.best.won)])
            if not any(self._playing()):
                return trees
            self._step(self._answers())

    # -- beginning --------------------------------------------------------------------------------------------

    def _roots(self, states: Sequence[Any], plant: Plant) -> list[Tree]:
        trees: list[Tree] = []
        width = self.envs.num_envs
        for first in range(0, len(states), width):
            few = list(states[first : first + width])
            # All sub-environments at once: they may never have been reset.
            self._observations, self._infos = self.envs.restore(range(width), few + [few[-1]] * (width - len(few)))
            places = list(range(len(few)))
            for i, state in zip(places, few, strict=True):
                root = self._node(i, None, None, terminated=False, truncated=False)
                root.state = state
                trees.append(plant(root, str(entry(self._infos, "task_id", i))))
            self._list(places, [(tree, tree.root) for tree in trees[first:]])
        return trees

    def _assign(self, trees: Sequence[Tree]) -> None:
        free = [i for i, simulation in enumerate(self._slots) if simulation is None]
        under_way = {id(tree): 0 for tree in trees}
        for _, simulation in self._playing():
            under_way[id(simulation.tree)] += 1
        waiting = [tree for tree in trees if tree.budget.allows(tree.cost, 1, self.longest)]
        begun: list[int] = []
        starts: list[Any] = []
        seeds: list[int | None] = []
        while free and waiting:
            tree = min(waiting, key=lambda one: under_way[id(one)])  # of equal ones the first
            wanted = tree.next() if under_way[id(tree)] < self.under_way else None
            if wanted is None:
                waiting.remove(tree)
                continue
            under_way[id(tree)] += 1
            begun.append(free.pop(0))
            starts.append(wanted.start.state)
            seeds.append(int(tree.rng.integers(2**31)) if self.fresh else None)
            self._slots[begun[-1]] = wanted
        if begun:
            self._observations, self._infos = self.envs.restore(begun, starts, seeds)

    # -- one turn ---------------------------------------------------------------------------------------------

    def _answers(self) -> dict[int, Reply]:
        replies: dict[int, Reply] = {}
        asking: list[int] = []
        stopped: list[int] = []
        planned: dict[int, tuple[int, int]] = {}
        for i, simulation in self._playing():
            tree = simulation.tree
            given = simulation.reply if simulation.length == 0 else None
            steps, tokens = planned.get(id(tree), (0, 0))
            steps, tokens = steps + 1, tokens + (self.longest if given is None else 0)
            if not tree.budget.allows(tree.cost, steps, tokens):
                stopped.append(i)
                continue
            planned[id(tree)] = steps, tokens
            if given is None:
                asking.append(i)
            else:
                replies[i] = given
        if asking:
            places = np.asarray(asking)
            shown = observations_of(self._observations, places), infos_of(self._infos, places)
            rngs = [self._in(i).tree.rng for i in asking]
            for i, reply in zip(asking, act_each(self.policy, *shown, rngs), strict=True):
                simulation = self._in(i)
                simulation.tree.cost.tokens += len(reply.token_ids)
                if reply.finish == "prompt-too-long":
                    stopped.append(i)
                elif simulation.grow and simulation.length == 0 and not simulation.tree.is_new(simulation.start, reply):
                    self._drop(i)
                else:
                    replies[i] = reply
        self._end(stopped)
        return replies

    def _step(self, replies: Mapping[int, Reply]) -> None:
        if not replies:
            return
        actions = [replies[i].text if i in replies else "" for i in range(self.envs.num_envs)]
        self._observations, rewards, terminated, truncated, self._infos = self.envs.step(actions)
        new: list[int] = []
        ended: list[int] = []
        for i, reply in replies.items():
            simulation = self._in(i)
            tree = simulation.tree
            ends = {"terminated": bool(terminated[i]), "truncated": bool(truncated[i])}
            node = self._node(i, simulation.at, reply, reward=float(rewards[i]), **ends)
            tree.cost.steps += 1
            if simulation.number < 0:
                simulation.number = tree.cost.simulations
                tree.cost.simulations += 1
                tree.ends.append(node)
            node.simulation = simulation.number
            tree.ends[node.simulation] = node
            simulation.at = node
            if simulation.grow and simulation.length == 1:
                if not node.ended:
                    node.state = self.envs.snapshot(i)
                if not tree.enter(simulation, node):
                    self._drop(i)
                    continue
                if not node.ended:
                    new.append(i)
            if node.unscored:
                self._drop(i)
            elif node.ended or (simulation.grow and simulation.length - 1 == self.value.rollout):
                ended.append(i)
        self._list(new, [(simulation.tree, simulation.at) for simulation in map(self._in, new)])
        self._end(ended)

    def _end(self, places: Sequence[int]) -> None:
        worth: dict[int, float] = {}
        going_on = []
        for i in places:
            simulation = self._in(i)
            at = simulation.at
            worth[i] = self.value.standing(at.won, at.score)
            if not at.ended and simulation.length:
                going_on.append(i)
        if going_on and self.value.critic is not None:
            chosen = np.asarray(going_on)
            shown = observations_of(self._observations, chosen), infos_of(self._infos, chosen)
            found = np.asarray(self.value.critic(*shown), np.float64)
            if found.shape != chosen.shape or not np.isfinite(found).all():
                raise ValueError(f"the critic must answer {len(chosen)} finite numbers, got {found!r:.200}")
            worth |= dict(zip(going_on, found.tolist(), strict=True))
        for i in places:
            simulation = self._in(i)
            if simulation.length:
                simulation.tree.back(simulation, worth[i])
                self._slots[i] = None
            else:
                self._drop(i)

    def _drop(self, i: int) -> None:
        simulation = self._in(i)
        simulation.tree.drop(simulation)
        self._slots[i] = None

    def _in(self, i: int) -> Simulation:
        simulation = self._slots[i]
        assert simulation is not None
        return simulation

    def _playing(self) -> Iterator[tuple[int, Simulation]]:
        return ((i, simulation) for i, simulation in enumerate(self._slots) if simulation is not None)

    # -- what the environment shows ---------------------------------------------------------------------------

    def _node(
        self, i: int, parent: Node | None, reply: Reply | None, *, terminated: bool, truncated: bool,
        reward: float = 0.0,
    ) -> Node:  # fmt: skip
        infos = self._infos
        won = (terminated or truncated) and bool(entry(infos, "won", i))
        return Node(
            parent=parent, reply=reply, t=0 if parent is None else parent.t + 1, key=str(entry(infos, "state_key", i)),
            label=str(entry(infos, "canonical_key" if "canonical_key" in infos else "state_key", i)), won=won,
            score=float(infos["score"][i]) if "score" in infos else float(won),
            action="" if reply is None else str(infos["command"][i]) if "command" in infos else reply.text,
            reward=reward, valid=bool(entry(infos, "is_action_valid", i)), terminated=terminated, truncated=truncated,
            unscored=(terminated or truncated) and "unscored" in infos and bool(infos["unscored"][i]),
            observation=observations_of(self._observations, np.asarray([i]))[0],
        )  # fmt: skip

    def _list(self, places: Sequence[int], nodes: Sequence[tuple[Tree, Node]]) -> None:
        if self.listed is None or not places:
            return
        chosen = np.asarray(places)
        shown = observations_of(self._observations, chosen), infos_of(self._infos, chosen)
        for (tree, node), replies, priors, tokens in zip(nodes, *self.listed.replies(*shown), strict=True):
            tree.cost.scored += tokens
            if replies:
                tree.list_replies(node, replies, priors)
