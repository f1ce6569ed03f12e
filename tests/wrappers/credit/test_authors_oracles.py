"""Every `authors` preset against what the authors' own code answered for 120 groups.

The originals compute in single precision: where a group's values are equal but for rounding, they divide the
rounding by about 1e-6. Such groups (values span at most 1e-5) are left out when a standard deviation is involved.
"""

import itertools

import numpy as np
import pytest

from tests.wrappers.credit import oracles
from tests.wrappers.credit.oracles import answers, assert_agree, batches, cases, load, mask, spans, table
from tests.wrappers.credit.small_tables import close, of_rows
from wrappers.credit.gigpo import gigpo
from wrappers.credit.graphgpo import graphgpo, graphgpo_values
from wrappers.credit.group import contexts
from wrappers.credit.grpo import grpo
from wrappers.credit.hgpo import hgpo
from wrappers.credit.istar import istar
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward
from wrappers.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from wrappers.credit.returns import discounted_returns
from wrappers.credit.rewardflow import label_early_ends, rewardflow, rewardflow_values
from wrappers.credit.rloo import rloo

MODES = [("mean_norm", "none"), ("mean_std_norm", "group")]
PENALTIES = [("", 0.1), ("_nopenalty", 0.0)]
EPISODES = "verl_agent_grpo_rloo_rfpp"


def _penalty(size=0.1):
    return size * ~table().valid


def _spans(size=0.1, *steps):
    """Spans of the episodes' values in their groups, and of values of steps at their states, less the penalty."""
    of = table()
    episodes = spans(of.trajectory_return[of.trajectory] - _penalty(size), of.group)
    return [episodes, *(spans(values - _penalty(size), oracles.step_groups(of)) for values in steps)]


@pytest.mark.parametrize("over", ["steps", "trajectories"])
def test_grpo_rloo_and_reinforce_plus_plus(over):
    crossing = f"cross_steps={over == 'steps'}"
    assert_agree(
        grpo(table(), preset="authors", std="none", over=over), answers(EPISODES, f"grpo|std=False|{crossing}")
    )
    assert_agree(rloo(table(), preset="authors", over=over), answers(EPISODES, f"rloo|{crossing}"))
    ours = _per_case(reinforce_plus_plus_baseline, over=over)
    assert_agree(ours, answers(EPISODES, f"rfpp_baseline|{crossing}"))
    if over == "steps":
        theirs = answers(EPISODES, f"grpo|std=True|{crossing}")
        assert_agree(grpo(table(), preset="authors", std="group"), theirs, *_spans())
        # A batch whose scores are all equal is a case without contrast here.
        assert_agree(_per_case(reinforce_plus_plus), answers(EPISODES, "rfpp|gamma=1"), *_spans())


def _per_case(method, **options):
    """Answers of a method that looks at the whole batch: the originals were given one case at a time."""
    return np.concatenate([method(of, preset="authors", **options) for of, _ in batches()])


def test_graphgpo_distances_and_shipped_modes() -> None:
    # GRPO, HGPO and GraphGPO are shipped with the deviation, GiGPO's configuration and RewardFlow's call without.
    of = table()
    for method, std in (
        (grpo, "group"), (hgpo, "group"), (graphgpo, "group"), (gigpo, "none"), (rewardflow, "none")
    ):  # fmt: skip
        assert (method(of, preset="authors") == method(of, preset="authors", std=std, invalid_penalty=0.1)).all()
    credit = graphgpo_values(table(), preset="authors")
    for group, result in enumerate(load("graphgpo_authors")["results"]):
        ours = credit.graph.by_state(credit.distance, group)
        # The original adds its success node to groups without a success as well.
        assert {"You Won!": 0.0, **ours} == result["distance"]


@pytest.mark.parametrize(("suffix", "penalty"), PENALTIES)
@pytest.mark.parametrize(("mode", "std"), MODES)
def test_gigpo(mode, std, suffix, penalty):
    returns = discounted_returns(table(), 0.95)
    name = "verl_agent_gigpo" + suffix
    close(returns, answers(name, "step_returns_raw"), 1e-5)
    ours = gigpo(table(), preset="authors", std=std, invalid_penalty=penalty)
    assert_agree(ours, answers(name, f"adv|{mode}|w=1"), *(_spans(penalty, returns) if std == "group" else []))


@pytest.mark.parametrize("base_group", [False, True])
@pytest.mark.parametrize(("mode", "std"), MODES)
@pytest.mark.parametrize("alpha", [0, 1])
@pytest.mark.parametrize("k", [2, 4])
def test_hgpo(k, alpha, mode, std, base_group):
    of = table()
    values = discounted_returns(of, 0.95) - _penalty()
    levels = [(values, groups) for groups, _ in contexts(of, k)]
    if base_group:
        levels.append((of.trajectory_return[of.trajectory] - _penalty(), of.group))
    theirs = answers("hgpo_authors", f"K={k}|alpha={alpha}|base_group={base_group}|{mode}")
    ours = hgpo(of, preset="authors", k=k, alpha=float(alpha), std=std, base_group=base_group)
    # Whether an advantage is exactly 0 or rounding decides about its weight, also where nothing is divided.
    assert_agree(ours, theirs, *(_rounded(*level) for level in levels))
    assert (hgpo(of, preset="authors", k=k) == hgpo(of, preset="authors", k=k, alpha=1.0, base_group=False)).all()


def _rounded(values, groups):
    """Spans of the groups, but infinite where rounding cannot occur: rows without group, groups of one or of zeros."""
    result = np.full(len(values), np.inf)
    rows = np.flatnonzero(groups >= 0)
    inside = groups[rows]
    exact = (np.bincount(inside)[inside] == 1) | (np.bincount(inside, weights=np.abs(values[rows]))[inside] == 0)
    result[rows[~exact]] = spans(values[rows], inside)[~exact]
    return result


@pytest.mark.parametrize(("suffix", "penalty"), PENALTIES)
@pytest.mark.parametrize(("mode", "std"), MODES)
@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo(omega, mode, std, suffix, penalty):
    name = "graphgpo_authors" + suffix
    raw = graphgpo_values(table(), preset="authors", omega=omega).step_reward
    close(raw, answers(name, f"omega={omega}|step_return"), 1e-5)
    contrast = _spans(penalty, raw) if std == "group" else []
    for weight, options in ((1, {}), (0, {"beta_episode": 0.0})):
        ours = graphgpo(table(), preset="authors", omega=omega, std=std, invalid_penalty=penalty, **options)
        assert_agree(ours, answers(name, f"omega={omega}|adv|{mode}|episode_w={weight}"), *contrast[1 - weight :])


@pytest.mark.parametrize(("suffix", "penalty"), PENALTIES)
@pytest.mark.parametrize(("mode", "std"), MODES)
def test_rewardflow_as_meant(mode, std, suffix, penalty):
    name = "rewardflow_generic_padded" + suffix
    raw = rewardflow_values(table(), preset="authors").step_reward
    close(raw, answers(name, "step_reward"), 1e-6)
    ours = rewardflow(table(), preset="authors", std=std, invalid_penalty=penalty)
    assert_agree(ours, answers(name, f"adv|{mode}"), *(_spans(penalty, raw) if std == "group" else []))


def test_rewardflow_node_values_also_with_a_reward_on_every_step():
    credit = rewardflow_values(table(), preset="authors")
    dense = 0
    for group, (case, result) in enumerate(zip(cases(), load("rewardflow_generic_padded")["results"], strict=True)):
        ours = credit.graph.by_state(credit.value, group)
        assert {state: ours[state] for state in result["value"]} == pytest.approx(result["value"], abs=1e-6)
        dense += case["params"]["dense"]
    assert dense == 20


@pytest.mark.parametrize(("mode", "std"), MODES)
def test_rewardflow_as_published_loses_last_transitions(mode, std):
    # The original was run on one group at a time, and what it loses depends on the longest trajectory of the batch.
    steps = [rewardflow_values(of, preset="authors", lose_last=True).step_reward for of, _ in batches()]
    raw = np.concatenate(steps)
    close(raw, answers("rewardflow_generic_published", "step_reward"), 1e-6)
    ours, theirs = (
        _per_case(rewardflow, std=std, lose_last=True),
        answers("rewardflow_generic_published", f"adv|{mode}"),
    )
    assert_agree(ours, theirs, *(_spans(0.1, raw) if std == "group" else []))


@pytest.mark.parametrize(("mode", "std"), MODES)
def test_rewardflow_as_published_for_alfworld(mode, std):
    results = load("rewardflow_alfworld_published")["results"]
    chosen = {case["case_id"]: case for case in cases()}
    compared = 0
    for result in results:
        seen = label_early_ends(oracles.build([chosen[result["case_id"]]]))
        options = {"preset": "authors", "invalid": "bypass", "lookup": "shown", "lose_last": True, "std": std}
        credit = rewardflow_values(seen, **options)
        close(credit.step_reward, result["step_reward"], 1e-6)
        values = credit.graph.by_state(credit.value)
        assert {s: v for s, v in result["value"].items() if v} == pytest.approx({s: v for s, v in values.items() if v})
        penalty = 0.1 * ~seen.valid
        scores = seen.trajectory_return[seen.trajectory] - penalty
        contrast = (spans(credit.step_reward - penalty, oracles.step_groups(seen)) > 1e-5) & (
            spans(scores, seen.group) > 1e-5
        )
        rows = contrast if std == "group" else np.ones(len(seen), bool)
        ours, theirs = rewardflow(seen, **options)[rows], np.array(result[f"adv|{mode}"])[rows]
        close(ours, theirs, 2e-3)
        compared += rows.sum()
    assert len(results) == 66
    assert compared > 5000


def _table(rows, **columns):
    """Table of steps (trajectory, t, state, action, next state, won)."""
    return of_rows("trajectory t state action next_state won", rows, **columns)


def _check(figure, table):
    credit = rewardflow_values(table, gamma=figure["gamma"])
    distance, value = credit.graph.by_state(credit.distance), credit.graph.by_state(credit.value)
    assert distance == {state: np.inf if d is None else d for state, d in figure["distance"].items()}
    assert value == pytest.approx(figure["value"], abs=1e-12)
    scores = rewardflow(table, gamma=figure["gamma"], unit="edge", alpha_trajectory=0.0)
    rows = np.flatnonzero(credit.graph.is_edge)
    source, target = ([table.states[node] for node in credit.graph.node_state[ends[rows]]]
                      for ends in (credit.graph.source, credit.graph.target))  # fmt: skip
    actions = [table.actions[action] for action in table.action[rows]]
    found = set(zip(source, actions, target, credit.step_reward[rows], scores[rows], strict=True))
    edges = {(edge["src"], edge["action"], edge["dst"]): edge for edge in figure["edges"]}
    assert sorted(each[:3] for each in found) == sorted(edges), "an edge scores the same on every visit"
    for *key, reward, score in found:
        assert reward == pytest.approx(edges[tuple(key)]["reward"], abs=1e-12), key
        assert score == pytest.approx(edges[tuple(key)]["adv_distinct_edges_sample_std"], abs=1e-6), key


# The episodes of Figs. 8 to 10, from the notes of the file; Figs. 17 and 22 show only edges, each of which becomes an
# episode of one step here.
PATHS = ["0-1-2-3-4-5-6-7-8-4-9-10-6-9-11-12-WIN", "0-1-14-15-16-17-2-18-WIN", "0-19-1"]


@pytest.mark.parametrize(("name", "count"), [("8_1rollout", 1), ("9_2rollouts", 2), ("10_3rollouts", 3)])
def test_alfworld_figures(name, count):
    figure = load("golden")[f"rewardflow_alfworld_fig{name}"]
    action = {(edge["src"], edge["dst"]): edge["action"] for edge in figure["edges"]}
    # 7 -> 8 and 9 -> 10 are steps whose answer changed nothing: the figures bypass the nodes 8 and 10. Bypassed, 8 -> 4
    # is the edge 7 -> 4 and 10 -> 6 the edge 9 -> 6, with the figures' actions.
    action |= {("8", "4"): action["7", "4"], ("10", "6"): action["9", "6"]}
    rows = []
    for number, path in enumerate(PATHS[:count]):
        nodes = path.split("-")
        rows += [
            (number, t, a, action.get((a, b), f"{a} to {b}"), b, nodes[-1] == figure["goal"])
            for t, (a, b) in enumerate(itertools.pairwise(nodes))
        ]
    _check(figure, _table(rows, valid=[row[4] not in ("8", "10") for row in rows]))


@pytest.mark.parametrize("name", ["rewardflow_webshop_fig17", "rewardflow_sokoban_fig22"])
def test_webshop_and_sokoban_figures(name):
    figure = load("golden")[name]
    rows = [
        (i, 0, edge["src"], edge["action"], edge["dst"], edge["dst"] == figure["goal"])
        for i, edge in enumerate(figure["edges"])
    ]
    _check(figure, _table(rows))


@pytest.mark.parametrize("unit", ["edge", "visit"])  # no edge of the figure is taken twice
@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo_figure_3(omega, unit):
    figure = load("golden")["graphgpo_fig3"]
    answers = figure["by_omega"][str(omega)]
    count = {"t1": 0, "t2": 0}
    rows = []
    for row in answers:
        rows.append((row["traj"], count[row["traj"]], row["state"], row["action"], row["next"], row["traj"] == "t1"))
        count[row["traj"]] += 1
    table = _table(rows)
    credit = graphgpo_values(table, omega=omega)
    assert credit.graph.by_state(credit.distance) == figure["distance"]

    def column(name):
        return pytest.approx(np.array([row[name] for row in answers]), abs=1e-6)

    assert credit.step_reward == column("reward_rsucc1")
    authors = graphgpo_values(table, omega=omega, preset="authors")
    assert authors.step_reward == column("reward_authors_code_10_pow_d")

    # The figure's advantages are without eps; the default 1e-6 moves the smallest rewards' by 1.1e-4 at omega .1:
    # std(1e-3, 1e-2) = 6.36e-3, so -0.707107 becomes -0.706996.
    def scores(**options):
        return graphgpo(table, omega=omega, unit=unit, eps=0.0, **options)

    assert scores(beta_episode=0.0) == column("adv_graph_sample_std")
    assert scores(beta_graph=0.0) == column("adv_episode_sample_std")
    assert scores() == column("adv_total_sample_std")
    assert scores(ddof=0, beta_episode=0.0) == column("adv_graph_population_std")
    close(graphgpo(table, omega=omega, unit=unit), scores(), 1.2e-4)


#: iStar's and PRIME's, in the files of answers.
BETA = 0.05


def _same(ours, *keys):
    # The file holds eight significant digits.
    np.testing.assert_allclose(ours, oracles.answers(oracles.PAPER, *keys), rtol=1e-7, atol=1e-7)


def _step_rewards():
    return BETA * (oracles.token_logprobs("prm") - oracles.token_logprobs("old")).sum(1)


def _token_rewards():
    return BETA * (oracles.token_logprobs("prm") - oracles.token_logprobs("init"))


def test_istar_and_scores_of_a_judge() -> None:
    _same(_step_rewards(), "istar", "step_reward")
    _same(_token_rewards()[mask()], "prime", "token_reward")
    _same(istar(table(), scores=_step_rewards()), "istar", "advantage")
    _same(istar(table(), scores=_step_rewards(), alpha_trajectory=0.0), "istar", "step_adv")
    _same(istar(table(), scores=_step_rewards(), alpha=0.0), "istar", "episode_adv")
    options = {"scores": _step_rewards(), "relative": "rloo"}
    _same(istar(table(), **options, alpha_trajectory=0.0), "istar", "step_adv_rloo")
    _same(istar(table(), **options, alpha=0.0), "istar", "episode_adv_rloo")
    judge = oracles.scores("judge")
    assert set(judge) == {-1.0, 0.0, 1.0}
    _same(process_reward(table(), scores=judge), "scores", "reward", "advantage")
    _same(process_reward(table(), scores=judge, alpha_trajectory=0.0), "scores", "reward", "step_adv")
    to_go = process_reward(table(), scores=judge, alpha_trajectory=0.0, horizon="to_go", gamma=0.95)
    _same(to_go, "scores", "return", "step_adv")
    _same(process_reward(table(), scores=judge, alpha_trajectory=0.0, compare="state"), "scores", "state", "step_adv")


@pytest.mark.parametrize(("whiten", "key"), [(False, "advantage"), (True, "advantage_whitened")])
def test_prime(whiten, key):
    # The reference was given one case at a time, which whitening sees.
    rewards, replies = _token_rewards(), mask()
    ours = [prime(of, scores=rewards[rows], mask=replies[rows], whiten=whiten)[replies[rows]] for of, rows in batches()]
    _same(np.concatenate(ours), "prime", key)


FILE = "paper_reference"


def _nine(ours, *keys):
    """The file holds nine decimals."""
    close(ours, answers(FILE, *keys))


def _same_nodes(graph, per_node, key, *inner):
    for group, result in enumerate(load(FILE)["results"]):
        expected = {k: np.inf if v is None else v for k, v in result[key][inner[0]].items()}
        assert graph.by_state(per_node, group) == pytest.approx(expected, abs=1e-9), result["case_id"]


def test_grpo_rloo_gigpo_and_rewardflow_of_paper_reference() -> None:
    _nine(grpo(table()), "gigpo", "episode_adv|std")
    _nine(grpo(table(), std="none"), "gigpo", "episode_adv|no_std")
    _nine(grpo(table(), outcome="won"), "rewardflow", "traj_adv")
    close(rloo(table()), answers(FILE, "gigpo", "episode_adv|no_std") * 8 / 7, 2e-9)
    _nine(gigpo(table()), "gigpo", "adv|std")
    _nine(gigpo(table(), std="none"), "gigpo", "adv|no_std")
    _nine(gigpo(table(), omega=0.0), "gigpo", "episode_adv|std")
    _nine(rewardflow(table()), "rewardflow", "adv_visits")
    _nine(rewardflow(table(), alpha_trajectory=0.0), "rewardflow", "action_adv_visits")
    _nine(rewardflow(table(), alpha_action=0.0), "rewardflow", "traj_adv")
    _nine(rewardflow(table(), alpha_trajectory=0.0, unit="edge"), "rewardflow", "action_adv_edges")
    credit = rewardflow_values(table())
    _nine(credit.step_reward, "rewardflow", "step_reward")
    _same_nodes(credit.graph, credit.distance, "rewardflow", "distance")
    _same_nodes(credit.graph, credit.value, "rewardflow", "value")


@pytest.mark.parametrize("omega", [0.1, 0.2, 0.8])
def test_graphgpo_of_paper_reference(omega):
    key = f"graphgpo|omega={omega}"
    _nine(graphgpo(table(), omega=omega, beta_episode=0.0), key, "adv_edges")
    _nine(graphgpo(table(), omega=omega, beta_episode=0.0, unit="visit"), key, "adv_visits")
    _nine(graphgpo(table(), omega=omega, beta_graph=0.0), key, "traj_adv")
    total = answers(FILE, key, "adv_edges") + answers(FILE, key, "traj_adv")
    close(graphgpo(table(), omega=omega), total, 2e-9)
    credit = graphgpo_values(table(), omega=omega)
    _nine(credit.step_reward, key, "step_reward")
    _same_nodes(credit.graph, credit.distance, key, "distance")
