"""A run loses nothing: killed or out of space at any point of a write, or with a second trainer in its folder."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentgym.outside.files import LockedError
from baselines.records.metrics import read_log
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor, digest, repeatable, trainer
from tests.refusals import refuses

#: Calls of the system that write, by which a run is cut.
WRITES = ("os.fsync", "os.replace", "os.rename")


class Cut(BaseException):
    """What a kill looks like from inside: nothing catches it."""


@pytest.mark.parametrize("error", [Cut(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "full disk"])
def test_a_cut_at_any_write_is_made_good_by_resuming(tmp_path: Path, monkeypatch: Any, error: BaseException) -> None:
    settings: dict[str, Any] = {"iterations": 2, "checkpoint.every": 1, "checkpoint.keep": 1, "validation.every": 0}
    settings |= {"envs": corridor(limit=1)}  # what is played and learned does not matter, as long as weights move
    straight, made, number = babbling_policy(), 0, 0
    expected = trainer(straight, folder=tmp_path / "straight", **settings).run()
    assert digest(straight) != digest(babbling_policy())

    def watched(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made == number or (made > number and isinstance(error, OSError)):  # a full disk stays full
                raise error
            return real(*arguments, **named)

        return call

    while made >= number:
        number, made = number + 1, 0
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch, contextlib.suppress(type(error)):
            for name in WRITES:
                patch.setattr(name, watched(getattr(os, name.removeprefix("os."))))
            trainer(folder=folder, **settings).run()
        resumed = babbling_policy()
        rows = trainer(resumed, folder=folder, resume=True, **settings).run()
        assert digest(resumed) == digest(straight)
        assert repeatable(rows) == repeatable(read_log(folder / "log.jsonl")) == repeatable(expected)
        assert sorted(path.name for path in folder.iterdir()) == [
            "checkpoint-000002", "final", "log.jsonl", "trainer.lock"
        ]  # fmt: skip
    assert 10 < number < 80


def test_two_trainers_of_one_process_do_not_mix(tmp_path: Path) -> None:
    def second(*_: Any) -> None:
        refuses(LockedError, f"in use by process {os.getpid()}", other.run)

    first, other = trainer(folder=tmp_path, iterations=2), trainer(folder=tmp_path, iterations=2)
    rows = first.run(second)
    saved = (tmp_path / "checkpoint-000002" / "seal.json").read_bytes()
    # It was made when the folder was empty, and would begin anew over a finished run.
    refuses(ValueError, r"another trainer has written to .* make this one again with resume=True", other.run)
    assert (tmp_path / "checkpoint-000002" / "seal.json").read_bytes() == saved
    assert repeatable(read_log(tmp_path / "log.jsonl")) == repeatable(rows)
    assert repeatable(first.run()) == repeatable(rows)


def test_weights_that_are_not_numbers_are_named_before_and_after_an_update(tmp_path: Path) -> None:
    for value in (float("nan"), float("inf")):
        policy = babbling_policy()
        name, weight = list(policy.model.named_parameters())[3]
        with torch.no_grad():
            weight.view(-1)[5] = value
        refuses(FloatingPointError, f"the policy's {name} holds {value}", trainer, policy)
    given = {"learning_rate": 1e39, "loss": {"kl": 0.0}, "optimiser": {"minibatch_rows": 1000}}
    words = r"the update was too large: the policy's model\.\S+ holds (inf|nan)"
    refuses(FloatingPointError, words, trainer(folder=tmp_path, **given).run)
    assert not list(tmp_path.glob("checkpoint*"))
    assert (tmp_path / "trainer.lock").read_text() == ""  # no process is there any more


def test_the_best_policy_and_the_final_one_are_models_of_plain_transformers(tmp_path: Path) -> None:
    policy = babbling_policy()
    rows = trainer(policy, folder=tmp_path, iterations=4, validation_tasks=TASKS, validation={"every": 1}).run()
    final = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    for name, value in policy.model.state_dict().items():
        assert torch.equal(final.state_dict()[name], value)
    # The first of the iterations with the best greedy validation, the start left out.
    greedy = [row["validation_greedy_success"] for row in rows[1:]]
    assert [path.name for path in tmp_path.glob("best-*")] == [f"best-{1 + greedy.index(max(greedy)):06d}"]
    trainer(folder=tmp_path, iterations=6, validation_tasks=TASKS, resume=True, validation={"every": 1}).run(
        lambda *_: False
    )
    assert not (tmp_path / "final").exists()  # it goes on: what was final is not


def test_what_others_have_put_into_the_folder_of_a_run_stays(tmp_path: Path) -> None:
    for name in ("final", "best-photos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("mine")
    (tmp_path / "best-of.txt").write_text("mine")
    with pytest.warns(UserWarning, match=r"final held thesis\.txt, .* kept as final\.kept-1$"):
        trainer(folder=tmp_path, iterations=3, validation_tasks=TASKS, validation={"every": 1}).run()
    for name in ("final.kept-1/thesis.txt", "best-photos/thesis.txt", "best-of.txt"):
        assert (tmp_path / name).read_text() == "mine"
    assert len([path for path in tmp_path.glob("best-0*") if path.is_dir()]) == 1


def test_a_run_is_resumed_with_the_policy_that_it_began_with(tmp_path: Path) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    with pytest.raises(ValueError, match=r"start: checkpoint [0-9a-f]{16}, here [0-9a-f]{16}"):
        trainer(babbling_policy(seed=5), folder=tmp_path, iterations=2, resume=True)
    # Without a divergence the start is of no importance: all comes from the checkpoint.
    straight, other = babbling_policy(), babbling_policy(seed=5)
    trainer(straight, folder=tmp_path / "a", iterations=2, loss={"kl": 0.0}).run()
    trainer(folder=tmp_path / "b", iterations=1, loss={"kl": 0.0}).run()
    trainer(other, folder=tmp_path / "b", iterations=2, resume=True, loss={"kl": 0.0}).run()
    assert digest(other) == digest(straight)


def test_a_run_of_an_earlier_version_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"old")
    refuses(ValueError, r"already holds a training run", trainer, folder=tmp_path)
    refuses(ValueError, r"checkpoint\.pt is a checkpoint of an earlier version", trainer, folder=tmp_path, resume=True)
