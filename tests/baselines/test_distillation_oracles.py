"""The published functions' recorded answers; see docs/credit/privileged.md for what is a method here and what is not.

Methods that were left out (Skill-SD, SDPG, prime-rl's ref_kl) are put together of the parts they share.
"""

import json
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trajectory import StepTable
from baselines.distillation import contrast_target, divergence, importance, on, sampled_token, supported
from baselines.losses import clipped_surrogate
from baselines.losses import divergence as estimate
from baselines.scorers.privileged import beliefs
from tests.oracles import FOLDER, oracle
from tests.playing import filled
from wrappers.credit.grpo import grpo
from wrappers.credit.rlcsd import contrasts_of, rlcsd
from wrappers.credit.rlsd import faded, rlsd
from wrappers.credit.turn_credit import smeared, turn_credit

PATH = FOLDER / "privileged" / "oracles.json"
DATA: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {"cases": [], "fixtures": {}}
FIXTURES = DATA["fixtures"]
#: All but those of which nothing is computed here.
CASES = [case for case in DATA["cases"] if not case["name"].startswith(("opid", "sdar_gate"))]


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def rows(rewards: Any, group: Any = None, lengths: Any = None) -> StepTable:
    """One episode per reward, which its last step earns."""
    at = [(i, t) for i, n in enumerate(lengths or [1] * len(rewards)) for t in range(n)]
    after = [(i, t + 1) for i, t in at]
    return filled(
        trajectory=[i for i, _ in at], t=[t for _, t in at], group=[group[i] if group else "g" for i, _ in at],
        state=[*map(str, at)], next_state=[*map(str, after)], won=[bool(rewards[i]) for i, _ in at],
        reward=[0 if each in at else rewards[each[0]] for each in after],
    )  # fmt: skip


# -- losses over distributions --------------------------------------------------------------------------------------


def distributions(case: Any) -> Any:
    fixture, options = FIXTURES[case["inputs"]], case["options"]
    heat = options.get("temperature", 1.0)
    s, t = (tensor(fixture[f"{who}_logits"]).div(heat).log_softmax(-1) for who in ("student", "teacher"))
    return fixture, s, t, tensor(fixture["ids"]).long()[..., None]


def token_losses(case: Any) -> torch.Tensor:
    options = case["options"]
    fixture, s, t, ids = distributions(case)
    y, z = s.gather(-1, ids)[..., 0], t.gather(-1, ids)[..., 0]
    if options.get("sampled") or case["name"] == "trl_sampled_token":
        found = sampled_token(y, z)
    elif "strength" in options:
        _, t, chosen = supported(s, t, options["k"], of="teacher")
        wrong = on(tensor(fixture["wrong_logits"]).log_softmax(-1), chosen, True)
        target, weight = contrast_target(t, wrong, options["strength"], options["floor"])
        found = weight * divergence(on(s, chosen, True), target, options["alpha"], options["entry_clip"])
    else:
        if options.get("k"):
            s, t, _ = supported(s, t, options["k"], of=options["support"], tail=options["tail"])
        found = divergence(s, t, options["alpha"], options.get("entry_clip"))
    return found * importance(y, tensor(fixture["old_logprobs"]), options["clip"]) if "clip" in options else found


def distilled(case: Any) -> dict[str, Any]:
    options = case["options"]
    if case["name"] == "trl_importance_clip_2":
        fixture, s, _, ids = distributions(case)
        return {"per_token": importance(s.gather(-1, ids)[..., 0], tensor(fixture["old_logprobs"]), 2.0)}
    losses, fixture = token_losses(case), FIXTURES[case["inputs"]]
    mask = tensor(fixture["mask"]) * tensor(options.get("distilled_rows", [1] * len(fixture["ids"])))[:, None]
    sums, counts = (losses * mask).sum(1), mask.sum(1)
    by_token = options.get("aggregation") == "token mean"
    found = {"per_token": losses, "masked_sum": sums.sum()}
    found["loss"] = sums.sum() / counts.sum().clamp(min=1) if by_token else (sums / counts.clamp(min=1)).mean()
    if "gradient_by_logits_row0_token0" in case["outputs"]:
        logits = tensor(fixture["student_logits"])[0, 0].requires_grad_()
        _, _, t, ids = distributions(case)
        sampled_token(logits.log_softmax(-1)[ids[0, 0]], t[0, 0][ids[0, 0]]).sum().backward()
        found["gradient_by_logits_row0_token0"] = logits.grad
    return {name: found[name] for name in case["outputs"]}


# -- losses and advantages of sampled tokens -------------------------------------------------------------------------


class Tokens:
    def __init__(self) -> None:
        given = FIXTURES["tokens"]
        self.s, self.o, self.t = (tensor(given[name]) for name in ("student", "old", "teacher"))
        self.mask, self.a = tensor(given["mask"]), tensor(given["advantage"])
        self.action, self.kl = np.array(given["action"]) > 0, tensor(given["kl"])
        valid = np.array(given["wrong_valid"]).T[:, :, None] > 0
        self.wrong = np.where(valid, np.swapaxes(np.array(given["wrong"]), 0, 1), np.nan)
        self.table = rows([1.0, 0.0, 0.0])
        self.given = {"advantages": given["advantage"], "mask": np.array(given["mask"]) > 0}

    def gaps(self, kept: Any = True) -> Any:
        return np.where(kept, (self.t - self.s).numpy(), np.nan)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        return (values * self.mask).sum() / self.mask.sum()

    def surrogate(self, advantages: Any, s: torch.Tensor | None = None, **clip: float) -> torch.Tensor:
        a = torch.as_tensor(advantages)
        return clipped_surrogate(((self.s if s is None else s) - self.o).exp(), a.clamp(min=0), a.clamp(max=0), **clip)


def of_tokens(case: Any) -> dict[str, Any]:
    name, o, x = case["name"], case["options"], Tokens()
    numbers = {"lam": o.get("lam"), "band": o.get("band"), "fade": 0}
    if name.startswith("rlcsd_repo_rlsd"):
        gaps = x.t.numpy() - x.wrong[0] if "wrong" in o["gap"] else x.gaps()
        return {"loss": x.mean(x.surrogate(rlsd(x.table, gaps=gaps, **x.given, **numbers)))}
    if name.startswith("rlcsd_loss"):
        contrasts = contrasts_of(x.t.numpy(), x.wrong)
        given = {name: o[f"rlcsd_{name}"] for name in ("tau", "beta", "lam", "delta", "eta")}
        given |= {"low": o["rlcsd_residual_clip_low"], "high": o["rlcsd_residual_clip_high"]}
        pushed = np.clip(o["rlcsd_beta"] * o["rlcsd_lam"] * np.tanh(contrasts / o["rlcsd_tau"]), -2, 2)
        chosen = (np.abs(pushed) > o["rlcsd_delta"]) & x.given["mask"]
        loss = x.mean(x.surrogate(rlcsd(x.table, contrasts=contrasts, **x.given, **given)))
        return {"loss": loss, "selected": chosen.sum(), "hints_mean": np.mean((~np.isnan(x.wrong[:, :, 0])).sum(0))}
    if name.startswith("sdar_repo_rlsd"):
        return {"advantage": rlsd(x.table, gaps=x.gaps(), **x.given, **numbers)}
    if name.startswith("serl_adv"):
        kept = x.action & (np.array(o["rows"]) > 0)[:, None]
        numbers |= {"fade": o["decay"], "update": o["step"]}
        return {"advantage": rlsd(x.table, gaps=x.gaps(kept), **x.given, **numbers)}
    if name == "serl_lambda":
        return {"lam": [faded(o["lam"], o["decay"], step) for step in o["steps"]]}
    if name == "prime_rl_rlcsd_signal":
        return {"signal": contrasts_of(x.t.numpy(), x.wrong)[o["row"]]}
    if name.startswith("prime_rl_rlcsd_adv"):
        signal = contrasts_of(x.t.numpy(), x.wrong)[[o["row"]]]
        given = {key: o[key] for key in ("lam", "tau", "delta", "eta")}
        found = rlcsd(rows([1.0]), contrasts=signal, advantages=[o["base"]], mask=x.given["mask"][[o["row"]]],
                      preset="prime", **given)  # fmt: skip
        return {"advantage": found[0]}
    if name == "sdpg_beta_schedule":
        ramp = np.minimum(np.array(o["steps"]) / o["warmup"], 1)
        ends = [1 - faded(1.0, o["decay"], o["total"] - step) for step in o["steps"]]
        return {"beta": o["beta"] * ramp * ends}
    if name.startswith("sdpg_loss"):
        surrogate = x.surrogate(x.a[:, None], clip_low=o["low"], clip_high=o["high"], dual_clip=o["ceiling"])
        gate = (x.a[:, None] > 0) | (not o["positive_only"])
        return {"loss": x.mean(surrogate + o["beta"] * x.kl * gate + o["alpha"] * estimate(x.s, x.o, "k2", limit=None))}
    return differentiated(name, o, x)


def differentiated(name: str, o: Any, x: Tokens) -> dict[str, Any]:
    s = x.s.clone().requires_grad_()
    gap = x.t - s
    if name == "skillsd_k3":
        loss = x.mean((s - x.o).exp() * estimate(s, x.t, "k3", limit=None))
    else:  # prime-rl's ref_kl, of one row
        d, keep = s - x.o, s.exp() - x.o.exp() >= -o["drop"]
        token = -(keep * gap).detach() * d.exp() + 2 * o["square"] * estimate(s, x.o, "k2", limit=None)
        loss = (token * x.mask)[o["row"]].sum()
    loss.backward()
    gradient = s.grad[o["row"]] if "row" in o else s.grad
    return {"loss_sum" if "row" in o else "loss": loss.detach(), "gradient": gradient}


# -- turns, rewards --------------------------------------------------------------------------------------------------


def agentopsd(o: Any) -> dict[str, Any]:
    x = Tokens()
    gains = np.diff(beliefs((x.gaps() * x.mask.numpy()).sum(1), o["v0"]))
    if not o.get("belief_mult"):
        return {"turn_advantage": gains * (FIXTURES["turns"]["episode_return"] - o["v0"]) / gains.sum()}
    values, a = gains if o["signed"] else np.abs(gains), o["sequence_advantage"]
    z = (values - values.mean()) / (values.std() + o["eps"]) * (np.sign(a) if o["signed"] else 1)
    weight = np.clip(1 + o["mult_band"] * z, 1 - o["mult_band"], 1 + o["mult_band"])
    return {"turn_advantage": a * (1 - o["mult_lambda"] + o["mult_lambda"] * weight)}


def of_turns(case: Any) -> dict[str, Any]:
    given, o = FIXTURES["turn_scores"], case["options"]
    scores = [[np.nan if score is None else score for score in row] for row in given["scores"]]
    if "row" in o:
        row = scores[o["row"]]
        table, known = rows([0.0], lengths=[len(row)]), np.flatnonzero(~np.isnan(row))
        gained = np.zeros(len(row))
        gained[known[1:]] = np.diff(np.array(row)[known])
        return {"progress": gained, "credit": smeared(table, gained, o["gamma"])}
    table = rows(given["rewards"], lengths=[len(row) for row in scores])
    return {"turn_advantage": turn_credit(
        table, given=np.concatenate(scores), tokens=np.concatenate(given["tokens_per_turn"]), scores="judge", **o
    )}  # fmt: skip


def of_rewards(case: Any) -> dict[str, Any]:
    o = case["options"]
    if "rewards" in o:
        std = "mean" if "maxrl" in case["name"] else "none"
        return {"advantage": grpo(rows([float(r) for r in o["rewards"]]), std=std)}
    given = FIXTURES["rewards"]
    earned, weights = np.array(given["rewards"]), np.array(given["weights"])
    table = rows([0.0] * len(earned), given["group"])
    if "whiten" in o:
        given = {"reward_components": earned, "component_weights": weights, "ddof": o["ddof"], "eps": o["eps"]}
        return {"advantage": grpo(table, **given)}
    summed = rows((earned @ weights).tolist(), given["group"])
    if o["scale"] != "batch":
        return {"advantage": grpo(summed, std=o["scale"], eps=o["eps"], ddof=o["ddof"])}
    return {"advantage": grpo(summed, std="none") / ((earned @ weights).std(ddof=1) + o["eps"])}


def answer(case: Any) -> dict[str, Any]:
    name = case["name"]
    if case["inputs"] in ("small", "fifty"):
        return distilled(case)
    if name.startswith("agentopsd"):
        return agentopsd(case["options"])
    if name.startswith("turn_credit"):
        return of_turns(case)
    if name.startswith(("maxrl", "dr_grpo", "gdpo", "trl_")):
        return of_rewards(case)
    return of_tokens(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_recorded_answer(case: Any) -> None:
    found = answer(case)
    assert found.keys() == case["outputs"].keys()
    for name, expected in case["outputs"].items():
        flat = torch.as_tensor(np.asarray(found[name], np.float64) if not torch.is_tensor(found[name]) else found[name])
        want = np.concatenate([np.ravel(row) for row in expected]) if isinstance(expected, list) else expected
        np.testing.assert_allclose(
            flat.detach().numpy().ravel(), np.ravel(want), rtol=0, atol=case["tolerance"], err_msg=name
        )


def test_all_of_them_are_here() -> None:
    oracle("privileged", "oracles.json")
    assert len(CASES) >= 62
