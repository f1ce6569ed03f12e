"""The WebShop environments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym.checks import check_name, check_repairs, keywords_checked, real, whole
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.tasks import GENERATED, check_split, choose
from agentgym.vector import TextVectorEnv
from agentgym.webshop.catalogue import TEXTS
from agentgym.webshop.expert import expert_action
from agentgym.webshop.goals import Wish
from agentgym.webshop.keys import chosen, option_key
from agentgym.webshop.pages import TEXT, Adverts, nodes, page_text, text, text_rich
from agentgym.webshop.reward import Tagger
from agentgym.webshop.session import RESULTS, Session
from agentgym.webshop.shop import open_tasks
from agentgym.webshop.tasks import DISJOINT, Task, Tasks

INSTRUCTIONS: str = TEXTS["instructions"]
#: Forms of an observation.
MODES = ("text", "text_rich", "url")
#: The parts of a score, before a purchase.
NO_PARTS: Info = {
    "r_type": 0.0, "r_att": 0.0, "w_att": 0.0, "query_match": False, "category_match": False, "title_score": 0.0,
    "r_option": 0.0, "w_option": 0.0, "r_price": False, "w_price": 0.0,
}  # fmt: skip
#: The info keys in order, with their values before a choice or purchase.
NO_INFO: Info = {
    "admissible_actions": (), "is_action_valid": True, "state_key": "", "task_id": "", "won": False, "score": 0.0,
    "page": "", "options": "nothing", "has_search_bar": False, "instruction": "", **NO_PARTS,
}  # fmt: skip
_ANY_QUERY = "search[<your query>]"

#: The effect of each repair. By default the shop behaves exactly as the original.
REPAIRS: dict[str, str] = TEXTS["repairs"]


class WebShopEnv(TextEnv[str]):
    """WebShop as text: find and buy what a request asks for: `search[red shoes]`, `click[b01n37fsyx]`, ...

    **Task.** A request such as "Find me long lasting candles with soy wax with size: large, and price lower than 40.00
    dollars". It was made from a product, which is the best one to buy.

    **Pages.** The index page with the search; results, ten per page; a product's page with its options, and below it
    description, features and reviews; the page after the purchase, which shows the score. Pages equal the original's,
    quirks included: opening results searches again and clears chosen options, there is always a next page, and every
    page accepts a search.

    **Observation.** `TextSpace`. `observation_mode` "text": the texts of the page joined by " [SEP] ", without choices;
    "text_rich": line by line, with marks for clickable and chosen texts; "url": the address.

    **Action.** `TextSpace`: exactly `search[...]` or `click[...]`; the case of the argument is ignored. Everything that
    the original ignores is an invalid action: it changes nothing and counts as a step. The hidden queries `<r>`, `<c>
    category` and `<q> query` list products as in the original; `<a>`, and `<c>` alone, which stop the original, find
    nothing.

    **Reward** of the purchase: the score, in 0..1; with `reward` given, that number if the score is 1, else 0 (papers
    that train language models use 10). All other rewards are 0.

    **End.** `terminated` with the purchase; `won` if its score is 1. The registered time limit is 15 steps
    (`truncated`); the original has none.

    **Luck.** None by default. The adverts of `noise` and the products of the query `<r>` follow from a seed that
    `np_random` draws (in `collect`, one per episode).

    **Info.** `admissible_actions`: "search[<your query>]" on the index page, as in the papers' prompts (played
    literally it searches for these words), then `click[...]` for everything clickable; other pages accept a search too.
    `state_key`: page, query, chosen options and, where they are shown, opened products: equal exactly for equal states
    of a task; `task_id`: "<kind of goals>/<index in the original's order>"; `score`: that of the purchase, else 0.0;
    `won`; `page`: "index", "results 2 of 'red shoes'", "item B01N37FSYX", "Features of B01N37FSYX", "done B01N37FSYX";
    `options`: the chosen options independent of their order, or "nothing"; `has_search_bar`; `instruction`: the
    request; and the parts of the score, 0 or False before the purchase: `r_type`, `r_att`, `r_option`, `r_price`, the
    weights `w_att`, `w_option`, `w_price`, and the parts of `r_type`: `query_match`, `category_match`, `title_score`.
    With `expert=True`, `expert_action`: the next command towards the wished product, "" if no search finds it.

    **Tasks.** `reset(options=...)` takes `task_id`, with or without `split`, or any of `split` and `index`; without
    options the index is drawn from `np_random`. The split "all" has the original's order. "test", "validation" and
    "train" share no goal: the first 500, the next 1,000, and the others (smaller shares of few goals). Goals of several
    splits may wish the same product with other options; `split_by="product"` separates the products.

    **Data.** None needed: products are generated. `data` is the folder of the official files, or an items file in it; a
    folder with both sets is read as the small one. Large sets are written to disk once. Goals are made as in the
    original; prices of products with a range, and the limits in requests, are drawn with `price_seed` or read from
    `prices` (the original draws them unseeded in every process).

    **Repairs.** By default all quirks of the original are kept. `repairs` names those to repair: "brackets", "options",
    "winnable", or "all"; `agentgym.webshop.env.REPAIRS` describes them.

    **Id.** `AgentRL/WebShop-v0`.

    Args:
        data: folder of the official files, or an items file; "generated" or None for generated products.
        goals: "synthetic" or "human" (official files only).
        prices: JSON file (or .xz) with `prices` and, optionally, `goals` of a running original.
        split: default split.
        split_by: "goal" or "product": what splits do not share.
        observation_mode: "text", "text_rich" or "url".
        search: "bm25", or "lucene" for pyserini.
        noun_tagger: "words", "spacy", "table:<file>" or a function, see `agentgym.webshop.reward.make_tagger`.
        reward: for a purchase that scores 1; None for the score as the reward of any purchase.
        repairs: names of repairs, or "all".
        noise: probabilities that a page has adverts, and that each place of such a page has one; None for none.
        num_products: only the first ones; None for all (2,000 generated ones).
        price_seed: see Data.
        product_seed: each value gives other generated products.
        cache: folder for large sets; None: AGENTGYM_CACHE ("off": no cache) or ~/.cache/agentgym; False: in memory.
        expert: put `expert_action` into info.
        render_mode: "ansi" (the observation) or None.

    >>> env = WebShopEnv(expert=True)
    >>> observation, info = env.reset(seed=0)
    >>> while not info["won"]:
    ...     observation, reward, terminated, truncated, info = env.step(info["expert_action"])
    >>> reward, terminated
    (1.0, True)
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    SETTLED = ("task_id", "won", "score", "instruction", *NO_PARTS)

    @keywords_checked
    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        goals: str = "synthetic",
        prices: str | os.PathLike[str] | None = None,
        split: str = "train",
        split_by: str = "goal",
        observation_mode: str = "text",
        search: str = "bm25",
        noun_tagger: str | os.PathLike[str] | Tagger = "words",
        reward: float | None = None,
        repairs: Iterable[str] | str = (),
        noise: tuple[float, float] | None = None,
        num_products: int | None = None,
        price_seed: int = 0,
        product_seed: int = 0,
        cache: str | Path | bool | None = None,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        self.observation_mode = check_name(observation_mode, MODES, "observation_mode")
        self.reward = None if reward is None else real("reward", reward, expected="a finite number or None")
        self.repairs = check_repairs(repairs, REPAIRS)
        self.adverts = None if noise is None else Adverts(*_pair(noise))
        self._brackets, self._show_options = "brackets" in self.repairs, "options" in self.repairs
        self._only_page = observation_mode == "text" and self.adverts is None and not self._show_options
        tagger: Any = noun_tagger
        self.tasks: Tasks = open_tasks(
            data=GENERATED if data is None else _path("data", data, "a folder"),
            goals=goals,
            record=None if prices is None else _path("prices", prices, "a file"),
            split_by=check_name(split_by, DISJOINT, "split_by"),
            winnable="winnable" in self.repairs,
            search=search,
            noun_tagger=tagger,
            num_products=None if num_products is None else whole("num_products", num_products, 1),
            price_seed=whole("price_seed", price_seed, 0),
            product_seed=whole("product_seed", product_seed, 0),
            cache_in=cache,
        )
        self.split = check_split(self.tasks, split)
        self.action_space = TextSpace(samples=("search[shoes]", "click[next >]", "click[back to search]"))
        self.instructions = INSTRUCTIONS

    def begin(self, options: dict[str, Any]) -> None:
        task = choose(self.tasks, self.split, options, self.np_random)
        self._load(task, int(self.np_random.integers(1 << 31)))

    def _load(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._view = seed, 0
        goal, task_id = self.tasks.goal(task), self.tasks.task_id(task)
        name, self._wanted = (goal.asin, f" | for {task_id}") if isinstance(task, Wish) else (str(task), "")
        self.session = Session(self.tasks.shop, goal, name, seed, self._brackets)
        self._info = info = NO_INFO.copy()
        info["task_id"], info["instruction"] = task_id, goal.instruction

    def act(self, command: str) -> tuple[float, bool, bool]:
        self._view = self._seed, self._view[1] + 1
        valid = self.session.play(command)
        purchase = self.session.purchase
        return (0.0, False, valid) if purchase is None else (self._worth(purchase.score), True, valid)

    def _worth(self, score: float) -> float:
        return score if self.reward is None else self.reward if score == 1.0 else 0.0

    def observe(self) -> str:
        session = self.session
        page, mode = session.page, self.observation_mode
        if mode == "url":
            return session.url()
        show_options = self._show_options and page.kind in ("item", "sub")
        if mode == "text" and self.adverts is None and not show_options:
            return page_text(page, session.request_text)
        shown = page.nodes(session.request)
        if show_options:
            shown += nodes(TEXT, f"You have chosen {chosen(session.options)}.")
        if self.adverts is not None:
            head = len(page.lead) + len(session.request) if page.lead else 0
            shown[head:] = self.adverts.around(shown[head:], self._view)
        return text(shown) if mode == "text" else text_rich(shown, session.url(), session.opened())

    def describe(self, valid: bool) -> Info:
        return self._describe(self._info.copy(), valid)

    def _describe(self, info: Info, valid: bool) -> Info:
        session, mode = self.session, self.observation_mode
        page, purchase, options = session.page, session.purchase, session.options
        kind = page.kind
        searching = kind == "index"
        # page name and exact state, from parts that are cached over steps
        if kind == "results":
            key = name = f"results {session.place}"
        else:
            key = name = page.name
        if options:
            if session.choice is None:
                ordered = options if len(options) == 1 or mode == "url" else dict(sorted(options.items()))
                session.choice = chosen(ordered), f" | {option_key(ordered)}"
            key += session.choice[1]
        if session.place and kind != "results":
            key = f"{key} | back to {session.place}"
        if mode == "text_rich" and session.visited:
            key = f"{key} | opened {' '.join(sorted(session.opened()))}"
        commands = page.all_commands if self._brackets else page.commands
        info["admissible_actions"] = (_ANY_QUERY, *commands) if searching else commands
        info["is_action_valid"] = valid
        if session.draws:
            key = f"{key} | {session.draws} draws"
        info["state_key"] = key + self._wanted
        info["page"] = name
        info["has_search_bar"] = searching
        info["options"] = "nothing" if session.choice is None else session.choice[0]
        if purchase is not None:
            info["won"], info["score"] = purchase.score == 1.0, purchase.score
            info.update(purchase.parts)
        if self.expert:
            info["expert_action"] = expert_action(session)
        return info

    def advance(self, command: str, info: Info) -> tuple[str, float, bool, Info]:
        session = self.session
        reward, over, valid = self.act(command)
        self._describe(info, valid)
        return page_text(session.page, session.request_text) if self._only_page else self.observe(), reward, over, info

    def content(self, task_id: str) -> Any:
        return self.tasks.content(self.tasks.by_id(task_id, None))

    def fulfilled(self) -> tuple[str, ...]:
        """Return the task_id of a goal for exactly what was bought; () before a purchase, and for the own goal."""
        self.need_episode("fulfilled")
        session = self.session
        if session.purchase is None or session.product is None:
            return ()
        done = self.tasks.bought(session.product, session.options, self._task)
        return () if done in (None, self._task) else (self.tasks.task_id(done),)

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments, the generator and the state of the visit, without the shop."""
        kept = {**self.__dict__, "session": None}
        return kept | {"session": self.get_state()} if "session" in self.__dict__ else kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Open the shop if this process has not yet, and continue the visit."""
        visit = kept.pop("session")
        self.__dict__.update(kept)
        if visit is not None:
            self.set_state(visit)

    def get_state(self) -> Any:
        """Return (task, seed, the view: its seed and step, state of the visit)."""
        return self._task, self._seed, self._view, self.session.get_state()

    def set_state(self, state: Any) -> None:
        task, seed, view, visit = state
        self._load(task, seed)
        self._view = view
        self.session.set_state(visit)

    def reseed(self, seed: int) -> None:
        """Seed the adverts of the next pages, the products of `<r>`, and the next goals."""
        super().reseed(seed)
        self._seed = self.session.seed = int(self.np_random.integers(1 << 31))


class WebShopVectorEnv(TextVectorEnv):
    """Many `WebShopEnv` in one process; products, search index, goals and pages are shared."""

    env_class = WebShopEnv
    envs: list[WebShopEnv]  # type: ignore[assignment]

    def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
        """Compute all new searches of a step together; the sub-environments find the cached results."""
        envs = self.envs
        asked = [envs[i].session.read(commands[i]) for i in running if commands[i].startswith("search[")]
        queries = [query for name, query in asked if name == "search" and not query.startswith("<")]
        envs[0].tasks.shop.search.tops(queries, RESULTS)


def _pair(noise: Any) -> tuple[Any, Any]:
    if not isinstance(noise, (tuple, list)) or len(noise) != 2:
        raise ValueError(f"noise must be two probabilities, of a page and of a place, or None, got {noise!r}")
    return noise[0], noise[1]


def _path(name: str, value: Any, what: str) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name} must be {what} or None, got {value!r}")
    return str(os.fspath(value))
