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
from agentgym.webshop.search.search import Recent
from agentgym.webshop.session import RESULTS, Shop
from agentgym.webshop.shop import open_catalogue, open_search, open_tasks
from benchmarks.throughput.timing import Measurement, Speed, Stopwatch
from benchmarks.throughput.visits import first_visit, measure_visits

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
    repeats, waves = (3, 3) if quick else (8, 9)
    found = []

    def add(key: str, what: str, speed: Speed, unit: str = "steps/s") -> None:
        found.append(Measurement.of_speed(f"shops_{key}", SECTION, what, True, speed, unit))

    def add_cost(key: str, what: str, value: float, unit: str) -> None:
        found.append(Measurement(f"shops_{key}", SECTION, what, True, value, unit))

    add_cost("start", "open the shop: products, goals, search index", _start_seconds(repeats), "s")
    envs = gym.make_vec(ENV, _NUM_ENVS, num_products=PRODUCTS)
    words = f"gym.make_vec, {_NUM_ENVS} envs, a fourth of the steps searches"
    visits = measure_visits(envs, steps=_STEPS, waves=waves, choose=wander, prepare=forget)
    add("vector_128", f"{words}, first visits to goals, searches and pages", visits.first)
    add("replayed_128", f"{words}, the same replayed", visits.replayed)
    add("searches", "searches that were never made before, one by one", _search_speed(envs, repeats), "searches/s")
    add_cost("memory", f"{_MORE} more environments, begun", _megabytes(), "MB")
    return found


def wander(infos: dict[str, Any], rng: np.random.Generator) -> list[str]:
    """Choose searches for words of the request, and clicks on whatever there is."""
    actions = []
    for i, clicks in enumerate(infos["admissible_actions"]):
        if infos["has_search_bar"][i] or rng.random() < _SEARCHES:
            words = keywords(infos["instruction"][i])
            actions.append(f"search[{' '.join(rng.permutation(words)[:_WORDS])}]")
        else:
            actions.append(clicks[int(rng.integers(len(clicks)))])
    return actions


def forget(envs: gym.vector.VectorEnv[Any, Any, Any], seed: int) -> None:
    """Let no page be known, and no answer of the search."""
    shop = _shop(envs)
    shop.pages.clear()
    if isinstance(shop.search, Recent):
        shop.search.clear()


def _shop(envs: gym.vector.VectorEnv[Any, Any, Any]) -> Shop:
    shop: Shop = envs.unwrapped.envs[0].tasks.shop  # type: ignore[attr-defined]
    return shop


def _search_speed(envs: gym.vector.VectorEnv[Any, Any, Any], repeats: int) -> Speed:
    """Best speed of single searches for what wandering visitors search for."""
    visit = first_visit(envs, 0, _STEPS, wander, Stopwatch())
    queries = sorted({action[7:-1] for step in visit.plan for action in step if action.startswith("search[")})
    search, speeds = _shop(envs).search, []
    # the same words in another order would be remembered
    queries = list({search.words(query): query for query in queries}.values())

    def ask() -> None:
        for query in queries:
            search.top(query, RESULTS)

    for _ in range(repeats):
        forget(envs, 0)
        watch = Stopwatch()
        watch.time(ask)
        speeds.append(watch.speed(len(queries)))
    return max(speeds, key=lambda speed: speed.scaled)


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
    first_visit(gym.make_vec(ENV, 1, num_products=PRODUCTS), 0, 20, wander, Stopwatch())
    tracemalloc.start()
    more = gym.make_vec(ENV, _MORE, num_products=PRODUCTS)
    first_visit(more, 0, 20, wander, Stopwatch())
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / 1e6
