"""The policy that searches before it plays."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from agentgym.rollout import Policy
from agentgym.rollout.groups import Infos
from agentgym.trajectory import Reply
from policies.search.simulator import Listed, Simulator
from policies.search.tree import Budget, Cost, Node, Tree, Value


class Method(Protocol):
    """A search method: `BestOfN`, `Beam` or `MCTS` of `policies.search.methods`."""

    def tree(self, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator) -> Tree: ...


class SearchPlayer:
    """Searches in a separate vector environment for the replies that it then plays.

    It reads the state of an episode from `infos["snapshot"]` and `infos["episode_number"]`, which
    `wrappers.VectorSnapshots` adds to the played environments; the ones for the search are built in the same way:

        player = SearchPlayer(make(), RandomPolicy(), MCTS(), budget=Budget(steps=1000), listed=Listed())
        table = collect(VectorSnapshots(make()), player, tasks=tasks, seed=0)

    At the first step of an episode it searches, for all episodes in parallel, and then plays the best simulation. If
    the episode deviates from that simulation, or reaches its end, a new search uses the rest of the budget; without a
    budget the policy replies. Forks of an episode share its budget; in the same state they share a plan. Compare it
    with players that have the same number of attempts.

    Args:
        envs: environments of the simulations, one per sub-environment: autoreset `DISABLED`.
        policy: replies in simulations, and in episodes without a search result.
        budget: budget of all searches of one episode.
        listed: the replies that a tree method considers in each state; None: the policy generates them.
        until_won: a search ends with its first success; False: with its budget, for better values.
        fresh: simulations draw new random numbers; False: they use the numbers of the real episode.
        share: part of the remaining budget that one search may spend, above 0 to 1.
        under_way: maximum number of parallel simulations of one search; None: as many as free sub-environments.

    Call `forget` between two `VectorSnapshots`: episodes are known by their numbers.

    Attributes:
        costs: cost of the searches of each episode, by `episode_number`.
        trees: those of each episode, in the order of its searches, by `episode_number`; empty unless `keep`.

    Raises:
        TypeError: the environment cannot be branched.
        ValueError: a number is out of range; or the budget limits tokens, and the policy has no maximum reply length.
    """

    def __init__(
        self, envs: Any, policy: Policy, method: Method, *, budget: Budget, value: Value | None = None,
        listed: Listed | None = None, until_won: bool = True, fresh: bool = False, share: float = 1.0,
        under_way: int | None = None, keep: bool = False,
    ) -> None:  # fmt: skip
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        self.method, self.budget, self.value = method, budget, value or Value()
        self.simulator = Simulator(envs, policy, value=self.value, listed=listed, fresh=fresh, under_way=under_way)
        if budget.tokens is not None and not self.simulator.longest:
            raise ValueError(
                f"{type(policy).__name__} has no settings.max_new_tokens, and a budget of tokens cannot be kept "
                "without knowing how many a reply may have: limit the budget's steps alone"
            )
        self.policy, self.until_won, self.share, self.keep = policy, until_won, share, keep
        self.costs: dict[int, Cost] = {}
        self.trees: dict[int, list[Tree]] = {}
        self._plans: dict[tuple[int, str], list[Node]] = {}

    def forget(self) -> None:
        self.costs, self.trees, self._plans = {}, {}, {}

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        """Return one reply per running sub-environment; `infos` with `snapshot`, `episode_number` and `state_key`.

        Raises:
            KeyError: the infos hold no snapshots.
        """
        if "snapshot" not in infos:
            raise KeyError(
                f"a search player needs infos['snapshot'], but the infos hold {sorted(infos)}: put "
                "wrappers.VectorSnapshots around the environments that are played"
            )
        episodes = infos["episode_number"].tolist()
        places = [(episode, str(key)) for episode, key in zip(episodes, infos["state_key"], strict=True)]
        lost = {
            place: infos["snapshot"][row]
            for row, place in reversed(list(enumerate(places)))  # the first of several forks in the same state
            if place not in self._plans
        }
        self._search({place: lost[place] for place in dict.fromkeys(places) if place in lost}, set(places), rng)
        found = [self._plans[place][0] if place in self._plans else None for place in places]
        alone = np.asarray([row for row, node in enumerate(found) if node is None], np.int64)
        replies = [None if node is None else node.reply for node in found]
        if len(alone):
            rest = {name: column[alone] for name, column in infos.items()}
            for row, reply in zip(alone, self.policy.act([observations[i] for i in alone], rest, rng), strict=True):
                replies[row] = reply
        followed = {place: self._plans.pop(place) for place in dict.fromkeys(places) if place in self._plans}
        for (episode, _), plan in followed.items():
            self._follow(episode, plan[1:])
        return [reply for reply in replies if reply is not None]

    def _follow(self, episode: int, plan: list[Node]) -> None:
        if plan:
            self._plans[episode, plan[0].before.key] = plan

    def _search(
        self, lost: Mapping[tuple[int, str], Any], standing: Collection[tuple[int, str]], rng: np.random.Generator
    ) -> None:
        by_episode: dict[int, list[Any]] = {}
        for (episode, _), state in lost.items():
            by_episode.setdefault(episode, []).append(state)
        wanted: list[tuple[int, Any, Budget]] = []
        for episode, states in by_episode.items():
            left = self.budget.left(self.costs.setdefault(episode, Cost()), self.share)
            for state, part in zip(states, left.parts(len(states)), strict=True):
                if part.allows(Cost(), 1, self.simulator.longest):
                    wanted.append((episode, state, part))
        if not wanted:
            return
        seeds = iter(rng.integers(2**63, size=len(wanted)).tolist())
        budgets = iter([part for _, _, part in wanted])

        def plant(root: Node, task: str) -> Tree:
            return self.method.tree(root, task, self.value, next(budgets), np.random.default_rng(next(seeds)))

        trees = self.simulator.run([state for _, state, _ in wanted], plant, until_won=self.until_won)
        searched = {episode for episode, _, _ in wanted}
        for place in [place for place in self._plans if place[0] in searched and place not in standing]:
            del self._plans[place]
        for (episode, _, _), tree in zip(wanted, trees, strict=True):
            self.costs[episode].add(tree.cost)
            self._follow(episode, tree.plan())
            if self.keep:
                self.trees.setdefault(episode, []).append(tree)
