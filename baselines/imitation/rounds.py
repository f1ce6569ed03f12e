"""Training by a method of imitation: its rounds, with validation, a log, and checkpoints.

A round is a function of the weights, the seed, its number and the method's state, so that a run can be resumed.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.outside.files import locked
from baselines.evaluation import at_temperature, validate
from baselines.imitation.method import Imitation, Round, Setting, silent
from baselines.records.checkpoint import (
    Checkpoint,
    checkpoints,
    deferred,
    describe_run,
    load_checkpoint,
    save_checkpoint,
)
from baselines.records.metrics import MetricsLog, Row
from policies.scoring.head import check_finite
from policies.training import check_trainable, fingerprint, load_trained_state, trained_beside, trained_state

#: Lock file of a run.
LOCK_FILE = "running.lock"


def train_in_rounds(
    policy: Any, method: Imitation, setting: Setting, *, validation_tasks: Sequence[Mapping[str, Any]] = (),
    folder: str | Path | None = None, tensorboard: bool = False, about: Mapping[str, str] | None = None,
    progress: Callable[[int, int, int, str], None] | None = None,
) -> list[Row]:  # fmt: skip
    """Train a policy in place, and return one row for the start and one per round.

    Args:
        policy: the clone, with `model` and `score`, such as `policies.huggingface.HuggingFacePolicy`.
        method: the method, for instance `baselines.recipes.methods.method("rft")`.
        validation_tasks: reset options of the tasks to validate on before the first round and after each.
        folder: folder of log and checkpoints, from which the same call resumes; None: nothing is written.
        tensorboard: see `baselines.records.metrics.MetricsLog`.
        progress: called with the number of finished rounds, work done in the current round, its total, and a text.

    Returns:
        Rows with "iteration", the number of finished rounds, "seconds" of training so far, the method's figures, and
        "validation_greedy_success" and more, as a `Trainer` logs them.

    Raises:
        KeyboardInterrupt: after SIGINT, at the end of the current round, with its checkpoint written.
        ValueError: the folder holds another run, or the weights have fewer than 32 bits.
        FloatingPointError: training diverged; the last checkpoint is unchanged.
        LockedError: another process is using the folder.
    """
    check_trainable(policy.model)
    place = None if folder is None else Path(folder)
    tasks = [list(setting.tasks), list(validation_tasks)]
    start = trained_beside(policy) if method.needs_start else None
    if start is not None:
        start.model.requires_grad_(False)
    identity = describe_run(policy, setting.training, method.describe(), tasks)
    identity |= {"seed": setting.seed, "start": fingerprint(policy.model.named_parameters())}
    players = {
        "greedy": at_temperature(policy, 0.0), "sampled": at_temperature(policy, setting.training.temperature)
    }  # fmt: skip
    validated = functools.partial(validate, setting.envs, players, validation_tasks, seed=setting.seed)
    done, seconds, state = 0, 0.0, dict[str, Any]()
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext() if place is None else locked(place / LOCK_FILE, wait=False):
        if place is not None and checkpoints(place):
            found = load_checkpoint(place, identity)
            load_trained_state(policy.model, found.model)
            done, seconds, state = found.iteration, found.seconds, found.optimizer
        log = MetricsLog(place, tensorboard=tensorboard)
        log.about = dict(about or {})
        log.resume(done if done else -1)
        try:
            with deferred() as interruption:
                if not done:
                    log.append({"iteration": 0, "seconds": 0.0, **validated()})
                while done < method.rounds and interruption.signal is None:
                    begin = time.perf_counter()
                    seed = int(np.random.SeedSequence([setting.seed, done]).generate_state(1)[0])
                    tell = functools.partial(progress, done) if progress else silent
                    part = Round(policy, start, setting, done, seed, state, tell)
                    figures = method.learn(part)
                    check_finite(policy.model, "the round was too large: the policy's")
                    done, seconds, state = done + 1, seconds + time.perf_counter() - begin, part.state
                    row = {"iteration": done, "seconds": seconds, **figures}
                    log.append(row | validated())
                    if place is not None:
                        save_checkpoint(place, Checkpoint(identity, done, seconds, trained_state(policy.model), state))
            interruption.raise_if_asked()
        finally:
            log.close()
    return log.rows
