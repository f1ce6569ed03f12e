"""WebShop steps and searches per second, time to open the shop, and what another environment costs in memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.player import keywords
from agentgym.webshop.session import RESULTS, Shop
from agentgym.webshop.shop import open_catalogue, open_search, open_tasks
from benchmarks.throughput.timing import Measurement

ENV = "AgentRL/WebShop-v0"
SECTION = "shops"
PRODUCTS = 1000
_NUM_ENVS, _STEPS = 128, 60
_MORE = 256
#: Share of the steps, besides those on the index page, that search.
_SEARCHES = 0.05
_WORDS = 6


def measure_shops(quick: bool) -> list[Measurement]:
    """Steps, searches, start and memory of WebShop with 1,000 generated products."""
    repeats, waves = (3, 1) if quick else (8, 3)
    found = []

    def add(key: str, what: str, value: float, unit: str) -> None:
        found.append(Measurement(f"shops_{key}", SECTION, what, True, value, unit))

    add("start", "open the shop: products, goals, search index", _start_seconds(repeats), "s")
    envs = gym.make_vec(ENV, _NUM_ENVS, num_products=PRODUCTS)
    plans = [record_visits(envs, _STEPS, seed) for seed in range(waves)]
    words = "gym.make_vec, 128 envs, text, commands and full info, restarts included"
    add("vector_128", words, _vector_rate(envs, plans, repeats, new=False), "steps/s")
    add(
        "vector_128_new",
        "the same, no search was ever made before",
        _vector_rate(envs, plans, repeats, new=True),
        "steps/s",
    )
    shop: Shop = envs.unwrapped.envs[0].tasks.shop  # type: ignore[attr-defined]
    queries = sorted(
        {action for plan in plans for actions in plan for action in actions if action.startswith("search[")}
    )
    add("searches", "searches that were never asked before", _search_rate(shop, queries, repeats), "searches/s")
    add("memory", f"{_MORE} more environments, begun", _megabytes(), "MB")
    return found


def record_visits(envs: gym.vector.VectorEnv[Any, Any, Any], steps: int, seed: int) -> list[list[str]]:
    """Return actions of random visits: searches for words of the request, and clicks on whatever there is."""
    rng = np.random.default_rng(seed)
    _, infos = envs.reset(seed=seed)
    recorded = []
    for _ in range(steps):
        actions = []
        for i, clicks in enumerate(infos["admissible_actions"]):
            if infos["has_search_bar"][i] or rng.random() < _SEARCHES:
                words = keywords(infos["instruction"][i])
                actions.append(f"search[{' '.join(rng.permutation(words)[:_WORDS])}]")
            else:
                actions.append(clicks[int(rng.integers(len(clicks)))])
        recorded.append(actions)
        *_, infos = envs.step(actions)
    return recorded


def _never_asked(action: str, number: int) -> str:
    """Return a search with one more word, that no product has, so that its answer is not remembered."""
    return f"{action[:-1]} neverasked{number}]" if action.startswith("search[") else action


def _vector_rate(
    envs: gym.vector.VectorEnv[Any, Any, Any], plans: list[list[list[str]]], repeats: int, new: bool
) -> float:
    """Steps per processor second; a fourth of them searches, each with other words."""
    shop: Shop = envs.unwrapped.envs[0].tasks.shop  # type: ignore[attr-defined]
    best = 0.0
    for number in range(repeats):
        for seed, plan in enumerate(plans):
            played = [[_never_asked(action, number) for action in actions] for actions in plan] if new else plan
            envs.reset(seed=seed)
            if new:
                shop.pages.results.cache_clear()
            begin = time.process_time()
            for actions in played:
                envs.step(actions)
            best = max(best, len(plan) * envs.num_envs / (time.process_time() - begin))
    return best


def _search_rate(shop: Shop, queries: list[str], repeats: int) -> float:
    best = 0.0
    for number in range(repeats):
        new = [_never_asked(query, number)[7:-1] for query in queries]
        begin = time.process_time()
        for query in new:
            shop.search.top(query, RESULTS)
        best = max(best, len(queries) / (time.process_time() - begin))
    return best


def _start_seconds(repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        for opened in (open_catalogue, open_search, open_tasks):
            opened.cache_clear()
        begin = time.process_time()
        WebShopEnv(num_products=PRODUCTS)
        best = min(best, time.process_time() - begin)
    return best


def _megabytes() -> float:
    """Memory that many more environments take, each in the middle of a visit."""
    first = gym.make_vec(ENV, 1, num_products=PRODUCTS)
    record_visits(first, 20, 0)
    tracemalloc.start()
    more = gym.make_vec(ENV, _MORE, num_products=PRODUCTS)
    record_visits(more, 20, 0)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / 1e6
