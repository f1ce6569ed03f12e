"""What credit is held against, by hand and against naive twins: truths, distances, gradients, graphs, measures."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr

from baselines.play.values import monte_carlo
from benchmarks.json_files import ResultsError, write_json
from benchmarks.statistics import Interval, bootstrap_weights
from benchmarks.truth import gradients
from benchmarks.truth.combinations import PUBLISHED, STUDY, Contest, Place
from benchmarks.truth.credits import (
    BASELINE,
    CHOSEN,
    COMBINATIONS,
    OWN,
    SETS,
    credits_called,
    graph_else_vine,
    names_of,
)
from benchmarks.truth.episodes import make_config, play_scripted, scripted_of, tasks_of
from benchmarks.truth.graphs import Diagnosis, diagnose
from benchmarks.truth.measures import MEASURES, Comparisons, Sample, centred_ranks, intervals, measures
from benchmarks.truth.processes import LOST, PROCESSES, WON, Process, delayed, recovery, varying
from benchmarks.truth.truths import Truth, agreement, ceiling
from policies.scripted import NoisyExpert
from tests.baselines.configs import config_of
from tests.benchmarks.command import run
from tests.distances import distance_changes, state_distances
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.gigpo import gigpo, step_level
from wrappers.credit.group import split_groups
from wrappers.credit.method import Credit
from wrappers.credit.rloo import rloo
from wrappers.distance import Distances, distance_gains, kinds_of_steps


@pytest.fixture(scope="module")
def played():
    return play_scripted("sokoban", 0.3, 4, 4, seed=1)


def test_values_of_an_optimal_player_are_discounted_distances_and_common_numbers_common_luck(played):
    """It needs d steps: V = gamma^(d - 1), if that many are left; and 0 in a dead end."""
    table, gamma = played.table, 0.5
    values = monte_carlo(dataclasses.replace(played, policy=NoisyExpert(1.0)), 2, (gamma, 1.0), "won", seed=0)
    distance = state_distances(table)
    before, after = distance[table.state], distance[table.next_state]
    # States are continued from their earliest visit.
    first = {}
    for row in np.argsort(table.t, kind="stable"):
        first.setdefault((table.group[row], table.state[row]), table.t[row])
    left = 20 - np.array([first[key] for key in zip(table.group, table.state, strict=True)])
    q = np.where(after + 1 <= left, gamma**after, 0.0)
    v = np.where(before <= left, gamma ** (before - 1), 0.0)
    np.testing.assert_allclose(values.advantages(0), q - v, atol=1e-8)
    np.testing.assert_allclose(values.advantages(1), (after + 1 <= left) * 1.0 - (before <= left))
    # In a dead end this player draws, but nothing is won.
    assert (values.errors(0) == 0).all()
    # Common numbers: continuations of a state that begin with a choice return what those of the choice return.
    values = monte_carlo(played, 8, (0.9,), "won", seed=0)
    independent = np.sqrt(values.of_choices[:, :, 0].var(1) + values.of_states[values.state_of, :, 0].var(1))
    assert (values.of_choices - values.of_states[values.state_of])[:, :, 0].std(1).mean() < 0.9 * independent.mean()
    np.testing.assert_array_equal(values.of_choices, monte_carlo(played, 8, (0.9,), "won", seed=0).of_choices)
    assert (values.of_choices != monte_carlo(played, 8, (0.9,), "won", seed=1).of_choices).any()


def test_the_ceiling_of_noise():
    """Many states of 4 actions; values, and noise in either half, have variance 1."""
    rng = np.random.default_rng(0)
    n, per = 4000, 4
    values = rng.standard_normal((n, per)).ravel()
    halves = [values + rng.standard_normal(n * per) for _ in range(2)]
    states = np.repeat(np.arange(n), per)
    table = filled(state=states, group=states // 100, trajectory=range(n * per), action=np.tile(np.arange(per), n))
    weights = bootstrap_weights(table.n_groups, 100, 0)
    truth = Truth("value", np.mean(halves, axis=0), tuple(halves), np.ones(n * per))
    found = ceiling(agreement(truth, table, table, weights)["within"])
    same = agreement(dataclasses.replace(truth, halves=(values, values)), table, table, weights)
    # What is estimated: how well the values themselves rank what is known of them; generous for few steps.
    direct = Comparisons.of(table, table.group, truth.values).sums(values).sum(0)
    assert direct[0] / direct[1] == pytest.approx(0.69, abs=0.01)
    assert 0 < found.mean - direct[0] / direct[1] < 0.07
    assert found.mean < np.sqrt(2 / 3)  # Pearson's correlation, over all states at once
    assert found.low < found.mean < found.high
    assert ceiling(same["within"]).mean == same["sign_all"].mean == pytest.approx(1.0)
    assert agreement(dataclasses.replace(truth, halves=None), table, table, weights) == {}
    assert ceiling(None) is None


# One box in a corridor of two rows: the box must go right; in a corner or along the lower wall it is lost.
START = "######\n#P__O#\n#_X__#\n#____#\n######"
DEAD = "######\n#___O#\n#_P__#\n#_X__#\n######"  # pushed down to the lower wall: no target there
SOLVED = "######\n#___√#\n#___P#\n#____#\n###### [success]"


def table_of(steps):
    columns = dict(zip(("state", "action", "next_state"), zip(*steps, strict=True), strict=True))
    return filled(trajectory=range(len(steps)), group=["g"] * len(steps), **columns)


def test_changes_and_bounds_by_hand() -> None:
    # From START: the box at row 2, column 2 must go two cells right and one up. Pushing right twice takes the player
    # down, right, right: box at column 4, player at column 3; then down, right, up: 6 moves in all, and no way is
    # shorter, because the three pushes need the player on the box's left and then below it.
    below = START.replace("P", "_").replace("#_X", "#PX")
    right = "######\n#_P_O#\n#_X__#\n#____#\n######"
    above_pushed = DEAD
    table = table_of([
        (START, "down", below), (START, "right", right), (START, "up", START), (right, "down", above_pushed),
        (above_pushed, "up", DEAD.replace("_P_", "___").replace("#___O#", "#_P_O#")), (below, "up", START),
    ])  # fmt: skip
    distance = state_distances(table)
    named = dict(zip(table.states, distance.tolist(), strict=True))
    assert (named[START], named[below], named[right], named[DEAD]) == (6, 5, 7, np.inf)
    # One nearer, one farther, nothing, into a dead end, within it nothing, one farther.
    assert distance_changes(table, distance).tolist() == [1, -1, 0, -np.inf, 0, -1]
    assert state_distances(table_of([(SOLVED.removesuffix(" [success]").replace("√", "O").replace("___P", "__XP"),
                                      "x", SOLVED)]))[1] == 0  # fmt: skip
    table, inf = filled(group=["g"] * 3, state=["s", "u", "v"], next_state=["u", "v", "w"]), np.inf
    found = {("g", "s"): (2.0, 2.0), ("g", "u"): (inf, inf), ("g", "v"): (inf, inf), ("g", "w"): (1.0, inf)}
    np.testing.assert_array_equal(distance_gains(table, found), [-inf, 0.0, np.nan])
    asked = []
    env = SimpleNamespace(distance=lambda: asked.append(1) or 3.0)
    wrapper = object.__new__(Distances)
    wrapper.found = {}
    object.__setattr__(wrapper, "env", SimpleNamespace(unwrapped=SimpleNamespace(envs=[env, env])))
    wrapper.begin([0, 1], SimpleNamespace(entry=lambda name, i: {"task_id": "g", "state_key": "s"}.get(name)))
    assert wrapper.found == {("g", "s"): (3.0, 3.0)}
    assert len(asked) == 1


def test_distances_of_the_environment_are_those_of_the_solver(played):
    table, found = played.table, played.envs.found
    distance = state_distances(table)
    expected = distance_changes(table, distance)
    assert np.isneginf(expected).any()
    np.testing.assert_array_equal(distance_gains(table, found), expected)
    shares = kinds_of_steps(table, found)
    assert (shares["dead"], shares["stuck"]) == (np.isneginf(expected).mean(), np.isinf(distance[table.state]).mean())
    assert sum(shares[name] for name in ("gained", "unchanged", "lost", "dead")) == 1


def episodes_of(process):
    """All episodes by enumeration: probability, steps (state, action) and whether it was won."""
    open_ones = [(1.0, 0, [])]
    for t in range(process.horizon):
        going = []
        for p, state, steps in open_ones:
            for action in np.flatnonzero(process.policy[state]):
                for after in np.flatnonzero(process.moves[state, action]):
                    q = p * process.policy[state, action] * process.moves[state, action, after]
                    taken = [*steps, (state, action)]
                    if after >= len(process.policy) or t == process.horizon - 1:
                        yield q, taken, after == len(process.policy)
                    else:
                        going.append((q, after, taken))
        open_ones = going


@pytest.mark.parametrize("make", [lambda: Process.of(0, varying, 5), lambda: Process.of((0, False), recovery, 5)])
def test_the_exact_gradient_is_that_of_all_episodes(make):
    process = make()
    total, won, gradient = 0.0, 0.0, np.zeros_like(process.policy)
    for p, steps, success in episodes_of(process):
        total, won = total + p, won + p * success
        for state, action in steps:
            score = -process.policy[state]
            score[action] += 1
            gradient[state] += p * success * score
    assert total == pytest.approx(1)
    assert process.values[1][0, 0] == pytest.approx(won)
    np.testing.assert_allclose(process.gradient, gradient, atol=1e-12)


def test_advantages_measures_and_errors_by_hand() -> None:
    process = Process.of("start", delayed, 6)
    # With the key .9, without it .2, either one time in two: .55.
    assert process.values[1][0, 0] == pytest.approx(0.55)
    assert dict(zip(process.actions, process.advantages[0, 0], strict=True)) == pytest.approx(
        {"take": 0.35, "leave": -0.35, "left": -0.55, "right": -0.55}  # the last two are not admissible
    )
    assert not process.advantages[1:5, 1:][:, :, 2:][process.visits[1:5, 1:] > 0].any()
    process = Process.of(0, varying, 5)
    # Short: .5. Long: four times one in two to go on, .5^4; the mean is .28125.
    assert process.values[1][0, 0] == pytest.approx((0.5 + 0.0625) / 2)
    assert process.advantages[0, 0, :2].tolist() == pytest.approx([0.21875, -0.21875])
    # With three steps left, two rooms are out of reach of the limit.
    process = Process.of((0, False), recovery, 3)
    assert process.values[1][:, 0].tolist() == pytest.approx([0.125, 0.0, 0.0])
    process = Process.of((0, False), recovery, 8)
    assert dict(zip(process.states, process.distances[:-2].tolist(), strict=True)) == {
        (0, False): 3, (1, False): 2, (2, False): 1, (0, True): 4, (1, True): 3, (2, True): 2
    }  # fmt: skip
    lost = Process.of(0, lambda state: {"jump": [(0.5, WON), (0.5, LOST)]}, 2)
    table = lost.play(64, np.random.default_rng(0))
    assert (set(lost.distance_gain(table)[table.won]), set(lost.distance_gain(table)[~table.won])) == ({1.0}, {-1.0})
    # Two groups with gradients (1, 1) and (1, 0) against (1, 0): mean (1, .5), variance .5, cosines .7071 and 1.
    sums = {
        "gradient": np.array([2.0, 1.0]), "groups": np.array([2.0, 1 + 0.5**0.5, 3.0]),
        "rows": np.array([3.0, 5.0, 5.0, 4.0, 1.0]),
    }  # fmt: skip
    length = 1.25 - 0.5 / 2
    expected = [(1 + 0.5**0.5) / 2, 0.0, (0.5 / length) ** 0.5, 0.8, 0.25]
    np.testing.assert_allclose(gradients.measures_of(sums, np.array([1.0, 0.0])), expected)
    process = Process.of(0, varying, 5)
    # Q and V of the steps: (.5, .28125) and (.0625, .28125) one in two each at the start, and so on below.
    assert process.sampling_error(256) == pytest.approx(2 * process.sampling_error(1024))
    one = Process.of(0, lambda state: {"jump": [(0.5, WON), (0.5, LOST)]}, 1)
    assert one.sampling_error(2) == pytest.approx(0.5)  # (1/4 + 1/4) / 2 = .5^2


@pytest.mark.parametrize("name", ["recovery", "frozen lake", "sokoban 0"])
def test_sampled_gradients_of_true_advantages_have_the_exact_mean(name):
    process = PROCESSES[name]()
    table = process.play(4096, np.random.default_rng(1))
    assert table.trajectory_won.mean() == pytest.approx(process.values[1][0, 0], abs=0.04)
    found = gradients.group_gradients(process, split_groups(table, 2), process.truth(table), 2)
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    often = (process.visits.sum(0)[:, None] * process.policy).ravel() > 0.01  # else too rare for an error
    often &= error > 1e-9
    z = (found.mean(0) - process.gradient.ravel())[often] / error[often]
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() == pytest.approx(1, abs=0.6)


def test_leave_one_out_is_unbiased_and_a_reversed_credit_is_not():
    process, batches = PROCESSES["recovery"](), 8
    table = split_groups(process.play(4096, np.random.default_rng(2)), 4)
    exact, credit = process.gradient.ravel(), rloo(table, outcome="won")

    def measured(values):
        return gradients.jackknife(gradients.batch_sums(process, table, values, 4, batches), exact)

    ours, reversed_, truth = measured(credit), measured(-credit), measured(process.truth(table))
    assert ours["bias"].mean < 0.1
    assert ours["cosine"].mean == pytest.approx(-reversed_["cosine"].mean)
    assert (reversed_["bias"].mean, reversed_["error"].mean) == (1, 1)
    assert (truth["error"].mean, truth["leakage"].mean) == (0, 0)
    assert truth["cosine"].mean > ours["cosine"].mean
    assert measured(np.full(len(table), np.nan))["leakage"] is None


def test_the_command_and_its_page(tmp_path):
    found = gradients.STUDY.play(gradients.configure(quick=True, process=["varying length"]), tmp_path)
    again = gradients.STUDY.load(tmp_path / "gradients.json")
    assert dataclasses.replace(again, created="") == dataclasses.replace(found, created="")
    page = tmp_path / "results" / "gradients.md"
    page.parent.mkdir()
    (tmp_path / "images").mkdir()
    page.write_text("# Title\n\n<!-- gradients -->\n<!-- end of gradients -->\n")
    gradients.STUDY.command(out=None, page=page, rebuilt=tmp_path / "gradients.json", quick=False)
    first = page.read_bytes()
    gradients.STUDY.command(out=None, page=page, rebuilt=tmp_path / "gradients.json", quick=False)
    assert page.read_bytes() == first
    assert first.count(b"**software**") == 1
    assert len(gradients.page(found).reported) == 14


def test_graphs_are_counted() -> None:
    table = play_scripted("sokoban", 0.3, 4, 4, seed=1).table
    found = diagnose(table, 4)
    visits = {}
    for row in range(len(table)):
        visits.setdefault((table.group[row], table.state[row]), []).append(row)
    shared = sum(len(rows) for rows in visits.values() if len({table.trajectory[row] for row in rows}) > 1)
    assert found.shared == pytest.approx(shared / len(table))
    assert found.singletons == pytest.approx(sum(len(rows) == 1 for rows in visits.values()) / len(table))
    assert 0 < found.singletons < 1 - found.shared
    assert 0 <= found.ties <= 1
    # Two episodes from s: up leads to u and on to the goal, left to the pit.
    table = episodes("s -up-> u -on-> goal +", "s -left-> pit")
    # Two of three steps begin in the shared s. One pair of actions, of which one leads to success: no tie.
    assert diagnose(table, 2) == Diagnosis(size=2, shared=2 / 3, singletons=1 / 3, ties=0.0, mixed=1.0)


MOVES = scripted_of("sokoban").others


def texts(optimal, advice, seed=0):
    infos, player = {"expert_action": np.array(advice, dtype=object)}, NoisyExpert(optimal, MOVES)
    return [reply.text for reply in player.act([""] * len(advice), infos, np.random.default_rng(seed))]


def test_players_and_tasks() -> None:
    assert texts(1.0, ["up"] * 50) == ["up"] * 50
    # A dead end has no optimal move: all four come up.
    assert set(texts(1.0, [""] * 50)) == {"up", "down", "left", "right"}
    # With probability .6 the expert's, and with .4 / 4 = .1 the same move by chance: .7 of 20,000, standard deviation
    # sqrt(.7 * .3 / 20,000) = .0032.
    played = texts(0.6, ["left"] * 20_000)
    assert played.count("left") / len(played) == pytest.approx(0.7, abs=0.015)
    for other in ("up", "down", "right"):
        assert played.count(other) / len(played) == pytest.approx(0.1, abs=0.015)
    for one, other in zip(texts(0.5, ["up"] * 40), texts(0.5, ["down"] * 40), strict=True):
        assert one == other or (one, other) == ("up", "down")
    assert tasks_of("sokoban", 1) == [{"split": "validation", "index": 0}]
    assert tasks_of("alfworld", 1) == [{"split": "valid_unseen", "index": 256}]
    assert tasks_of("alfworld", 1, "test") == [{"split": "valid_unseen", "index": 0}]
    for optimal in (-0.1, 1.1):
        refuses(ValueError, "probability", NoisyExpert, optimal)


def test_weights_are_part_of_the_configuration_and_files_of_players_distinct(tmp_path):
    """Jobs as far as a configuration looks at them."""
    write_json(config_of("sokoban"), tmp_path / "config.json")
    for name in ("job", "expert-50"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "config.json").write_text("{}", encoding="utf-8")
    assert make_config(envs=["sokoban"]).weights is None
    found = []
    for weights in (b"1", b"1", b"2"):
        (tmp_path / "job" / "model" / "model.safetensors").write_bytes(weights)
        found.append(make_config(envs=["sokoban"], models=[tmp_path / "job"]))
    assert found[0] == found[1] != found[2]
    assert found[0].models == found[2].models
    for models, words in (
        ([tmp_path / "expert-50"], "the name 'expert-50' is taken by the player 'expert 50'"),
        ([tmp_path / "job", tmp_path / "job" / "model"], "the name 'job' is taken"),
        ([tmp_path], "job folder of a learning benchmark"),
    ):
        refuses(ResultsError, words, make_config, envs=["sokoban"], models=models)
    with pytest.raises(ResultsError, match="a policy for sokoban; this study plays webshop"):
        make_config(envs=["webshop"], models=[tmp_path / "job"])


def comparisons(truth, sets, task=None):
    task = [0] * len(truth) if task is None else task
    rows = np.arange(len(truth))
    return Comparisons(rows, np.array(truth, float), np.array(task), np.array(sets), max(task) + 1, max(sets) + 1)


def found(truth, credit, sets, task=None, smallest=None):
    own = comparisons(truth, sets, task)
    sample = Sample(own, own if smallest is None else comparisons(truth, smallest, task))
    return dict(zip(MEASURES, measures(sample.sums(np.array(credit, float)).sum(0)).tolist(), strict=True))


def test_measures_by_hand() -> None:
    # Set 0: truth 1, 0, -1 with credit .5, .5, -1. Ranks of the truth 3, 2, 1; of the credit 2.5, 2.5, 1. Centred:
    # (1, 0, -1) and (.5, .5, -1): product 1.5, squares 2 and 1.5, correlation 1.5 / sqrt(3) = .866025.
    # Set 1: truth 1, -inf with credit -1, 1: correlation -1. Set 2: truth 1, 1: nothing to rank.
    truth, credit = [1, 0, -1, 1, -math.inf, 1, 1], [0.5, 0.5, -1, -1, 1, 0, 2]
    result = found(truth, credit, [0, 0, 0, 1, 1, 2, 2])
    # Weighted by rows: (3 * .866025 - 2) / 5.
    assert result["within"] == result["same"] == pytest.approx((3 * 1.5 / math.sqrt(3) - 2) / 5)
    # Truth is not 0 in six rows; their credits .5 right, -1 right, -1 wrong, 1 wrong, 0, 2 right.
    assert (result["sign"], result["sign_all"]) == (pytest.approx(3 / 5), pytest.approx(3.5 / 6))
    assert result["coverage"] == pytest.approx(6 / 7)
    # Overall ranks of the truth: -inf 1, -1 2, 0 3, the four 1s 5.5; of the credit: -1 twice 1.5, 0 3, .5 twice 4.5,
    # 1 6, 2 7.
    assert result["overall"] == pytest.approx(
        np.corrcoef([5.5, 3, 2, 5.5, 1, 5.5, 5.5], [4.5, 4.5, 1.5, 1.5, 6, 3, 7])[0, 1]
    )
    result = found([1, -1], [0, 0], [0, 0])
    assert (result["within"], result["overall"], result["coverage"], result["sign_all"]) == (0, 0, 0, 0.5)
    assert math.isnan(result["sign"])
    result = found([1, 1], [1, 2], [0, 0])
    assert math.isnan(result["within"])
    assert math.isnan(result["overall"])
    assert result["sign"] == 1
    assert found([1, -1], [0.1 + 0.2, 0.3], [0, 0])["within"] == 0
    assert found([1, -1], [1e-12, -1e-12], [0, 0])["coverage"] == 0
    assert found([1, -1], [math.nan, -1], [0, 0]) == found([1, -1], [0, -1], [0, 0])
    # In groups of two, rows 0-1 and 2-3 are compared; the credit ranks both pairs right, and only the larger group
    # sees that -1 got more than 1: truth ranks 3.5, 1.5, 3.5, 1.5, credit ranks 2, 1, 4, 3: centred products
    # -.5 + 1.5 + 1.5 - .5 = 2 over sqrt(4 * 5).
    result = found([1, -1, 1, -1], [2, 1, 4, 3], [0, 0, 0, 0], smallest=[0, 0, 1, 1])
    assert (result["same"], result["within"]) == (1, pytest.approx(2 / math.sqrt(20)))


def naive(truth, credit, sets):
    """The measures by loops over rows and sets."""
    credit = [0.0 if math.isnan(c) else round(c, 9) for c in credit]
    weighted = rows = 0.0
    for name in sorted(set(sets)):
        x = [c for c, s in zip(credit, sets, strict=True) if s == name]
        y = [t for t, s in zip(truth, sets, strict=True) if s == name]
        if len(set(y)) > 1:
            rows += len(x)
            weighted += len(x) * (spearmanr(x, y).statistic if len(set(x)) > 1 else 0.0)
    both = [(c, t) for c, t in zip(credit, truth, strict=True) if c != 0 and t != 0]
    points = [0.5 if c == 0 else float((c > 0) == (t > 0)) for c, t in zip(credit, truth, strict=True) if t != 0]
    return {
        "within": weighted / rows,
        "overall": spearmanr(credit, truth).statistic,
        "sign": sum((c > 0) == (t > 0) for c, t in both) / len(both),
        "coverage": sum(c != 0 for c in credit) / len(credit),
        "sign_all": sum(points) / len(points),
    }


@pytest.mark.parametrize("seed", range(2))
def test_agreement_with_loops(seed):
    rng = np.random.default_rng(seed)
    n = 200
    sets = rng.integers(0, 40, n)
    truth = rng.choice([-math.inf, -3, -1, 0, 1], n)
    credit = rng.choice([-1.5, -1, 0, 0.5, 2, math.nan], n) + rng.choice([0, 1e-13], n)
    task = sets // 8
    result = found(truth.tolist(), credit, sets.tolist(), task.tolist())
    for name, value in naive(truth.tolist(), credit.tolist(), sets.tolist()).items():
        assert result[name] == pytest.approx(value, abs=1e-12), name


def test_rankings_and_differences() -> None:
    rng = np.random.default_rng(1)
    truth, credit = rng.choice([-math.inf, -1, 0, 1], 60), rng.choice([-2.0, -1, 0, 1, 3], 60)
    sets = rng.integers(0, 10, 60).tolist()
    one, other = found(truth, credit, sets), found(truth, np.sign(credit) * credit**2, sets)
    assert one == pytest.approx(other)
    assert centred_ranks(np.array([3.0, 1.0, 3.0, 9.0]), np.array([1, 1, 1, 0]), 2).tolist() == [0.5, -1, 0.5, 0]
    # Two tasks, credit right in one and wrong in the other: a resample holds the right one 0, 1 or 2 times of 2.
    sample = comparisons([1, -1, 1, -1], [0, 0, 1, 1], [0, 0, 1, 1])
    sums = Sample(sample, sample).sums(np.array([1.0, -1, -1, 1]))
    weights = bootstrap_weights(2, 400, seed=0)
    assert (weights.sum(1) == 2).all()
    assert set(measures(weights @ sums)[:, 0].tolist()) == {-1, 0, 1}
    interval = intervals(sums, weights)["within"]
    assert (interval.low, interval.mean, interval.high) == (-1, 0, 1)
    assert np.array_equal(weights, bootstrap_weights(2, 400, seed=0))
    sample = comparisons([1, -1, 1, -1], [0, 0, 1, 1], [0, 0, 1, 1])
    sample = Sample(sample, sample)
    one, other = sample.sums(np.array([1.0, -1, -1, 1])), sample.sums(np.array([2.0, -3, -4, 5]))
    weights = bootstrap_weights(2, 100, seed=0)
    difference = intervals(one, weights, other)["within"]
    assert (difference.low, difference.mean, difference.high) == (0, 0, 0)
    sample = comparisons([1, 1], [0, 0])
    sums = Sample(sample, sample).sums(np.zeros(2))
    result = intervals(sums, bootstrap_weights(1, 10, 0))
    assert (result["within"], result["sign"], result["coverage"].mean) == (None, None, 0)
    halves = split_groups(GROUPS, 2)
    assert (halves.group.tolist(), halves.groups) == ([0, 2, 0, 2, 1, 3, 1, 3], ((0, 0), (0, 1), (1, 0), (1, 1)))
    assert np.array_equal(split_groups(GROUPS, 4).group, GROUPS.group)
    refuses(ValueError, "cannot be cut into parts of 3", split_groups, GROUPS, 3)
    truth = np.array([1.0, 2.0, 3.0, 4.0, math.nan, 5.0, 6.0, 7.0])
    known = Comparisons.of(GROUPS, GROUPS.group, truth)
    assert known.rows.tolist() == [0, 1, 2, 3, 5, 6, 7]
    # The credit of the row that is left out does not count.
    one, other = np.arange(8.0), np.array([0, 1, 2, 3, 99, 5, 6, 7.0])
    assert np.array_equal(Sample(known, known).sums(one), Sample(known, known).sums(other))


# Two groups of four episodes of one step, in mixed order.
GROUPS = filled(group=[0, 1] * 4, trajectory=range(8), won=[1, 0, 0, 0, 1, 0, 1, 0])


OPTIONS = ("study", "combinations", "--quick", "--split", "test", "--env", "sokoban", "--out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("combinations") / "study"
    run(*OPTIONS, place)
    return place


@pytest.fixture(scope="module")
def combinations(folder):
    return STUDY.load(folder / "combinations.json")


def test_where_no_player_wins_often_there_is_no_table_and_the_best_published_is_no_own_one(combinations) -> None:
    """What the combinations of Sokoban come to is in the golden studies/combinations."""
    page = STUDY.shown(
        dataclasses.replace(combinations, contests=[Contest("searchqa", "value", {"random": 0.0}, [], 0.0)])
    )
    assert "In searchqa no player wins that often" in page.lead
    assert not page.tables

    def place(name, rank):
        interval = None if rank is None else Interval(rank, rank, rank)
        return Place(name, "step", 8, {"within": interval}, {"within": interval})

    contest = Contest("sokoban", "distance", {}, [
        place("grpo", 0.1), place("graphgpo step", 0.3), place("graphgpo_filled", 0.9), place("hgpo step", None),
        place(CHOSEN, 0.8),
    ], 0.0)  # fmt: skip
    assert contest.best_published("within", 8).credit == "graphgpo step"
    refuses(KeyError, "no 'salt' at group size 8", contest.place, "salt", 8)
    assert {credit.method for credit in PUBLISHED}.isdisjoint({*OWN, *(each.method for each in COMBINATIONS)})


# Both ways lead from "s"; the winner goes right. One state visited twice, the others once.
TABLE = episodes("s -right-> u -up-> goal +", "s -left-> pit")
# Right wins once and loses once, left loses.
BRANCHED = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")


OLDER, RECENT = SETS["published"], SETS["2026"]


def test_credits_by_hand() -> None:
    for name in SETS:
        names = names_of(name)
        assert len(set(names)) == len(names)
        assert BASELINE in names
    assert [credit.name for credit in OLDER if credit in RECENT] == [
        "grpo", BASELINE, "graphgpo step", "rewardflow step",
    ]  # fmt: skip
    assert {*OLDER, *RECENT} == {*SETS["all"]}
    refuses(ResultsError, "unknown set of credits 'new'; known: 'methods', 'published', '2026'", names_of, "new")
    names = ["empg", "grpo", "vine", "random"]
    assert [credit.name for credit in credits_called(names, learned=True)] == ["empg", "grpo"]
    assert [credit.name for credit in credits_called(names, learned=False)] == ["grpo"]
    # Returns .95 and 0 at "s": -/+ half of .95 over .95 / sqrt(2): .7071; "u" was visited once.
    assert step_level(TABLE) == pytest.approx([0.70711, 0, -0.70711], abs=1e-5)
    for preset in ("paper", "authors"):
        whole, episode = gigpo(TABLE, preset=preset), gigpo(TABLE, preset=preset, omega=0.0)
        assert step_level(TABLE, preset=preset) == pytest.approx(whole - episode, abs=1e-12)
    for credit in OLDER:
        values = credit.give(TABLE)
        assert values[0] > values[2], credit.name
        if credit.part == "step":
            assert values[1] == 0, credit.name
        elif credit.part in ("episode", "total"):
            assert values[1] > 0, credit.name
    names = [credit.name for credit in OLDER if credit.part == "fitted"]
    assert names == [
        "agentprm", "value_gain", "attribution", "attribution, centred", "graphgpo_filled", "graphgpo_filled, raw",
        "graphgpo_filled, raw centred",
    ]  # fmt: skip
    vine = Credit("vine", "branches", "", lambda table: np.array([9.0, 0.5, np.nan]))
    # Only "up" is not compared: a tenth of what the continuations say.
    assert graph_else_vine(vine).give(TABLE) == pytest.approx([0.7071, 0.05, -0.7071], abs=1e-4)


@pytest.mark.parametrize("credit", RECENT, ids=lambda credit: credit.name)
def test_every_credit_knows_the_better_of_two_ways(credit):
    values = credit.give(BRANCHED)
    assert values.shape == (5,)
    assert values[1] > values[3]  # up and down
    assert np.isfinite(values).all()
