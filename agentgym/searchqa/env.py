"""The Search-QA environment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from agentgym.checks import check_name, keywords_checked, real, whole
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.foreign_text import clean
from agentgym.searchqa.expert import next_command
from agentgym.searchqa.generated.difficulty import UNKNOWN, Difficulty
from agentgym.searchqa.protocol import FAILED, INVALID, Command, Format, Tokenizer, Turns, parse
from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval.engines import Corpus
from agentgym.searchqa.retriever import MOST_ID, Found, Hit, Retriever, SearchFailure, search_all
from agentgym.searchqa.scoring import FormatReward, exact_match, f1, normalise, sub_match
from agentgym.searchqa.tasks import QuestionTasks, find_data
from agentgym.tasks import check_split, choose
from agentgym.vector import TextVectorEnv

INSTRUCTIONS = (
    "Answer the question. You can look things up in a collection of passages: `<search>query</search>` shows the {k} "
    "passages that fit the query best, inside <information> and </information>. As soon as you know the answer, give "
    "it in as few words as possible: `<answer>text</answer>`; that is the end. Each turn, give one command of these "
    "two. You have {turns}"
)
_LAST = {
    "extra": "{n} turns in which you can search, and after them one turn for the answer.",
    "counted": "{n} turns, the last of which is for the answer.",
}
_NOT_KNOWN = f" Where no passage holds the answer, give `<answer>{UNKNOWN}</answer>`."
#: What a reward may be.
REWARDS = ("em", "f1", "sub_em", "format")
_UNKNOWN = -1.0
#: Characters of the passages of one search whose observation is remembered.
_SHORT = 20_000
_OVER = {True: "The answer is right.", False: "The answer is wrong.", None: "The episode ended without an answer."}


class SearchQAEnv(TextEnv[str]):
    r"""Questions over a search index: `<search>query</search>`, then `<answer>text</answer>`.

    **Task.** A question whose answer stands in a corpus of passages, often spread over several: who was married to the
    winner of a race has to be found in two steps.

    **Observation.** `TextSpace`: first the question, then what the last command brought: the passages found, best
    first, in `<information>` and `</information>`. Tags in them are made harmless (`escape`), long ones are cut
    (`max_tokens`). A search that could not be carried out is said to be one, without an information block. At the end
    a sentence says how it went; it is no part of the published protocols, whose last observation is empty.

    **Action.** `TextSpace`: a command, or a whole reply that holds one; `protocol.parse` says how it is read. A text
    without a command is an invalid action: it changes nothing but the number of turns. So is a search in the last
    turn, which is not carried out.

    **Reward.** At the end: 1 when the answer is exactly right after normalisation, else 0 (`format_score` for a wrong
    answer); or, by `reward`, the F1, the sub-match, or the format reward of Search-R1 (`scoring.FormatReward`), which
    looks at whole replies and needs them as actions.

    **End.** `terminated` after an answer, and after the last turn, which is not a success: by default four turns for
    searching and one for the answer ("extra"), or four in all ("counted").

    **Info.** `admissible_actions`: some of the commands, not all: to search for the question, to answer yes, to answer
    no; `state_key`: the question, what each turn brought, and at the end the answer: equal exactly for equal states;
    `task_id`: id of the question; `won`: exact match; `score`: F1 of the answer, 0 before; `data_source`; `question`;
    `em`, `f1`, `sub_em`: of the answer, 0 before; `support_recall`: share of the supporting passages found so far, -1
    where they are not known; `retrieved_ids`: of all passages found so far, in the order of their first appearance;
    `search_count`: searches so far, failed ones too; `search_failed`: the last command was a search that could not be
    carried out; `turns_left`; with `expert=True`, `expert_action`: searches for the titles of the supporting passages
    that are still missing, then the golden answer.

    **Tasks.** `reset(options=...)` takes `task_id`, with or without `split`, or any of `split`, `index` (from 0) and
    `data_source` (`index` then counts the questions of that source).

    **Data.** None needed: an encyclopaedia of a made-up world is generated, with the splits "train", "validation" and
    "test", which share no person, place, work or event, and the sources "one_hop", "two_hop", "three_hop",
    "comparison" and "bridge". Otherwise `corpus` is a file of passages (`id`, `contents`) or an index folder, and
    `questions` a file in FlashRAG's or verl's columns. One index serves all environments of a process, and the vector
    form searches once per step for all its sub-environments.

    **Id.** `AgentRL/SearchQA-v0`.

    Args:
        corpus: passages, see `retrieval.engines.find_retriever`.
        questions: see `official.questions.read_questions`; or a sequence of `Question`.
        retriever: "lexical", "dense", "lucene", the URL of a retrieval server, or an object with `search`.
        top_k: passages shown per search.
        split: split of episodes whose options name none; None for "train", or the first there is.
        sources: names of the sources to ask from; None for all.
        kinds: names of the kinds within sources, such as "comparison" in HotpotQA, or the facts of a generated
            question, such as "winner-spouse"; None for all.
        answerable: ask only what can be answered, see `question.is_answerable`.
        protocol: "searchr1" or "verl_agent", see the module `protocol`.
        max_turns: see `protocol.Turns`.
        last_turn: "extra" or "counted"; None for the protocol's own.
        reward: "em", "f1", "sub_em" or "format"; or a `FormatReward`.
        format_score: reward for a wrong answer, with "em".
        max_tokens, tokenizer, close_block, escape: see `protocol.Format`.
        world_seed: another number makes another encyclopaedia.
        distractors: passages per thing of the encyclopaedia that speak of it and say nothing, 0 to 5.
        missing: share of its passages that are left out; the answer to what needs one is "unknown". How many facts
            a question chains is its source. See `generated.difficulty.Difficulty`.
        expert: put `expert_action` into info.
        render_mode: "ansi" (the observation) or None.

    >>> env = SearchQAEnv(expert=True)
    >>> question, info = env.reset(seed=0, options={"data_source": "two_hop"})
    >>> while not info["won"]:
    ...     observation, reward, terminated, truncated, info = env.step(info["expert_action"])
    >>> reward, info["search_count"], info["support_recall"]
    (1.0, 2, 1.0)
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "data_source")
    no_hindsight = "an answer that is wrong for this question is the answer to no other that anybody asked"
    command_tags: ClassVar[tuple[str, ...]] = ("search", "answer")
    answer_form: ClassVar[str] = "<answer> {} </answer>"

    @keywords_checked
    def __init__(
        self,
        *,
        corpus: Corpus | None = None,
        questions: Any = None,
        retriever: str | Retriever = "lexical",
        top_k: int = 3,
        split: str | None = None,
        sources: Iterable[str] | str | None = None,
        kinds: Iterable[str] | str | None = None,
        answerable: bool = False,
        protocol: str = "searchr1",
        max_turns: int = 4,
        last_turn: str | None = None,
        reward: str | FormatReward = "em",
        format_score: float = 0.0,
        max_tokens: int | None = 500,
        tokenizer: Tokenizer | None = None,
        close_block: bool = True,
        escape: bool = True,
        world_seed: int = 0,
        distractors: int = 0,
        missing: float = 0.0,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        self.format = Format(protocol, max_tokens, tokenizer, close_block, escape)
        self.turns = Turns(max_turns, last_turn or ("extra" if protocol == "searchr1" else "counted"))
        self.top_k = whole("top_k", top_k, 1)
        self.reward = "format" if isinstance(reward, FormatReward) else check_name(reward, REWARDS, "reward")
        self._format_reward = reward if isinstance(reward, FormatReward) else FormatReward()
        self.format_score = real("format_score", format_score, expected="a finite number")
        difficulty = Difficulty(distractors, missing)
        self.questions, self.retriever = find_data(corpus, questions, retriever, world_seed, answerable, difficulty)
        self.sources = self.questions.check("data_source", sources)
        self.kinds = self.questions.check("kind", kinds)
        self.tasks: QuestionTasks = self.questions.narrowed(self.sources, self.kinds)
        self.split = self.questions.first_split() if split is None else check_split(self.tasks, split)
        self.observation_space = TextSpace()
        self.action_space = TextSpace(samples=("<search>capital</search>", "<answer>yes</answer>"))
        self.instructions = INSTRUCTIONS.format(k=top_k, turns=_LAST[self.turns.last].format(n=max_turns))
        if self.questions.missing:
            self.instructions += _NOT_KNOWN
        self._total = self.turns.total
        self._parsed: tuple[str, Command] | None = None
        self._ready: tuple[str, Found] | None = None

    def begin(self, options: dict[str, Any]) -> None:
        """Load a question; without options its index is drawn from `self.np_random`."""
        tasks = self.tasks
        if options.get("data_source") is not None and options.get("task_id") is None:
            tasks = self.questions.narrowed(self.questions.check("data_source", options["data_source"]), self.kinds)
        self._load(choose(tasks, self.split, options, self.np_random))

    def _load(self, question: Question) -> None:
        self.question = question
        asked = question.text
        self._text = f"{asked}?" if self.format.protocol == "searchr1" and not asked.endswith("?") else asked
        self._key = repr(question.id)
        self._turn = self._searches = 0
        self._note(())
        self._failed = self._over = False
        self._answer: str | None = None
        self._won, self._scores = False, (0.0, 0.0)
        self._transcript = ""
        self._answers = ("<answer>yes</answer>", "<answer>no</answer>")
        self._commands = (f"<search>{asked}</search>", *self._answers)

    def query(self, command: str) -> str | None:
        """Return what a command would search for now; None where it would search for nothing."""
        asked = parse(command, self.format.protocol)
        self._parsed = command, asked
        return asked.text or None if asked.kind == "search" and self._turn + 1 < self._total else None

    def hand(self, query: str, found: Found) -> None:
        """Lay ready what a search for `query` in the next step gives (called by the vector form)."""
        self._ready = query, found

    def act(self, command: str) -> tuple[float, bool, bool]:
        """Play one turn; see the class page for the reward."""
        parsed, self._parsed = self._parsed, None
        asked = parsed[1] if parsed and parsed[0] is command else parse(command, self.format.protocol)
        kind, text, valid = asked
        self._turn += 1
        self._failed = False
        last = self._turn == self._total
        if self.reward == "format":
            self._transcript += command
        if kind == "answer":
            self._finish(text)
        elif last:
            self._finish(None)
            valid = False
        elif kind == "search":
            self._search(text)
        else:
            self._text = INVALID
            self._key += " > invalid"
        if self._over:
            return self._reward(), True, valid
        if self.reward == "format":
            self._transcript += self._text
        return 0.0, False, valid

    def _search(self, query: str) -> None:
        self._searches += 1
        ready, self._ready = self._ready, None
        if not query:
            found: Found = ()
        elif ready is not None and ready[0] == query:
            found = ready[1]
        else:
            found = search_all(self.retriever, [query], self.top_k)[0]
        if isinstance(found, SearchFailure):
            self._failed = True
            self._text = FAILED
            self._key += " > failed"
            return
        short = sum([len(hit.passage.contents) for hit in found]) <= _SHORT
        self._text, ids, named = (_remembered if short else _shown)(self.format, found)
        self._key += named
        known = tuple(dict.fromkeys((*self._retrieved, *ids)))
        if len(known) > len(self._retrieved):
            self._note(known)

    def _note(self, retrieved: tuple[str, ...]) -> None:
        """Keep which passages were found so far."""
        supports = self.question.supports
        self._retrieved = retrieved
        self._recall = sum([each in retrieved for each in supports]) / len(supports) if supports else _UNKNOWN

    def _finish(self, answer: str | None) -> None:
        """End the episode with an answer, or without one."""
        self._over, self._answer = True, answer
        if answer is None:
            self._text, self._key = _OVER[None], f"{self._key} > no answer"
            return
        golds = self.question.golds
        self._won = exact_match(answer, golds)
        self._scores = f1(answer, golds), float(sub_match(answer, golds))
        self._text, self._key = _OVER[self._won], f"{self._key} > answer {normalise(answer)!r}"

    def _reward(self) -> float:
        if self.reward == "format":
            return float(self._format_reward(self._transcript, self._answer, self.question.golds))
        if self.reward != "em":
            return self._scores[self.reward == "sub_em"]
        return 1.0 if self._won else 0.0 if self._answer is None else self.format_score

    def observe(self) -> str:
        """Return what the last command brought."""
        return self._text

    def describe(self, valid: bool) -> Info:
        """Return the info dict of the current state."""
        question, left, key = self.question, self._total - self._turn, self._key
        if self._transcript:  # the format reward depends on it
            key = f"{key} | {hashlib.blake2b(self._transcript.encode(errors='replace'), digest_size=8).hexdigest()}"
        info: Info = {
            "admissible_actions": () if self._over else self._commands if left > 1 else self._answers,
            "is_action_valid": valid,
            "state_key": key,
            "task_id": question.id,
            "won": self._won,
            "score": self._scores[0],
            "data_source": question.source,
            "question": question.text,
            "em": 1.0 if self._won else 0.0,
            "f1": self._scores[0],
            "sub_em": self._scores[1],
            "support_recall": self._recall,
            "retrieved_ids": self._retrieved,
            "search_count": self._searches,
            "search_failed": self._failed,
            "turns_left": left,
        }
        if self.expert:
            info["expert_action"] = self._expert_action(left)
        return info

    def _expert_action(self, left: int) -> str:
        if self._over:
            return ""
        titles = self.questions.titles(self.retriever)
        return next_command(self.question, titles, self._retrieved, self._searches, can_search=left > 1)

    def content(self, task_id: str) -> Any:
        """Return question and golden answers, see `TextEnv.content`."""
        return self.tasks.by_id(task_id).content

    def gold_answers(self, task_id: str) -> tuple[str, ...]:
        """Return the golden answers of a question, of any split; empty where there is no question of this id.

        They are for a trainer, such as `baselines.scorers.answer_belief`, which gives them in `answer_form`; no
        observation or info holds them.
        """
        return self.tasks.golds(task_id)

    def get_state(self) -> Any:
        """Return (question id, turn, searches, key, retrieved ids, answer, over, failed, observation, transcript)."""
        return (
            self.question.id, self._turn, self._searches, self._key, self._retrieved, self._answer, self._over,
            self._failed, self._text, self._transcript,
        )  # fmt: skip

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned."""
        named, turn, searches, key, retrieved, answer, over, failed, text, transcript = state
        self._load(self.tasks.by_id(named))
        if over:
            self._finish(answer)
        self._note(retrieved)
        self._turn, self._searches, self._key = turn, searches, key
        self._failed, self._text, self._transcript = failed, text, transcript


class SearchQAVectorEnv(TextVectorEnv):
    """Many `SearchQAEnv` in one process: questions and index are shared, and a step is one search for all of them."""

    env_class = SearchQAEnv
    envs: list[SearchQAEnv]  # type: ignore[assignment]

    def __init__(self, num_envs: int = 1, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name, None) for name in ("corpus", "questions")}
        questions, retriever = find_data(
            given["corpus"], given["questions"], kwargs.pop("retriever", "lexical"), kwargs.get("world_seed", 0),
            kwargs.pop("answerable", False), Difficulty(kwargs.pop("distractors", 0), kwargs.pop("missing", 0.0)),
        )  # fmt: skip
        super().__init__(num_envs, questions=questions, retriever=retriever, **kwargs)

    def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
        """Search for all sub-environments with one call of the retriever."""
        wanted: list[tuple[SearchQAEnv, str]] = []
        for i in running:
            env = self.envs[i]
            query = env.query(commands[i])
            if query is not None:
                wanted.append((env, query))
        if wanted:
            first = wanted[0][0]
            found = search_all(first.retriever, [query for _, query in wanted], first.top_k)
            for (env, query), hits in zip(wanted, found, strict=True):
                env.hand(query, hits)


def _shown(form: Format, hits: tuple[Hit, ...]) -> tuple[str, tuple[str, ...], str]:
    """Return hits as a text, their ids, and their part of the state key."""
    passages = [hit.passage for hit in hits]
    ids = tuple([clean(passage.id, MOST_ID) for passage in passages])
    return form.show(passages), ids, f" > {ids!r}"


#: Only short passages, so that what is remembered is bounded in bytes; all environments share it.
_remembered = lru_cache(maxsize=4096)(_shown)
