"""The Search-QA environment."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from agentgym.checks import check_name, keywords_checked, real, whole
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.searchqa.expert import next_command
from agentgym.searchqa.generated.encyclopaedia import Difficulty
from agentgym.searchqa.protocol import (
    ENDINGS,
    FAILED,
    INVALID,
    Command,
    Format,
    Tokenizer,
    Turns,
    found_passages,
    instructions,
    parse,
)
from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval.engines import Corpus
from agentgym.searchqa.retrieval.simulated import (
    SimulatedSearch,
    Simulator,
    check_noise,
    find_simulator,
    search_together,
    simulated_search,
)
from agentgym.searchqa.retriever import Found, Retriever, SearchFailure
from agentgym.searchqa.scoring import Evidence, FormatReward, StepReward, exact_match, f1, normalise, sub_match
from agentgym.searchqa.tasks import QuestionTasks, find_data
from agentgym.tasks import check_split, choose
from agentgym.vector import TextVectorEnv

#: Names of rewards.
REWARDS = ("em", "f1", "sub_em", "format", "stepsearch")
_UNKNOWN = -1.0


class SearchQAEnv(TextEnv[str]):
    """Questions over a search index: `<search>query</search>`, then `<answer>text</answer>`.

    **Observation.** `TextSpace`: the question, then the passages found, best first, in `<information>` and
    `</information>` (tags escaped, long ones cut), or that the search failed; at the end the outcome of the episode.

    **Action.** `TextSpace`: a command, or a reply that holds one (`protocol.parse`). A text without a command, and a
    search in the last turn, are invalid and use up a turn.

    **Reward.** At the end 1 for an exact match after normalisation, else 0 (`format_score` for a wrong answer);
    `reward` selects F1, the sub-match, Search-R1's format reward (`scoring.FormatReward`; whole replies as actions), or
    StepSearch's (`scoring.StepReward`), which rewards searches too.

    **End.** `terminated` after an answer and after the last turn: by default four turns for searching and one for the
    answer. Nothing is drawn in a step, except with the option `noise`.

    **Info.** `admissible_actions`: examples; `state_key`: the question, the result of each turn and the answer;
    `task_id`; `won`: exact match; `score`, `em`, `f1`, `sub_em`: of the answer, 0 before; `data_source`; `question`;
    `support_recall`: share of the supporting passages found, -1 if unknown; `retrieved_ids`: of all passages found, in
    order; `search_count`: failed ones too; `search_failed`: of the last command; `turns_left`; with `expert=True`,
    `expert_action`.

    **Tasks.** `reset(options=...)` takes `task_id`, with or without `split`, or any of `split`, `index` and
    `data_source` (`index` then counts that source's questions); and `noise`, the probability of noisy documents from
    the simulator, which then replaces the retriever. Without data the questions are about a generated encyclopaedia
    with the splits "train", "validation" and "test".

    Args:
        corpus: passages, see `retrieval.engines.find_retriever`.
        questions: see `official.read_questions`; or a sequence of `Question`.
        retriever: "lexical", "dense", "lucene", the URL of a retrieval server, or an object with `search`.
        top_k: passages shown per search.
        split: default split; None for "train", or the first there is.
        sources: names of sources, such as "two_hop"; None for all.
        kinds: names of kinds within sources, such as "winner-spouse"; None for all.
        answerable: only questions that `question.is_answerable` accepts.
        protocol: "searchr1" or "verl_agent", see the module `protocol`.
        max_turns, last_turn: see `protocol.Turns`; `last_turn=None` for the protocol's own.
        simulator: "rule" or an object with `simulate` (`retrieval.simulated`), for the option `noise`.
        reward: "em", "f1", "sub_em", "format" or "stepsearch"; or a `FormatReward` or `StepReward`.
        format_score: reward for a wrong answer, with "em".
        max_tokens, tokenizer, close_block, escape: see `protocol.Format`.
        world_seed, distractors, missing: of the encyclopaedia, see `generated.encyclopaedia.Difficulty`.
        expert: add `expert_action`: searches for titles of missing supporting passages, then the golden answer.
        render_mode: "ansi" (the observation) or None.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "data_source", "noise")
    no_hindsight = "a wrong answer to this question answers no other question of the data"
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
        simulator: str | Simulator | None = None,
        reward: str | FormatReward | StepReward = "em",
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
        self._format_reward = reward if isinstance(reward, FormatReward) else FormatReward()
        self._step_reward = reward if isinstance(reward, StepReward) else StepReward()
        named = {FormatReward: "format", StepReward: "stepsearch"}.get(type(reward), reward)
        self.reward = check_name(named, REWARDS, "reward")
        self.format_score = real("format_score", format_score, expected="a finite number")
        difficulty = Difficulty(distractors, missing)
        self.questions, self.retriever = find_data(corpus, questions, retriever, world_seed, answerable, difficulty)
        self.sources = self.questions.check("data_source", sources)
        self.kinds = self.questions.check("kind", kinds)
        self.tasks: QuestionTasks = self.questions.narrowed(self.sources, self.kinds)
        self.split = self.questions.first_split() if split is None else check_split(self.tasks, split)
        self.action_space = TextSpace(samples=("<search>capital</search>", "<answer>yes</answer>"))
        self.instructions = instructions(self.turns, self.top_k, missing=bool(self.questions.missing))
        self.simulator = find_simulator(simulator, self.questions, self.retriever)
        self._total = self.turns.total
        self._parsed: tuple[str, Command] | None = None
        self._ready: tuple[str | SimulatedSearch, Found] | None = None
        self._noise: float | None = None

    def begin(self, options: dict[str, Any]) -> None:
        options = dict(options)
        noise = check_noise(options.pop("noise", None), self.simulator)
        tasks = self.tasks
        if options.get("data_source") is not None and options.get("task_id") is None:
            tasks = self.questions.narrowed(self.questions.check("data_source", options["data_source"]), self.kinds)
        self._load(choose(tasks, self.split, options, self.np_random))
        if noise is not None:
            self._noise, self._luck = noise, int(self.np_random.integers(2**63))
            self._key += f" | noise {noise!r}"

    def reseed(self, seed: int) -> None:
        """Seed later draws, the simulator's too."""
        super().reseed(seed)
        if self._noise is not None:
            self._luck = int(self.np_random.integers(2**63))

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
        self._noise, self._luck, self._evidence = None, 0, Evidence()
        self._answers = ("<answer>yes</answer>", "<answer>no</answer>")
        self._commands = (f"<search>{asked}</search>", *self._answers)

    def query(self, command: str) -> str | SimulatedSearch | None:
        """Return the search that a command would make now; None if it would make none."""
        asked = parse(command, self.format.protocol)
        self._parsed = command, asked
        searches = asked.kind == "search" and asked.text and self._turn + 1 < self._total
        return self._search_for(asked.text, self._turn + 1) if searches else None

    def _search_for(self, query: str, turn: int) -> str | SimulatedSearch:
        return query if self._noise is None else simulated_search(query, self.question, self._noise, self._luck, turn)

    def act(self, command: str) -> tuple[float, bool, bool]:
        parsed, self._parsed = self._parsed, None
        asked = parsed[1] if parsed and parsed[0] is command else parse(command, self.format.protocol)
        kind, text, valid = asked
        self._turn += 1
        self._failed, gained = False, 0.0
        last = self._turn == self._total
        if self.reward == "format":
            self._transcript += command
        if kind == "answer":
            self._finish(text)
        elif last:
            self._finish(None)
            valid = False
        elif kind == "search":
            gained = self._search(text)
        else:
            self._text = INVALID
            self._key += " > invalid"
        if self._over:
            return self._reward(), True, valid
        if self.reward == "format":
            self._transcript += self._text
        return gained, False, valid

    def _search(self, query: str) -> float:
        """Search and return the reward of the search itself."""
        self._searches += 1
        ready, self._ready = self._ready, None
        search = self._search_for(query, self._turn)
        if not query:
            found: Found = ()
        elif ready is not None and ready[0] == search:
            found = ready[1]
        else:
            found = search_together([search], self.retriever, self.simulator, self.top_k)[0]
        if isinstance(found, SearchFailure):
            self._failed = True
            self._text = FAILED
            self._key += " > failed"
            return 0.0
        self._text, ids, named = found_passages(self.format, found)
        self._key += named
        known = tuple(dict.fromkeys((*self._retrieved, *ids)))
        if len(known) > len(self._retrieved):
            self._note(known)
        if self.reward != "stepsearch":
            return 0.0
        texts, needed = [hit.passage.text for hit in found], self.questions.support_texts(self.question, self.retriever)
        reward, self._evidence = self._step_reward.search(self._evidence, query, texts, needed)
        return reward

    def _note(self, retrieved: tuple[str, ...]) -> None:
        supports = self.question.supports
        self._retrieved = retrieved
        self._recall = sum([each in retrieved for each in supports]) / len(supports) if supports else _UNKNOWN

    def _finish(self, answer: str | None) -> None:
        self._over, self._answer = True, answer
        if answer is None:
            self._text, self._key = ENDINGS[None], f"{self._key} > no answer"
            return
        golds = self.question.golds
        self._won = exact_match(answer, golds)
        self._scores = f1(answer, golds), float(sub_match(answer, golds))
        self._text, self._key = ENDINGS[self._won], f"{self._key} > answer {normalise(answer)!r}"

    def _reward(self) -> float:
        if self.reward == "format":
            return float(self._format_reward(self._transcript, self._answer, self.question.golds))
        if self.reward == "stepsearch":
            keys = self.questions.search_keys(self.question, self.retriever)
            return self._step_reward.end(self._evidence, self._answer, self.question.golds, keys)
        if self.reward != "em":
            return self._scores[self.reward == "sub_em"]
        return 1.0 if self._won else 0.0 if self._answer is None else self.format_score

    def observe(self) -> str:
        return self._text

    def describe(self, valid: bool) -> Info:
        question, left, key = self.question, self._total - self._turn, self._key
        counted = self._transcript or "\n".join(self._evidence.queries)
        if counted:  # a later reward depends on it
            key = f"{key} | {hashlib.blake2b(counted.encode(errors='replace'), digest_size=8).hexdigest()}"
        info: Info = {
            "admissible_actions": () if self._over else self._commands if left > 1 else self._answers,
            "is_action_valid": valid, "state_key": key, "task_id": question.id, "won": self._won,
            "score": self._scores[0], "data_source": question.source, "question": question.text,
            "em": 1.0 if self._won else 0.0, "f1": self._scores[0], "sub_em": self._scores[1],
            "support_recall": self._recall, "retrieved_ids": self._retrieved, "search_count": self._searches,
            "search_failed": self._failed, "turns_left": left,
        }  # fmt: skip
        if self.expert:
            info["expert_action"] = self._expert_action(left)
        return info

    def _expert_action(self, left: int) -> str:
        if self._over:
            return ""
        titles = self.questions.titles(self.retriever)
        return next_command(self.question, titles, self._retrieved, self._searches, can_search=left > 1)

    def content(self, task_id: str) -> Any:
        return self.tasks.by_id(task_id).content

    def gold_answers(self, task_id: str) -> tuple[str, ...]:
        """Return a question's golden answers, for `baselines.scorers.answer_belief`; empty for unknown ids."""
        return self.tasks.golds(task_id)

    def get_state(self) -> Any:
        """Return all that distinguishes episodes, the question's id first."""
        return (
            self.question.id, self._turn, self._searches, self._key, self._retrieved, self._answer, self._over,
            self._failed, self._text, self._transcript, self._noise, self._luck, self._evidence,
        )  # fmt: skip

    def set_state(self, state: Any) -> None:
        named, turn, searches, key, retrieved, answer, over, failed, text, transcript, noise, luck, evidence = state
        self._load(self.tasks.by_id(named))
        if over:
            self._finish(answer)
        self._note(retrieved)
        self._turn, self._searches, self._key = turn, searches, key
        self._failed, self._text, self._transcript = failed, text, transcript
        self._noise, self._luck, self._evidence = noise, luck, evidence


class SearchQAVectorEnv(TextVectorEnv):
    """Many `SearchQAEnv` with shared questions and index; a step is one search for all of them."""

    env_class = SearchQAEnv
    envs: list[SearchQAEnv]  # type: ignore[assignment]

    def __init__(self, num_envs: int = 1, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name, None) for name in ("corpus", "questions")}
        questions, retriever = find_data(
            given["corpus"], given["questions"], kwargs.pop("retriever", "lexical"), kwargs.get("world_seed", 0),
            kwargs.pop("answerable", False), Difficulty(kwargs.pop("distractors", 0), kwargs.pop("missing", 0.0)),
        )  # fmt: skip
        kwargs["simulator"] = find_simulator(kwargs.get("simulator"), questions, retriever)
        super().__init__(num_envs, questions=questions, retriever=retriever, **kwargs)

    def prepare(self, running: Sequence[int], commands: Sequence[str]) -> None:
        wanted: list[tuple[SearchQAEnv, str | SimulatedSearch]] = []
        for i in running:
            env = self.envs[i]
            search = env.query(commands[i])
            if search is not None:
                wanted.append((env, search))
        if wanted:
            first = wanted[0][0]
            found = search_together([search for _, search in wanted], first.retriever, first.simulator, first.top_k)
            for (env, search), hits in zip(wanted, found, strict=True):
                env._ready = search, hits  # for its next step
