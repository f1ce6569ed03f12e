"""Trainer: collect groups, give credit, update, repeat.

    tasks -> play_groups -> StepTable -> learner -> row of the log -> callbacks, checkpoint
                 |
           dynamic sampling

An iteration is a function of the weights, the optimiser's state, the seed and the iteration's number. A resumed run
therefore equals an uninterrupted one, bit for bit on a CPU.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from agentgym.outside.files import fingerprint, locked
from agentgym.trajectory import Floats, StepTable
from baselines.config import TRAINING_RULES, TrainerConfig
from baselines.evaluation import at_temperature, validate
from baselines.experience import Experience, adapted, beside, gather, schedule
from baselines.learner import Credit, Learner
from baselines.play.rollouts import Envs, steps_to_branch_at
from baselines.records.checkpoint import (
    OLD_FILE,
    STATE_FILE,
    Checkpoint,
    best_policies,
    checkpoints,
    deferred,
    describe_credit,
    describe_run,
    load_checkpoint,
    remove_leftovers,
    remove_policy,
    save_checkpoint,
    save_policy,
)
from baselines.records.metrics import LOG_FILE, MetricsLog, Row
from baselines.records.utilisation import PeakMemory, update_figures
from baselines.records.watch import kept_in, unfinished, watch
from baselines.scorers.scorer import StepScorer
from policies.scoring.head import check_finite
from policies.training import at_rest, check_trainable, load_trained_state, trained_state
from policies.training import fingerprint as fingerprint_of_weights
from wrappers.reply import parses_replies

#: The policy at the end of a run.
FINAL_FOLDER = "final"
#: Key of the row by which the best policy is chosen.
_BEST = "validation_greedy_success"
#: Lock file of a running trainer; it names the process.
LOCK_FILE = "trainer.lock"


class Callback(Protocol):
    """Receives every new row of a run, with the table it was computed from, and can end the run."""

    def __call__(self, trainer: Trainer, table: StepTable | None, row: Row, /) -> bool | None:
        """Receive the row of an iteration.

        Returns:
            False ends the run after this iteration, with a checkpoint from which it can be resumed.
        """


class Trainer:
    """Trains a policy with one credit method.

    The folder holds `log.jsonl`, with one row per iteration; the checkpoints, such as `checkpoint-000010`; and two
    model folders, `best-000010` (best greedy validation) and `final`. Ctrl-C and SIGTERM end the run after the current
    iteration, with a checkpoint. Only one trainer can use a folder at a time. A run is resumed with the policy it
    started from. Each warning of `baselines.records.watch` is given once, as a Python warning and as a key of the row.
    Row 0 describes the policy before the first update. Keys:

    - "success", "mean_return", "episode_length", "invalid_rate": of the iteration's episodes before any group was
      replaced; "contrast", the share of groups whose episodes differ in success or return;
    - what `baselines.update.update` and the scorer's update return; "steps", "rows" (distinct rows trained on),
      "steps_per_row" (of scored rows), "distinct_prompts", "signal" (share of steps with a nonzero advantage),
      "learning_rate"; "warning_*", 1 where a warning was given;
    - depending on the configuration: "groups_resampled" (played after the first round), "groups_flat" (trained on
      without contrast), "cut_off" (share of replies truncated at the length limit), "prompt_too_long" (share of
      episodes that ended for this reason), "probe_mean" and "probe_max" (`baselines.learner.Learner.probe`);
    - "tokens", the number of reply tokens, continuations and replaced groups included;
    - "seconds_*" and "share_*" (percent) for environment (wrappers and recording included), generation, credit (costs
      of replies and scores included), update (batching, reference and scorer included); "seconds" of training so far,
      without validation; "seconds_processor"; "seconds_scorer"; with a staleness of 1 "seconds_waiting" for episodes;
    - "tokens_per_second" (reply tokens per second of generation), "steps_per_second", "update_tokens_per_second";
      "memory_*", and on a GPU "share_peak_flops", see `baselines.records.utilisation`;
    - "validation_greedy_*" and "validation_sampled_*" (at the rollout temperature), and "seconds_validation".

    Args:
        policy: with `model`, `score`, `with_settings` and `act`, such as `policies.huggingface.HuggingFacePolicy`;
            trained in place.
        envs: environments for `agentgym.rollout.collect`: autoreset DISABLED, wrapped for the policy. A sequence of
            them is played as independent lanes, see `agentgym.rollout.lanes.collect_lanes`.
        credit: function from a table to its advantages, (N,) or, per reply token, (N, K); nan = not scored. Usually a
            `baselines.recipes.definition.Recipe`. If it has a `score_level` ("turn" or "token"), the trainer calls
            `estimate(table, scores)`, see `baselines.scorers.scorer.Estimate`. The methods `contrasting(table)` and
            `schedule(iteration, iterations)` are optional and have the meaning that they have in a recipe.
        tasks: reset options to draw training tasks from.
        scorer: computes the scores for a credit with a `score_level`; None: the credit's `scorer` makes a new one.
        validation_tasks: reset options of the validation tasks, all played at each validation; empty: no validation.
        folder: folder of the log and the checkpoints; None: nothing is written.
        resume: resume from the folder's newest checkpoint; without a checkpoint, start a new run.

    Raises:
        TypeError: the credit is not callable.
        ValueError: no tasks; unknown steps to branch at; unsupported lanes or staleness
            (`baselines.experience.adapted`); the folder holds a run and `resume` is False; a checkpoint that is
            damaged or of another run; or a trainable weight has fewer than 32 bits.
        FloatingPointError: a weight of the policy, as given or as resumed, is not finite; the message names it.
    """

    def __init__(
        self, policy: Any, envs: Envs, credit: Credit, tasks: Sequence[Mapping[str, Any]], config: TrainerConfig, *,
        scorer: StepScorer | None = None, validation_tasks: Sequence[Mapping[str, Any]] = (),
        folder: str | Path | None = None, resume: bool = False, tensorboard: bool = False,
    ) -> None:  # fmt: skip
        if not len(tasks):
            raise ValueError("there are no training tasks; give reset options such as [{'split': 'train', 'index': 0}]")
        if not callable(credit):
            raise TypeError(
                f"credit must be a function of a StepTable, got {credit!r}; baselines.recipes.recipe(NAME) is the one "
                "of a name"
            )
        check_trainable(policy.model)
        steps_to_branch_at(config.rollout.branch_at)
        self.policy = policy
        self.envs, first = adapted(envs, policy, credit, config)
        settings = getattr(policy, "settings", None)
        prefix = getattr(settings, "prefix", "")
        if "<" in prefix and not parses_replies(first):
            warnings.warn(
                f"Trainer: the policy's replies begin with {prefix!r}, and nothing in {first} reads them: every action "
                "will be refused; wrap it, VectorPromptWindow(VectorReplyParser(envs))",
                stacklevel=2,
            )
        self.credit = credit
        self.tasks = tasks
        self.config = config
        self.validation_tasks = validation_tasks
        self.folder = None if folder is None else Path(folder)
        self.iteration, self.tokens, self.seconds = 0, 0, 0.0
        self._new_rules: Row = {}
        self._ahead: list[Experience] = []
        self.advantages: Floats | None = None
        self._sampler = at_temperature(policy, config.temperature)
        self._greedy = at_temperature(policy, 0.0)
        self.learner = Learner(policy, credit, config, scorer, first)
        # KL terms refer to the start policy, which checkpoints do not hold. Another start policy is another run.
        reference = self.learner.reference
        own = reference is None or reference.model is policy.model  # the base model is an adapter's start policy
        self._start = None if own else fingerprint_of_weights(reference.model.named_parameters())
        self.log = MetricsLog(self.folder, tensorboard=tensorboard)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            saved = bool(checkpoints(self.folder)) or (self.folder / OLD_FILE).exists()
            if resume and saved:
                self._load(load_checkpoint(self.folder, self._identity()))
            elif saved or (not resume and (self.folder / LOG_FILE).exists()):
                raise ValueError(f"{self.folder} already holds a training run; pass resume=True or another folder")
        check_finite(policy.model, "the policy's")
        self._found = self._on_disk()

    def run(self, *callbacks: Callback) -> list[Row]:
        """Train up to `config.iterations` and return all rows of the run, resumed ones included.

        Args:
            *callbacks: called with every new row, see `Callback`.

        Raises:
            KeyboardInterrupt: after SIGINT, at the end of the current iteration, with the checkpoint written.
            SystemExit: after SIGTERM, at the end of the current iteration, with status 143.
            FloatingPointError: training diverged; the last checkpoint is unchanged.
            LockedError: another trainer is running in the folder; the message names its process.
            ValueError: another trainer has written to the folder since this one was made, or the log is damaged.
            OSError: the folder cannot be written, for example because the disk is full; the run can be resumed.
        """
        if not self.config.iterations:
            warnings.warn("Trainer.run: iterations=0, the policy is validated and not trained", stacklevel=2)
        with contextlib.nullcontext() if self.folder is None else locked(self.folder / LOCK_FILE, wait=False):
            if self._found != self._on_disk():
                raise ValueError(
                    f"another trainer has written to {self.folder} since this one was made: "
                    "make this one again with resume=True"
                )
            try:
                return self._run(callbacks)
            finally:
                self._found = self._on_disk()

    def _run(self, callbacks: Sequence[Callback]) -> list[Row]:
        if self.folder is not None:
            remove_leftovers(self.folder, keep=self.config.checkpoint.keep)
        begun = self.iteration
        self.log.resume(self.iteration if self.log_is_kept else -1)
        if self.config.token_budget is not None and any(
            "tokens" not in row for row in self.log.rows if row["iteration"]
        ):
            raise ValueError(
                f"{self.folder}: the log of this run holds no tokens, so that token_budget={self.config.token_budget} "
                "cannot be kept: go on without it, or begin in another folder"
            )
        self.tokens = int(sum(row.get("tokens", 0.0) for row in self.log.rows))
        if any(row.get("probe_weights") for row in self.log.rows):
            self.learner.weigh()
        if not self.is_over and self.log.rows:  # the run had ended, and is extended now
            self.log.amend(unfinished(self.log.rows))
        if self.folder is not None and not self.is_over:
            remove_policy(self.folder / FINAL_FOLDER)
        try:
            with deferred() as interruption:
                start: Row = {"iteration": 0, "training_rules": TRAINING_RULES}
                going = bool(self.log.rows) or self._record(start | self._validate(), None, callbacks)
                while going and not self.is_over and interruption.signal is None:
                    before = self.tokens
                    table, row = self._iterate()
                    self.tokens += int(row["tokens"])
                    if self._due(self.config.validation.every) or self._passed(before, self.config.validation.tokens):
                        row |= self._validate()
                    self._keep_best(row)
                    warned = watch([*self.log.rows, row], over=self.is_over, kept=kept_in(self.folder))
                    going = self._record(row | self._new_rules | dict.fromkeys(warned, 1.0), table, callbacks)
                    self._new_rules = {}
                    if self._due(self.config.checkpoint.every) or interruption.signal is not None or not going:
                        self._save()
                    for words in warned.values():
                        warnings.warn(f"{self.folder or 'training'}, iteration {self.iteration}: {words}", stacklevel=3)
                self._finish(begun)
            interruption.raise_if_asked()
        finally:
            self.log.close()
        return self.log.rows

    @property
    def log_is_kept(self) -> bool:
        """Whether the rows on disk belong to this run, which was then resumed from a checkpoint."""
        return self.iteration > 0

    @property
    def is_over(self) -> bool:
        """Whether the run has used up its iterations or its token budget."""
        budget = self.config.token_budget
        return self.iteration >= self.config.iterations or (budget is not None and self.tokens >= budget)

    def _iterate(self) -> tuple[StepTable, Row]:
        config, begin, processor = self.config, time.perf_counter(), time.process_time()
        memory = PeakMemory(next(self.policy.model.parameters()).device)
        while len(self._ahead) < max(config.rollout.staleness, 1) and self._wanted(len(self._ahead)):
            self._ahead.append(self._gather(self._sampler, self.iteration + len(self._ahead)))
        experience = self._ahead.pop(0)
        collected = time.perf_counter()
        memory.end("generation")
        probed = {}
        every = config.rollout.probe_every
        # Stale replies are those of older weights, and differ. The first are not stale yet.
        due = every and self.iteration % every == 0 and not (config.rollout.staleness and self.iteration)
        if due or getattr(getattr(self.policy, "sampler", None), "failed", False):
            probed = self.learner.probe(experience.table)
        with self._next_beside(experience.tokens) as following:
            lesson = self.learner.learn(experience.table, self.iteration, experience.generator, self.tokens)
            learned = time.perf_counter()
        if following is not None:
            self._ahead.append(following.result())
        self.advantages = lesson.advantages
        end = time.perf_counter() if config.rollout.staleness else learned
        memory.end("update")
        played = experience.seconds if config.rollout.staleness else collected - begin
        updating = learned - collected - lesson.seconds_credit
        self.iteration += 1
        self.seconds += end - begin
        spent = {
            "environment": played - experience.seconds_generation,
            "generation": experience.seconds_generation,
            "credit": lesson.seconds_credit,
            "update": updating,
        }
        return lesson.table, {
            "iteration": self.iteration,
            **experience.outcomes,
            **lesson.figures,
            **probed,
            **(experience.resampling if config.rollout.resample_rounds else {}),
            "tokens": float(experience.tokens),
            "tokens_per_second": experience.tokens / max(experience.seconds_generation, 1e-9),
            "steps_per_second": experience.played / (end - begin),
            **update_figures(self.policy.model, lesson.lengths, config.optimiser.epochs, updating),
            **memory.figures,
            "seconds": self.seconds,
            "seconds_processor": time.process_time() - processor,
            **{f"seconds_{name}": value for name, value in spent.items()},
            **({"seconds_waiting": end - learned} if config.rollout.staleness else {}),
            **{f"share_{name}": 100 * value / (end - begin) for name, value in spent.items()},
        }

    def _gather(self, player: Any, iteration: int, progress: Callable[[int], None] | None = None) -> Experience:
        found = gather(self.envs, player, self.tasks, self.config, iteration, self.credit, progress)
        self._let_rest()
        return found

    def _let_rest(self) -> None:
        """Let an engine on the same card free its memory until replies are asked for again."""
        rest = getattr(getattr(self.policy, "sampler", None), "rest", None)
        if rest is not None:
            rest()

    def _next_beside(self, tokens: int) -> contextlib.AbstractContextManager[Future[Experience] | None]:
        following = self.config.rollout.staleness
        if not following or not self._wanted(following, tokens):
            return contextlib.nullcontext(None)
        player = at_temperature(at_rest(self.policy), self.config.temperature)
        return beside(lambda check: self._gather(player, self.iteration + following, check))

    def _wanted(self, later: int, tokens: int = 0) -> bool:
        budget = self.config.token_budget
        spent = self.tokens + tokens + sum(one.tokens for one in self._ahead)
        return self.iteration + later < self.config.iterations and (budget is None or spent < budget)

    def _validate(self) -> Row:
        if not len(self.validation_tasks):
            return {}
        begin = time.perf_counter()
        players = {"greedy": self._greedy, "sampled": self._sampler}
        row = validate(self.envs, players, self.validation_tasks, seed=self.config.seed)
        self._let_rest()
        return row | {"seconds_validation": time.perf_counter() - begin}

    def _due(self, every: int) -> bool:
        return self.is_over or (every > 0 and self.iteration % every == 0)

    def _passed(self, before: int, every: int) -> bool:
        return every > 0 and self.tokens // every > before // every

    def _record(self, row: Row, table: StepTable | None, callbacks: Sequence[Callback]) -> bool:
        self.log.append(row)
        answers = [callback(self, table, row) for callback in callbacks]
        return all(answer is not False for answer in answers)

    def _on_disk(self) -> list[str]:
        if self.folder is None:
            return []
        paths = [*(path / STATE_FILE for path in checkpoints(self.folder)[-1:]), self.folder / LOG_FILE]
        return [fingerprint(path) if path.exists() else "" for path in paths]

    def _identity(self) -> dict[str, Any]:
        tasks = [list(self.tasks), list(self.validation_tasks)]
        own = {
            "start": self._start,
            "iterations": self.config.iterations if schedule(self.credit, 0, self.config) else None,
            "lanes": "several" if isinstance(self.envs, Sequence) and len(self.envs) > 1 else None,  # other draws
            "scorer": None if self.learner.scorer is None else self.learner.scorer.describe(),
        }
        described = describe_run(self.policy, self.config, describe_credit(self.credit), tasks)
        return described | {name: value for name, value in own.items() if value is not None}

    def _save(self) -> None:
        if self.folder is None:
            return
        save_checkpoint(
            self.folder,
            Checkpoint(
                identity=self._identity(), iteration=self.iteration, seconds=self.seconds,
                model=trained_state(self.policy.model), optimizer=self.learner.optimizer.state_dict(),
                scorer=None if self.learner.scorer is None else self.learner.scorer.state_dict(), ahead=self._ahead,
            ),
            keep=self.config.checkpoint.keep,
        )  # fmt: skip

    def _finish(self, begun: int) -> None:
        if self.folder is None or not self.is_over or not hasattr(self.policy, "save_pretrained"):
            return
        if self.iteration > begun or not (self.folder / FINAL_FOLDER).exists():
            save_policy(self.policy, self.folder / FINAL_FOLDER)

    def _keep_best(self, row: Row) -> None:
        earlier = [one[_BEST] for one in self.log.rows if one["iteration"] > 0 and one.get(_BEST) is not None]
        if self.folder is None or _BEST not in row or not hasattr(self.policy, "save_pretrained"):
            return
        if row[_BEST] > max(earlier, default=-math.inf):
            path = self.folder / f"best-{self.iteration:06d}"
            save_policy(self.policy, path)
            for other in best_policies(self.folder):
                if other != path:
                    remove_policy(other)

    def _load(self, checkpoint: Checkpoint) -> None:
        load_trained_state(self.policy.model, checkpoint.model)
        self.learner.optimizer.load_state_dict(checkpoint.optimizer)
        if self.learner.scorer is not None and checkpoint.scorer is not None:
            self.learner.scorer.load_state_dict(checkpoint.scorer)
        self.iteration, self.seconds, self._ahead = checkpoint.iteration, checkpoint.seconds, list(checkpoint.ahead)
        if checkpoint.training_rules != TRAINING_RULES:
            self._new_rules = {"training_rules": TRAINING_RULES}
            warnings.warn(
                f"{self.folder} was trained by rules {checkpoint.training_rules} and continues by {TRAINING_RULES}, "
                "see baselines.config.TRAINING_RULES: compare it with no run of one alone",
                stacklevel=3,
            )
