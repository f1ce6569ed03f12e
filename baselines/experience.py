"""The episodes of an iteration, and how they are played while another iteration's update runs.

    staleness 0   | play 0 | update 0 | play 1 | update 1 | play 2 | update 2 |
    staleness 1   | play 0 | update 0 | update 1 | update 2 |
                           | play 1 ->| play 2 ->|
    staleness 2   | play 0 | play 1 | update 0 | update 1 | update 2 |
                                    | play 2 ->| play 3 ->|

With a staleness of s (asynchronous training: Noukhovitch et al., ICLR 2025) batch i is min(i, s) updates old. Its loss
is weighted by how much more probable its tokens are now (`baselines.losses.correction`). The age does not depend on
timing. A batch holds all episodes of its groups, so that short episodes are not preferred.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from agentgym.adapter import adapt
from agentgym.outside.text import read_json
from agentgym.trajectory import StepTable
from baselines.config import TrainerConfig
from baselines.evaluation import Evaluation
from baselines.play.dynamic_sampling import sample_groups
from baselines.play.rollouts import Envs, Timed, check_lanes, episodes_of, play_groups
from baselines.records.metrics import Row
from baselines.scorers.scorer import ScorerConfig
from wrappers.credit.group import has_contrast

_Made = TypeVar("_Made")
_FILE = "experience"


@dataclass(frozen=True, eq=False)
class Experience:
    """The episodes of an iteration, and the entries of its log row about them.

    Attributes:
        outcomes, resampling: figures of the first round, and of later ones.
        generator: random generator that drew tasks and seeds, and shuffles the mini-batches next.
    """

    table: StepTable
    outcomes: Row
    resampling: Row
    played: int
    tokens: int
    seconds: float
    seconds_generation: float
    generator: np.random.Generator

    def save(self, folder: Path, number: int = 0) -> None:
        path = _path(folder, number)
        self.table.to_jsonl(path.with_suffix(".jsonl"))
        rest = {name: value for name, value in vars(self).items() if name not in ("table", "generator")}
        rest["generator"] = json.dumps(self.generator.bit_generator.state)  # as text: it has integers of 128 bits
        path.write_text(json.dumps(rest), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> list[Experience]:
        """Read all files that `save` has written, by number.

        Raises:
            ValueError: a file holds something else.
        """
        found: list[Experience] = []
        while (path := _path(folder, len(found))).exists():
            rest = read_json(path.read_bytes())
            generator = np.random.default_rng()
            generator.bit_generator.state = json.loads(rest.pop("generator"))
            found.append(cls(table=StepTable.from_jsonl(path.with_suffix(".jsonl")), generator=generator, **rest))
        return found


def _path(folder: Path, number: int) -> Path:
    return folder / (f"{_FILE}-{number}.json" if number else f"{_FILE}.json")


def gather(
    envs: Envs, policy: Any, tasks: Sequence[Mapping[str, Any]], config: TrainerConfig, iteration: int, credit: Any,
    progress: Callable[[int], None] | None = None,
) -> Experience:  # fmt: skip
    """Play the episodes of an iteration, a function of the weights, the seed and the iteration's number.

    Args:
        iteration: counted from 0.
    """
    begin, generator = time.perf_counter(), np.random.default_rng([config.seed, iteration])
    # Cached logits of a validation would differ in the last bit from those that a resumed run computes.
    getattr(policy, "forget", lambda: None)()
    timed, more = Timed(policy), schedule(credit, iteration, config)
    sample = sample_groups(
        lambda chosen, seed: play_groups(envs, timed, [{**one, **more} for one in chosen], config, seed, progress),
        tasks, config.groups, generator, rounds=config.rollout.resample_rounds,
        contrast=getattr(credit, "contrasting", has_contrast),
    )  # fmt: skip
    getattr(policy, "forget", lambda: None)()  # frees the memory of the kept keys for the update
    first = Evaluation.from_table(episodes_of(sample.first, config.groups * config.group_size))
    return Experience(
        table=sample.table, outcomes=first.summary() | ({"contrast": first.contrast} if config.group_size > 1 else {}),
        resampling={"groups_resampled": float(sample.resampled), "groups_flat": float(sample.flat)},
        played=sample.played, tokens=timed.tokens, seconds=time.perf_counter() - begin,
        seconds_generation=timed.seconds, generator=generator,
    )  # fmt: skip


def adapted(envs: Envs, policy: Any, credit: Any, config: TrainerConfig) -> tuple[Envs, Any]:
    """Return the environments of a run, adapted where needed, and the first of them.

    Raises:
        TypeError: the policy is to play while it is trained, and cannot act with a copy of its weights, see
            `policies.training.at_rest`.
        ValueError: see `baselines.play.rollouts.check_lanes`; or, with a staleness, the credit's scorer asks the
            environments, which play at that time, or a partner in them plays with the weights that are being changed.
    """
    check_lanes(envs, config)
    lanes: Envs = [adapt(each) for each in envs] if isinstance(envs, Sequence) else adapt(envs)
    scorer = getattr(credit, "scorer", None)
    if isinstance(scorer, ScorerConfig) and type(scorer).around is not ScorerConfig.around:
        if isinstance(lanes, Sequence):
            raise ValueError(f"{type(scorer).__name__} notes what is played: expected one lane, got {len(lanes)}")
        lanes = scorer.around(lanes)
    first = lanes[0] if isinstance(lanes, Sequence) else lanes
    if not config.rollout.staleness:
        return lanes, first
    if not hasattr(policy, "with_model"):
        raise TypeError(f"staleness needs a policy with with_model(model), {type(policy).__name__} has none")
    policy.with_model(policy.model)
    if isinstance(scorer, ScorerConfig) and type(scorer).make_in is not ScorerConfig.make_in:
        raise ValueError(
            f"staleness: {type(scorer).__name__} asks the environments, which play meanwhile: set staleness=0"
        )
    inside: Any = first.unwrapped
    partners = inside.get_attr("partner") if all(inside.call("has_wrapper_attr", "partner")) else ()
    for partner in partners:
        if getattr(getattr(partner, "policy", None), "model", None) is policy.model:
            raise ValueError(
                f"staleness: {type(partner).__name__} plays with the weights that are being trained: set "
                "staleness=0, or give it a policy of its own"
            )
    return lanes, first


def schedule(credit: Any, iteration: int, config: TrainerConfig) -> Mapping[str, Any]:
    """Return the reset options that a credit method adds to training tasks in an iteration; none by most."""
    return getattr(credit, "schedule", lambda *_: {})(iteration, config.iterations)


class _GivenUpError(Exception):
    """The result is no longer needed."""


@contextlib.contextmanager
def beside(make: Callable[[Callable[[int], None]], _Made]) -> Iterator[Future[_Made]]:
    """Run something in a thread while the block runs; when the block ends, it has ended as well.

    Args:
        make: receives a function that it must call regularly; that function raises once the block has failed.
    """
    given_up = threading.Event()

    def check(_: int) -> None:
        if given_up.is_set():
            raise _GivenUpError

    with ThreadPoolExecutor(1, thread_name_prefix="experience") as pool:
        future = pool.submit(make, check)
        try:
            yield future
        except BaseException:
            given_up.set()
            raise
