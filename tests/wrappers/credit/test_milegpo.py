import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.naive import centred, compared, distances, groups, standard
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import graphgpo
from wrappers.credit.milegpo import PRESETS, branches, graph_and_branches, milegpo, milestones

# Two ways of the same length to the goal: over m, which only winners take, and over n, which a loser takes as well.
TABLE = episodes(
    "s -a-> m -in-> goal +",
    "s -a-> m -in-> goal +",
    "s -b-> n -in-> goal +",
    "s -b-> n -out-> pit",
    "s -b-> n -out-> pit",
)
OPTIONS = {"gamma": 0.5, "omega": 0.5, "std": "none", "alpha_episode": 0.0, "success_value": 1.0, "lam": 0.25}


def nodes(per_node, table=TABLE):
    return milestones(table, **OPTIONS).graph.by_state(per_node)


def test_by_hand() -> None:
    found = milestones(TABLE, **OPTIONS)
    # 3 of 5 win. s: visited by all, 3/5 - 3/5 = 0, covered by all winners 1, two ways out.
    # m: 1 - 3/5 = 2/5, covered 2/3, one way in and one out: 2. n: 1/3 - 3/5 < 0: 0, covered 1/3, one in and two out: 3.
    # Connected: s 2/3, m 2/3, n 1 of a quarter. S_0: s 1 + 1/6, m 2/5 + 2/3 + 1/6, n 1/3 + 1/4.
    start = np.array([1 + 1 / 6, 2 / 5 + 2 / 3 + 1 / 6, 1 / 3 + 1 / 4])
    # Branches out of s: to m 1, to n 1/3: +-2/3, the largest. Out of n: to goal 1, to pit 0: +-1, the task's largest.
    # So m is entered by a branch of 2/3, n by one of -2/3: 0; and s by none.
    # Progress of s-m: 1 nearer, 2/5 above the mean, no more failures than its sibling: 7/5. s-n: 1 nearer, -4/15, and
    # 2/3 more failures: 1/15. m-goal, alone: 1 + 2/5. n-goal: 1 + 2/5 - 0. The largest of the task is 7/5.
    # s has no way in: nothing keeps it.
    kept = np.array([0, start[1] * (1 + 2 / 3 + 1), start[2] * (1 + 0 + 1 / 21)])
    expected = dict(zip("smn", kept / kept.max(), strict=True))
    assert nodes(found.milestone) == pytest.approx({**expected, "goal": 0, "pit": 0})
    # pit: seen by two losers only; 1 - 2/5, never come back to.
    assert nodes(found.trap) == pytest.approx({"s": 0, "m": 0, "n": 0, "goal": 0, "pit": 1})
    assert nodes(found.near_traps) == pytest.approx({"s": 1 / 4, "m": 0, "n": 1 / 2, "goal": 0, "pit": 1})
    near = nodes(found.near_milestones)
    assert near == pytest.approx({"s": 1 / 2, "m": 1, "n": expected["n"], "goal": 0, "pit": 0})
    assert found.branch[found.pair].tolist() == pytest.approx([2 / 3, 0, 2 / 3, 0, -2 / 3, 1, -2 / 3, -1, -2 / 3, -1])
    # From s both ways are one step from success: GraphGPO, and A^G, have nothing to say.
    assert graphgpo(TABLE, beta_episode=0.0)[[0, 4]] == pytest.approx([0, 0])
    scores = milegpo(TABLE, **OPTIONS)
    # The step to m raises Phi+ by 1/2, the one to n lowers it; that one raises Phi- by 1/4, of which a quarter counts.
    gain = np.array([1 / 2, 1 / 2, -1 / 16, -1 / 16, -1 / 16])
    assert scores[[0, 2, 4, 6, 8]] == pytest.approx(0.2 * 0.25 * (gain - gain.mean()))
    # Without the correction it is the graph alone.
    plain = milegpo(TABLE, **{**OPTIONS, "eta": 0.0})
    assert plain[[0, 4]] == pytest.approx([0, 0])
    assert plain[5] == pytest.approx(2 / 3)  # in or out of n: 1 0 0
    assert milegpo(TABLE, **{**OPTIONS, "lam": 0.0}) == pytest.approx(plain)


def test_traps_and_milestones_by_hand() -> None:
    # Three losers; two come back to v, and one goes its own way.
    table = episodes("s -a-> v -a-> v -a-> pit", "s -a-> v -a-> v -a-> hole", "s -b-> w -a-> w2")
    found = milestones(table, **OPTIONS)
    # v: no more failures than all; seen by 2 of 3, a revisit each: 1/4 * 2/3 * 1, above .1. s: no revisit, 0.
    assert nodes(found.trap, table) == pytest.approx({"s": 0, "v": 1, "pit": 0, "hole": 0, "w": 0, "w2": 0})
    scores = milegpo(table, **OPTIONS)
    assert scores[0] < 0 < scores[6]  # into the trap, and past it
    assert (milegpo(table, **{**OPTIONS, "trap_score": 0.5}) == 0).all()
    # The way back to a: its only way in leads away from success.
    table = episodes("b -back-> a -on-> b -in-> goal +", "b -out-> pit")
    assert nodes(milestones(table, **OPTIONS).milestone, table)["a"] == 0
    # Seen by every winner: with a threshold it stays, and so does a share.
    assert nodes(milestones(table, **OPTIONS, coverage=1.0).milestone, table)["a"] > 0
    assert nodes(milestones(table, **OPTIONS, rho=0.5).milestone, table)["a"] > 0
    # Of the ways out of b, back won and out lost.
    assert nodes(milestones(table, **OPTIONS, branches=True).milestone, table)["a"] > 0


def _naive(table, o):
    total = np.zeros(len(table))
    for group in groups(table):
        _naive_group(group, o, total)
    return total


def _ways(edges, start):
    """Fewest steps from a state to every other."""
    return distances({(b, a) for a, b in edges}, [start])


def _naive_group(group, o, total):
    paths = [[s.state for s in t.steps] + [t.steps[-1].next_state] for t, _ in group]
    won = [t.won for t, _ in group]
    edges = {(s.state, s.next_state) for t, _ in group for s in t.steps}
    states = {state for path in paths for state in path}
    goals = {path[-1] for path, w in zip(paths, won, strict=True) if w}
    d = distances(edges, goals)
    rate = sum(won) / len(won)
    seen = {v: [i for i, path in enumerate(paths) if v in path] for v in states}
    plus = {v: sum(won[i] for i in seen[v]) / len(seen[v]) for v in states}
    candidates = [v for v in states if plus[v] > 0 and v not in goals]
    degree = {v: sum(a == v for a, _ in edges) + sum(b == v for _, b in edges) for v in states}
    most = max((degree[v] for v in candidates), default=1)
    users = {e: [i for i, (t, _) in enumerate(group) if e in {(s.state, s.next_state) for s in t.steps}] for e in edges}
    success = {e: sum(won[i] for i in users[e]) / len(users[e]) for e in edges}
    branch, progress = {}, {}
    for e in edges:
        others = [success[f] for f in edges if f[0] == e[0] and f != e]
        branch[e] = success[e] - sum(others) / len(others) if others else 0.0
        failing = max(-branch[e], 0) if others else max(rate - plus[e[1]], 0)
        nearer = d[e[0]] - d[e[1]] if e[0] in d and e[1] in d else 0
        progress[e] = nearer + plus[e[1]] - rate - failing if success[e] > 0 else 0
    largest = max(map(abs, branch.values())) or 1.0
    b = {v: max([branch[e] / largest for e in edges if e[1] == v] + [0]) for v in states}
    psi = {v: max([progress[e] for e in edges if e[1] == v] + [0]) for v in states}
    top = max(psi.values()) or 1.0
    psi = {v: p / top for v, p in psi.items()}
    scores = {}
    for v in candidates:
        covered = sum(won[i] for i in seen[v]) / max(sum(won), 1)
        score = max(plus[v] - rate, 0) + covered + o["w_degree"] * degree[v] / most
        keep = psi[v] > 0 or covered >= o["coverage"] or (o["branches"] and b[v] > 0)
        scores[v] = score * (1 + b[v] + psi[v]) if keep else o["rho"] * score
    traps = {}
    for v in states:
        again = sum(paths[i].count(v) - 1 for i in seen[v])
        if plus[v] == 0 and (len(seen[v]) >= o["trap_failures"] or again):
            lost = len(won) - sum(won)
            score = max(rate - plus[v], 0) + o["w_revisit"] * len(seen[v]) / lost * again / len(seen[v])
            if score >= o["trap_score"]:
                traps[v] = score

    def near(marks):
        best = max(marks.values(), default=0.0)
        found = dict.fromkeys(states, 0.0)
        for v, score in marks.items():
            for s in states:
                way = _ways(edges, s).get(v, math.inf)
                if best > 0 and way < math.inf:
                    found[s] = max(found[s], score / best * o["omega"] ** way)
        return found

    good, bad = near(scores), near(traps)
    graph, mixed = {}, {}
    for t, rows in group:
        for row, step in zip(rows, t.steps, strict=True):
            up = max(good[step.next_state] - good[step.state], 0)
            down = o["w_trap"] * max(bad[step.next_state] - bad[step.state], 0)
            value = o["success_value"] * o["gamma"] ** d[step.next_state] if step.next_state in d else 0.0
            graph[row] = (step.state, value)
            mixed[row] = (step.state, value + o["success_value"] * o["lam"] * (up - down))
    for part, weight in ((graph, 1 - o["eta"]), (mixed, o["eta"])):
        states, values = ({row: each[i] for row, each in part.items()} for i in (0, 1))
        for row, score in compared(values, states, centred if o["std"] == "none" else standard).items():
            total[row] += weight * score


@pytest.mark.parametrize("preset", list(PRESETS))
@given(seed=st.integers(0, 10**6))
def test_equals_its_naive_twin(preset, seed):
    table = random_table(seed, groups=2, states=5, win=0.5)
    twin = _naive(table, PRESETS[preset] | {"gamma": 0.5})
    close(milegpo(table, preset=preset, gamma=0.5, alpha_episode=0.0), twin, 1e-7)


def test_branches_by_hand() -> None:
    # Right wins once and loses once, left loses.
    table = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")
    # Out of s: half of right's takers won, none of left's: 1/2 either way. Out of u: 1 and 0. The largest is 1.
    assert branches(table) == pytest.approx([0.5, 1, 0.5, -1, -0.5])
    steps = graphgpo(table, beta_episode=0.0)
    assert graph_and_branches(table) == pytest.approx(steps + 0.3 * np.array([0.5, 1, 0.5, -1, -0.5]))
    # a leads to u, from which both episodes go on: once .5 against b's 0, not twice; from u 1 against 0.
    table = episodes("s -a-> u -up-> goal +", "0.0: u -down-> pit", "s -b-> pit")
    found = milegpo(table, **OPTIONS, eta=0.0)
    assert found.tolist() == [0.25, 0.5, -0.5, -0.25]
    steps = {"unit": "visit", "exponent": "next", "unreachable": "infinite", "beta_episode": 0.0, "std": "none"}
    close(found, graphgpo(table, omega=0.5, **steps))
    # Milestones are those of whole episodes: with them every row has what its whole episodes say of it.
    whole, source = table.unfolded()
    of_whole = milestones(whole, **OPTIONS)
    nearer = of_whole.near_milestones[of_whole.graph.target] - of_whole.near_milestones[of_whole.graph.source]
    raised = {row: OPTIONS["lam"] * max(nearer[copy], 0.0) for copy, row in enumerate(source.tolist())}
    shaped = milegpo(table, **OPTIONS, eta=1.0, w_trap=0.0) - found
    assert shaped[0] == pytest.approx((raised[0] - raised[3]) / 2)
    assert shaped[1] == pytest.approx((raised[1] - raised[2]) / 2)
