"""Keys of a ranking's JSON: ``result.json``, `Ranking.to_dict` and ``--json``.

Estimates and intervals are on the metric's own scale. A ranking that was not run live lacks the
keys about time, money and tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

#: The file of a run directory that holds these keys.
RESULT = "result.json"
#: The page of a run directory that shows the result, and the name of the page's ``meta`` tag with
#: the SHA-256 of the journal that it was made from.
PAGE, JOURNAL_TAG = "report.html", "lm-eval-ccat-journal"
#: What is known of a bank, a run or an audit, as JSON values.
Facts = dict[str, Any]


def document_of(item: Any) -> Any:
    """Return the doc_id of one of a model's `items`.

    Examples
    --------
    >>> [document_of(item) for item in (7, "q7", ("task", 7), ["task", 7, 2])]
    [7, 'q7', 7, 7]
    """
    return item[1] if isinstance(item, list | tuple) else item


class PairContent(TypedDict, total=False):
    """Two models; each pair is listed once.

    Attributes
    ----------
    a, b
        The two models, the better one first, as in `order`.
    difference
        The score of `a` less that of `b`, on the metric's own scale: above 0 where `a` scores more,
        which is better or worse as `scale` says. Differences of `compare` (candidate less baseline)
        and of ``board.json`` (a row less the next) follow the same rule; a *lead* is the difference
        in favour of the better model.
    low, high
        The ends of its interval, at the ranking's `confidence` and `looks`.
    p
        Probability that `a` is better, as if looked at once.
    decision
        ``decided``, ``equivalent`` or ``open``.
    population
        Whether a decided pair also holds for other items like these.
    barred
        Whether the pair may not be decided, because its answers may not be comparable.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    decision: str
    population: bool
    barred: bool


#: Two models, by name.
Pair = tuple[str, str]


def pair_of(pairs: Mapping[Pair, PairContent], a: str, b: str) -> PairContent | None:
    """Return the row of two models, `a` less `b`, whichever of them the result names first.

    Parameters
    ----------
    pairs : mapping
        As `pairs_by_models` returns them.
    a, b : str

    Returns
    -------
    dict or None
        None if the result does not list the pair.

    Examples
    --------
    >>> pair = {"a": "x", "b": "y", "difference": 0.1, "low": 0.0, "high": 0.2, "p": 0.75}
    >>> row = pair_of({("x", "y"): pair}, "y", "x")
    >>> row["difference"], row["low"], row["high"], row["p"]
    (-0.1, -0.2, 0.0, 0.25)
    """
    if (pair := pairs.get((a, b))) is not None or (pair := pairs.get((b, a))) is None:
        return pair
    return {
        **pair, "a": a, "b": b, "difference": 0.0 - pair["difference"],
        "low": 0.0 - pair["high"], "high": 0.0 - pair["low"], "p": 1.0 - pair["p"],
    }  # fmt: skip


class TermContent(TypedDict):
    """One outcome of the score that ranks, with its share of the weight."""

    task: str
    metric: str
    filter: str | None
    weight: float


class OpenPairContent(TypedDict):
    """Two undecided neighbours in the order, `a` before `b`, and what would decide them.

    That they turn out equivalent decides them, too. `p` is P(a better than b), as if looked at
    once. `items` is how many more items each tested model would need if the difference stayed as it
    is now, or all its remaining items if no smaller number within reach would do; `cost` is their
    cost at the model's cost per item so far.
    `likely_items` and `likely_cost` decide in four of five cases, as the difference may change.
    `all_items` is true if nothing short of nine tenths of the benchmark would do, `one_look` if the
    pair would be decided now were this the only look, `out_of_reach` if not even all items would do
    (of sampled answers, or about items like these).
    """

    a: str
    b: str
    p: float
    items: dict[str, int]
    cost: float
    likely_items: dict[str, int]
    likely_cost: float
    all_items: bool
    one_look: bool
    out_of_reach: bool


class PlaceContent(TypedDict):
    """Where a model stands among all models, known and new; `in_words` says it in a sentence.

    `rank` is by estimates, of `models` in all; `rank_interval` has the best and the worst rank that
    decided pairs leave possible. `above` and `below` are the nearest models that are decidedly
    better and worse, `tied_with` those that are neither, best first.
    """

    rank: int
    rank_interval: list[int]
    models: int
    above: str | None
    below: str | None
    tied_with: list[str]
    in_words: str


class SampleContent(TypedDict):
    """A model's mean score, estimated from its randomly drawn items alone."""

    n: int
    estimate: float
    standard_error: float
    interval: list[float]


class PassContent(TypedDict):
    """The estimated chance that one of `k` answers to an item is right, over all items."""

    k: int
    estimate: float


class FailureContent(TypedDict):
    """An item that a model failed on."""

    doc_id: Any
    reason: str


class TokensContent(TypedDict, total=False):
    """Tokens read and written of the answers that count, and who counted them.

    `money` and `usd` of the model are of all that it was asked, so they may be more than the price
    of these tokens: answers behind the deciding one and lost attempts are paid as well.
    `cached` are the tokens read that were in the server's cache. `outside` are the tokens written
    that the server counts in its total, and not among those of the completion. `usd` is the cost
    where the server states it with every answer.
    """

    input: float
    output: float
    cached: float
    outside: int
    usd: float
    counted_by: list[str]
    estimated: bool


class ServedByContent(TypedDict):
    """A model and a fingerprint that a server named, and with how many answers."""

    model: str | None
    fingerprint: str | None
    answers: int


class AskContent(TypedDict):
    """An ask without an answer."""

    model: str
    doc_id: Any


class CellContent(TypedDict, total=False):
    """A model's score in a column of several tasks; no figures if its items are `too_few`."""

    items: int
    too_few: bool
    estimate: float
    standard_error: float


class ColumnContent(TypedDict, total=False):
    """The average over tasks, a group of them or one task (`kind`), which has a `weight`."""

    name: str
    kind: str
    weight: float
    items: int
    models: dict[str, CellContent]


class ModelContent(TypedDict, total=False):
    """One model; a live run adds the keys from ``asked`` on.

    Attributes
    ----------
    rank, rank_range
        Place in the order, 1 the best, and the best and worst place that the pairs leave open.
    p_best, p_top
        Probability of being the best; and, by number K, of being among the best K.
    estimate, standard_error, interval
        Of the score in question, on the metric's own scale.
    bound
        The interval widened as if every failed item had scored the least, or the most.
    known
        Whether it is a reference model, whose full results were given.
    place
        Where it stands among reference models.
    ability, ability_standard_error
        In logits, of methods with item curves.
    n_items, items, draws
        Number of answers that are used, their items in the order told (see `document_of` for what
        names further answers), and which of these were drawn at random, with their probabilities.
    failed
        Items without an answer.
    cost
        In `cost_unit`.
    set_aside
        Why the model is asked no more.
    findings
        Why the bank says little about it.
    sample
        Its score by the items drawn at random alone.
    scatter
        With repeats, the standard error of the mean of all repeats of all items about the expected
        score, on the metric's own scale, once ten answers are not the first to their item.
    pass_at
        With repeats, the chance that one of several answers is right.
    asked
        Requests that are or may be billed.
    seconds
        Time of its answers.
    money, usd
        Dollars billed, assumed and unknown for all that was asked; and billed or assumed, if a
        price is known.
    attempts_lost
        Attempts without an answer, by what is known of their bill.
    tokens, served, finish
        What servers report of the answers that count: tokens, models, and reasons for which
        answers ended.
    from_prior
        Answers that an earlier run gave.
    empty_outputs
        Answers without text.
    """

    rank: int | None
    rank_range: list[int] | None
    p_best: float | None
    p_top: dict[str, float]
    estimate: float
    standard_error: float
    interval: list[float]
    bound: list[float] | None
    known: bool
    place: PlaceContent | None
    ability: float | None
    ability_standard_error: float | None
    n_items: int
    items: list[Any]
    draws: list[tuple[Any, float]]
    failed: list[FailureContent]
    cost: float
    set_aside: str | None
    findings: list[str]
    sample: SampleContent | None
    scatter: float
    pass_at: PassContent
    asked: int
    seconds: float
    money: dict[str, float]
    usd: float
    attempts_lost: dict[str, int]
    tokens: TokensContent
    served: list[ServedByContent]
    finish: dict[str, int]
    from_prior: int
    empty_outputs: int


class RankingContent(TypedDict, total=False):
    """A ranking, or one task or metric of it; a run adds the keys from ``schema`` on.

    Attributes
    ----------
    order, ranking
        Names of the models, best first; and the order in words.
    question, sampled
        What the verdicts are about, and whether the models' answers are sampled.
    models, pairwise
        One block per model, and one per pair; of many known models only pairs that are open,
        equivalent or adjacent.
    ties, separated_within_ties
        Groups of neighbours that are not separated; pairs that are, although models between them
        are not.
    open_pairs, withdrawn
        What would decide open neighbours; pairs that were decided earlier, for the first model, and
        are open again.
    expected_wrong_pairs
        How many of the decided pairs are expected to be wrong.
    scale
        The metric's own scale: its ends and its direction.
    confidence, familywise, looks
        Of every verdict; whether it holds for all pairs together; and whether for every look that
        was taken (``every``) or for one.
    items_of_benchmark, answers_of_benchmark, items_administered
        Items of the benchmark, answers of a full run of one model with all repeats, and answers
        used here.
    asked, share_saved
        Requests that are or may be billed, and the share of all repeats that were not asked.
    cost, cost_unit
        Over all models, in ``usd`` or ``items``.
    stopped_because, goal_met
        Why the ranking ended, and whether what was to be decided is.
    signature
        What reproduces the figures, in one line.
    weight, filter
        Of one outcome.
    weights, tasks, outcomes, groups
        Weights of parts in the score, and the ranking by each part.
    schema
        Number of this format.
    headline
        The result in one sentence.
    terms
        What the score is a mean of.
    metric, key, estimand
        The metric, its key in the harness's results, and what is estimated, in words.
    usd, money
        Dollars over all models, as of each.
    seconds, interrupted
        How long the run took, and whether it was cut short by hand.
    changes, warnings
        What was changed during the run, and what a reader should know.
    exit_code
        Of the command.
    bank_sha256, run_dir, scorer
        The bank, the folder, and what computed the metric.
    last_line, journal_sha256
        Number of journal lines that the result rests on, and their SHA-256.
    further
        The ranking by other scores of the same answers.
    board
        Columns of the table over several tasks.
    finished, in_flight
        Of a run that is read from its folder: whether it is over, and asks without an answer.
    """

    order: list[str]
    ranking: str
    question: str
    sampled: bool
    models: dict[str, ModelContent]
    pairwise: list[PairContent]
    ties: list[list[str]]
    separated_within_ties: list[Sequence[str]]
    open_pairs: list[OpenPairContent]
    withdrawn: list[Sequence[str]]
    expected_wrong_pairs: float
    scale: dict[str, Any]
    confidence: float
    familywise: bool
    looks: str
    items_of_benchmark: int
    answers_of_benchmark: int
    items_administered: int
    asked: int
    share_saved: float
    cost: float
    stopped_because: str
    goal_met: bool
    signature: str
    weight: float
    filter: str
    weights: dict[str, float]
    tasks: Mapping[str, RankingContent]
    outcomes: Mapping[str, RankingContent]
    groups: Mapping[str, RankingContent]
    schema: int
    headline: str
    terms: list[TermContent]
    metric: str
    key: str
    estimand: str
    cost_unit: str
    usd: float | None
    money: dict[str, float] | None
    seconds: float
    interrupted: bool
    changes: list[str]
    warnings: list[str]
    exit_code: int
    bank_sha256: str
    run_dir: str | None
    scorer: dict[str, Any] | None
    last_line: int
    journal_sha256: str
    further: Mapping[str, RankingContent]
    board: list[ColumnContent]
    finished: bool | None
    in_flight: list[AskContent]


def pairs_by_models(content: RankingContent) -> dict[Pair, PairContent]:
    """Return the pairs that a ranking lists, by their models; see `pair_of`."""
    return {(pair["a"], pair["b"]): pair for pair in content["pairwise"]}


class ModelForecastContent(TypedDict):
    """What asking one model is expected to take; costs are None where its price is unknown."""

    price_known: bool
    cost_per_item: float | None
    most_expensive_item: float | None
    cost_estimated: bool
    least_items: int
    most_items: int
    least_cost: float | None
    most_cost: float | None
    full_evaluation_cost: float | None
    in_flight_at_most: int
    most_seconds_at_1s: float  # if each answer takes one second


class LoadsContent(TypedDict):
    """How often local weights are loaded, and the limit of items that they have by default."""

    least: int
    most: int
    default_max_items: int | None


class SpreadContent(TypedDict):
    """What rankings take: the mean, and the points that 10 and 90% of them do not exceed."""

    expected: float
    low: float
    high: float


class RehearsalContent(TypedDict):
    """What rankings of models like the bank's took, played before anything is asked."""

    rankings: int
    decided: float
    answers: SpreadContent
    used: float  # answers that results use, in the mean; those asked behind them are paid too
    cost: SpreadContent | None


class WayContent(TypedDict):
    """What deciding a difference takes in one way: with a bank, with random items, by full runs."""

    items_per_model: int
    answers: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    minutes_at_1s: float


class ProspectsContent(TypedDict):
    """What numbers of items decide, by way, and what deciding a difference takes."""

    chance: float
    confidence: float
    familywise: bool
    smallest_gap_by_items: dict[int, dict[str, float]]
    by_gap: dict[str, dict[str, WayContent]]


class ForecastContent(ProspectsContent):
    """What ``plan`` and ``rank --dry_run`` print."""

    task: str
    documents: int
    bank: str | None
    metric: str
    budget: dict[str, Any]
    models: dict[str, ModelForecastContent]
    repeats: int  # answers to each document, at most
    least_items: int
    most_items: int
    least_cost: float | None
    most_cost: float | None
    rehearsal: RehearsalContent | None
    overspend_at_most: float | None
    judge_cost_per_item: float | None
    ahead: int  # answers of a model in flight when the goal is met, at most; 0 without a goal
    one_at_a_time: bool
    loads: LoadsContent | None
