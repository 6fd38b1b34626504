"""A ranking in words and as a table: its headline, and its order in one line."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ..content import FailureContent, PairContent, PlaceContent, RankingContent
from ..methods.belief import POPULATION, RUN
from ..money import in_unit
from ..shown import (
    decimals_for,
    difference_texts,
    exact_percent,
    item_text,
    plural,
    rounded,
    visible_name,
    whole_percent,
)
from .verdicts import EQUIVALENT, WORDS

#: What the score of several metrics or tasks is called.
WEIGHTED_MEAN = "weighted mean"
#: Longest order, in characters, that serves as the headline itself.
LINE = 72


class Lead(NamedTuple):
    """By how much a model leads another, on the metric's own scale; above 0 where it is better."""

    difference: float
    low: float
    high: float

    def in_words(self, unit: str = "") -> str:
        """Write the lead with the ends of its interval, if it has one.

        Examples
        --------
        >>> Lead(1.1, 0.4, 1.8).in_words("bleu"), Lead(0.25, 0.25, 0.25).in_words()
        ('1.10 bleu (0.40 to 1.80)', '0.25')
        """
        middle, ends = self._texts()
        return f"{middle}{f' {unit}' if unit else ''}{ends}"

    def _texts(self) -> tuple[str, str]:
        """Return the difference, and the ends in brackets; "" for an interval without width."""
        low, middle, high = (
            text.lstrip("+") for text in difference_texts(self.low, self.difference, self.high)
        )
        return middle, f" ({low} to {high})" if self.low < self.high else ""

    @property
    def no_difference(self) -> str:
        """Say that the difference prints as 0, with the ends of the interval; "" if it does not.

        Examples
        --------
        >>> Lead(0.0, -0.2, 0.2).no_difference, Lead(0.1, -0.1, 0.3).no_difference
        ('no difference seen (-0.20 to 0.20)', '')
        """
        middle, ends = self._texts()
        return "" if middle.strip("0.") else f"no difference seen{ends}"


def lead_of(content: RankingContent, pair: PairContent) -> Lead:
    """Return by how much the first model of a pair leads the second."""
    sign = 1.0 if content["scale"]["higher_is_better"] else -1.0
    # The other sign exchanges the ends of an interval, and makes -0.0 of 0, which + 0.0 undoes.
    ends = (sign * pair["low"] + 0.0, sign * pair["high"] + 0.0)
    return Lead(sign * pair["difference"] + 0.0, *sorted(ends))


def leads(
    content: RankingContent, among: Container[tuple[str, str]] | None = None
) -> dict[tuple[str, str], Lead]:
    """Return by how much the first model of each pair leads the second.

    Parameters
    ----------
    content : RankingContent
    among : container of (str, str), optional
        Pairs to return, each as ``content["pairwise"]`` has it; default all.

    Examples
    --------
    >>> content = {"scale": {"higher_is_better": False}, "pairwise": [
    ...     {"a": "a", "b": "b", "difference": -0.2, "low": -0.3, "high": -0.1}]}
    >>> leads(content)
    {('a', 'b'): Lead(difference=0.2, low=0.1, high=0.3)}
    """
    return {
        (pair["a"], pair["b"]): lead_of(content, pair)
        for pair in content["pairwise"]
        if among is None or (pair["a"], pair["b"]) in among
    }


def leads_of_next(content: RankingContent) -> dict[str, Lead]:
    """Return by how much each model but the last leads the next one in the order."""
    return {pair[0]: lead for pair, lead in leads(content, {*pairwise(content["order"])}).items()}


def number_format(content: RankingContent) -> Callable[[float], str]:
    """Return a function that formats values with decimals to match the median standard error.

    The decimals show two digits of the median over the models that were asked items; if none was,
    over all models.
    """
    models = content["models"].values()
    # A known model was asked nothing. Its error, next to none, would need decimals that no estimate
    # of the others has.
    asked = [model for model in models if model["n_items"]] or models
    decimals = decimals_for(median([model.get("standard_error", 0.0) for model in asked] or [0.0]))
    return lambda value: rounded(value, decimals)


def headline(content: RankingContent) -> str:
    """Summarize a ranking in one sentence: who leads, by how much, how sure, at what cost.

    Parameters
    ----------
    content : mapping
        As `Ranking.to_dict` and ``result.json`` have it, figures on the metric's own scale.

    Examples
    --------
    >>> from lm_eval_ccat import ItemBank, Ranker
    >>> ranker = Ranker(ItemBank.blank(range(200)), ["weak", "strong"])
    >>> while not ranker.done:
    ...     for model, item in ranker.ask(8):
    ...         ranker.tell(model, item, {"weak": 0.3, "strong": 0.6}[model] + 0.001 * (item % 7))
    >>> print(headline(ranker.result().to_dict()))  # doctest: +ELLIPSIS
    strong leads weak by 0.3...; 95% at every look, order of full runs of these 200 items; asked ...
    """
    models = content["models"].values()
    aside = [block["set_aside"] for block in models if block.get("set_aside")]
    unanswered = [block for block in models if not (block.get("known") or block["n_items"])]
    # One model that answered is no ranking: a headline that praised it would mislead.
    if aside and len(models) > 1 and len(models) - len(unanswered) <= 1:
        loaded = all(str(why).startswith("cannot be loaded") for why in aside)
        return (
            f"No ranking: {len(aside)} of {len(models)} models could not be "
            f"{'loaded' if loaded else 'asked'}"
        )
    if not any(block["n_items"] for block in models):
        return "nothing is ranked: no model has answered"
    how_sure = exact_percent(content["confidence"]) + " for all pairs" * content["familywise"]
    how_sure += {"every": " at every look", "one": " for one look"}[content["looks"]]
    question_words, metric = question(content), content.get("metric")
    # A single model has no order.
    if len(content["models"]) == 1:
        question_words = "mean" + question_words.removeprefix("order")
    finding = _finding(content)
    # A gap in points of a metric names it already.
    if metric and metric not in finding:
        question_words += f" by {metric}"
    if not content["scale"]["higher_is_better"]:
        question_words += ", lower is better"
    return f"{finding}; {how_sure}, {question_words}; {_effort(content)}"


def _effort(content: RankingContent) -> str:
    """Say how many answers, and dollars or tokens, a ranking took, each out of what full runs take.

    It asked more answers than it used if some were in flight at the deciding answer.
    """
    tested = [block for block in content["models"].values() if not block.get("known")]
    size = content.get("answers_of_benchmark", content["items_of_benchmark"])
    used = sum(block["n_items"] for block in tested)
    asked = content.get("asked", used)
    words = f"asked {asked:,}, used {used:,}" if asked != used else f"asked {used:,}"
    words += f" of {size * len(tested):,}"
    if share := share_saved(content):
        words += f" ({whole_percent(share)}% saved)"
    unit = content.get("cost_unit", "items")
    spent = content.get("usd") if unit == "usd" else content.get("cost")
    # What a full run of a model costs is told by its answers alone.
    if unit == "items" or not spent or not all(model["n_items"] for model in tested):
        return words
    full = sum(size * block["cost"] / block["n_items"] for block in tested)
    return f"{words}, {in_unit(spent, unit)} of about {in_unit(full, unit)}"


def share_saved(content: RankingContent) -> float | None:
    """Return the share of all answers that were not asked, 0 to 1.

    None where items have one answer each, and where no model was tested.

    Examples
    --------
    >>> models = {"a": {"n_items": 60}, "b": {"n_items": 60}, "c": {"known": True}}
    >>> share_saved({"models": models, "answers_of_benchmark": 240, "asked": 144})
    0.7
    """
    tested = [block for block in content["models"].values() if not block.get("known")]
    if "answers_of_benchmark" not in content or not tested:
        return None
    asked = content.get("asked", sum(block["n_items"] for block in tested))
    # Items that failed were requested in vain: they are not saved.
    asked += sum(len(block.get("failed", ())) for block in tested)
    return 1.0 - min(asked / (content["answers_of_benchmark"] * len(tested)), 1.0)


def question(content: RankingContent) -> str:
    """Say in words what the order sorts by.

    Examples
    --------
    >>> question({"items_of_benchmark": 800, "question": "benchmark"})
    'order of full runs of these 800 items'
    >>> question({"items_of_benchmark": 30, "question": "benchmark", "sampled": True})
    'order of expected scores on these 30 items'
    >>> question({"items_of_benchmark": 1, "question": "benchmark"})
    'order of full runs of this item'
    """
    n_items, sampled = content["items_of_benchmark"], content.get("sampled")
    items = "this item" if n_items == 1 else f"these {n_items:,} items"
    if content.get("question") == POPULATION:
        like = "this one" if n_items == 1 else f"these {n_items:,}"
        return f"order{' of expected scores' * bool(sampled)} on items like {like}"
    if sampled and content.get("question") == RUN:
        return f"order of these very answers to {items}"
    return f"order of {'expected scores on' if sampled else 'full runs of'} {items}"


def intervals_hold(looks: str | None, confidence: float) -> str:
    """Say in a sentence at which looks the intervals hold; empty if `looks` is not known.

    Examples
    --------
    >>> intervals_hold("one", 0.95)
    'The 95% intervals hold for one look, the one at which the run ended.'
    """
    when = {
        "one": "hold for one look, the one at which the run ended",
        "every": "hold at every look, however often the results are checked",
    }.get(looks or "")
    return f"The {exact_percent(confidence)} intervals {when}." if when else ""


def _finding(content: RankingContent) -> str:
    """Say who leads, by how much and how surely; of newcomers among known models, their place."""
    order, models = content["order"], content["models"]
    if not order:
        return "no model was ranked"
    # Newcomers are few among thousands: their places are the news, not the order.
    if places := {model: place for model in order if (place := models[model].get("place"))}:
        return _places_of_newcomers(places)
    if len(order) == 1:
        low, high = map(number_format(content), models[order[0]]["interval"])
        only = ", the only model left" * (len(models) > 1)
        score = f"{low} to {high}" if low != high else low
        return f"{visible_name(order[0])}{only} scores {score}"
    metric, first_lead = content.get("metric", ""), leads_of_next(content)[order[0]]
    # A weighted mean of several metrics, whose name has spaces, is no unit.
    lead = first_lead.in_words("" if " " in metric else metric)
    # The models that may be the best; all of them where ranks are not known.
    contenders = [model for model in order if (models[model].get("rank_range") or [1])[0] == 1]
    # From the surest finding to the least sure one: the first that holds is said.
    if len(contenders) == 1:
        return _clear_leader(content, lead)
    if _are_equivalent(content, contenders):
        return _equivalent_contenders(content, contenders, lead)
    if len(order) == 2:
        return _better_of_two(content, first_lead.no_difference, lead)
    return _open_contenders(content, contenders, first_lead.no_difference, lead)


def _are_equivalent(content: RankingContent, models: Sequence[str]) -> bool:
    """Whether all pairs among some models are equivalent."""
    names = set(models)
    states = {
        pair.get("decision")
        for pair in content.get("pairwise", ())
        if pair["a"] in names and pair["b"] in names
    }
    return states == {WORDS[EQUIVALENT]}


def _equivalent_contenders(content: RankingContent, contenders: Sequence[str], lead: str) -> str:
    """Say that the models which may be the best are equivalent, and how far the first two are."""
    order = content["order"]
    superlative = ", the best" * (len(contenders) < len(order))
    if len(contenders) == 2:
        equal = " and ".join(map(visible_name, contenders))
        return f"{equal} are equivalent, {lead} apart{superlative}"
    first, second = map(visible_name, order[:2])
    equal = f"{len(contenders)} models are equivalent{superlative}"
    return f"{equal}; {first} leads {second} by {lead}"


def _better_of_two(content: RankingContent, no_difference: str, lead: str) -> str:
    """Say which of two models is probably better, or that they cannot be told apart."""
    first, second = map(visible_name, content["order"])
    if no_difference:
        return f"{first} and {second} cannot be told apart: {no_difference}"
    # The chances as they were drawn may be in another order than the estimates.
    chance = content["models"][content["order"][0]].get("p_best")
    return f"{first} is probably better than {second}{_in_brackets(chance)}, by {lead}"


def _open_contenders(
    content: RankingContent, contenders: Sequence[str], no_difference: str, lead: str
) -> str:
    """Say how many of several models may be the best, and which of them probably is."""
    order, models = content["order"], content["models"]
    first, second = map(visible_name, order[:2])
    share = f"{len(contenders)} of {len(order)}"
    # Which of them is likeliest would suggest a difference that nobody sees.
    if no_difference and {*order[:2]} <= {*contenders}:
        return f"{share} may be the best; between {first} and {second} {no_difference}"
    likeliest = max(contenders, key=lambda model: models[model].get("p_best") or 0)
    chance = models[likeliest].get("p_best")
    sure = _in_brackets(chance)
    # A model with a larger error may lead nobody and still be the likeliest best.
    if likeliest != order[0]:
        likely = f"{visible_name(likeliest)} is the likeliest to be the best{sure}"
        return f"{first} leads {second} by {lead}; {likely}, {share} may be"
    if chance is None or chance <= 0.5:
        return f"{first} leads {second} by {lead}; {share} may be the best"
    return f"{first} is probably the best{sure}, and leads {second} by {lead}; {share} may be"


def _in_brackets(chance: float | None) -> str:
    """Return a chance in brackets, if it is known."""
    return "" if chance is None else f" ({whole_percent(chance)}%)"


def failures_in_words(failures: Sequence[FailureContent], repeated: bool) -> str:
    """Say what a model failed on: documents, or, of repeats, answers and their documents.

    Examples
    --------
    >>> failures_in_words([{"doc_id": ("gsm", 3), "reason": "HTTP 400"}], False)
    'failed on 1 document; it counts as not seen, not as 0. The first: gsm: 3: HTTP 400'
    """
    doc_ids, first = [failure["doc_id"] for failure in failures], failures[0]
    what = plural(len(doc_ids), "document")
    if repeated:
        pairs = {tuple(doc_id[:2]) for doc_id in doc_ids if isinstance(doc_id, tuple | list)}
        # Of one task the first answer to a document has its bare name, and further ones the task's.
        alone = {doc_id for doc_id in doc_ids if not isinstance(doc_id, tuple | list)}
        n_documents = len(pairs) + len(alone - {document for _, document in pairs})
        what = f"{plural(len(doc_ids), 'answer')} to {plural(n_documents, 'document')}"
    count = "it counts" if len(doc_ids) == 1 else "they count"
    which = f"{item_text(first['doc_id'])}: {first['reason']}"
    return f"failed on {what}; {count} as not seen, not as 0. The first: {which}"


def _places_of_newcomers(places: Mapping[str, PlaceContent]) -> str:
    """Say where the best of new models stands among known ones, and how many more stand below it.

    `places` has the best first; a place is one of all models, known and new.
    """
    (first, place), *further = places.items()
    best, worst = place["rank_interval"]
    ranks = f" ({best} to {worst})" if best < worst else ""
    below = f"; {len(further)} more below" if further else ""
    rank = f"rank {place['rank']:,} of {place['models']:,}"
    return f"{visible_name(first)} has {rank}{ranks}{below}"


def _clear_leader(content: RankingContent, lead: str) -> str:
    """Say by how much the best model leads the second, and how the others stand below them."""
    order, line = content["order"], content.get("ranking", "")
    ties, apart = content["ties"], content.get("separated_within_ties", ())
    first, second = map(visible_name, order[:2])
    _, place, *further = order_parts(order, ties, apart)
    if place.models == (order[1],) and not place.chained:
        below = order_in_words(order[2:], ties, [(better, worse) for better, worse in apart])
        if len(below) > LINE:
            below = f"the {len(order) - 2:,} others"
        return f"{first} leads {second} by {lead}" + (f", both lead {below}" if further else "")
    if len(line) <= LINE:
        return f"{line}, {first} leads {second} by {lead}"
    return f"{first} is the best of {len(order):,} models, and leads {second} by {lead}"


def order_in_words(
    order: Sequence[str],
    ties: Sequence[Sequence[str]],
    separated: Sequence[tuple[str, str]] = (),
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """Write the order as one line, quoting any name that could be mistaken for part of it.

    Parameters
    ----------
    order : sequence of str
        Models, best first.
    ties : sequence of sequence of str
        Runs of models whose neighbours are not separated.
    separated : sequence of (str, str), optional
        Pairs within these runs that are decided all the same, which makes their run a chain.
    ranges : mapping of str to (int, int), optional
        Best and worst rank of each model, shown after the names of a chain.

    Examples
    --------
    >>> order_in_words(["B", "A", "C", "D", "E"], [("C", "D")])
    'B > A > {C, D} > E'
    >>> ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3)}
    >>> order_in_words(["A", "B", "C"], [("A", "B", "C")], [("A", "C")], ranges)
    'A (1 to 2) >~ B (1 to 3) >~ C (2 to 3)'
    """

    def shown(model: str, chained: bool) -> str:
        best, worst = (ranges or {}).get(model, (0, 0))
        return visible_name(model) + f" ({best} to {worst})" * (chained and best < worst)

    line = ""
    for part in order_parts(order, ties, separated):
        names = ", ".join(shown(model, part.chained) for model in part.models)
        line += part.joint + (f"{{{names}}}" if len(part.models) > 1 else names)
    return line


class OrderPart(NamedTuple):
    """A part of the order: models that share a place, and the sign before them."""

    joint: str
    models: tuple[str, ...]
    chained: bool = False


def order_parts(
    order: Sequence[str],
    ties: Iterable[Sequence[str]],
    separated: Iterable[Sequence[str]] = (),
) -> Iterator[OrderPart]:
    """Yield the parts of the order (see `order_in_words`), one for each model of a chain."""
    groups = [tuple(tie) for tie in ties]
    group_of = {model: group for group in groups for model in group}
    first_models = {name for name, _ in separated}
    chained = {group for group in groups if not first_models.isdisjoint(group)}
    joint = ""
    for group in dict.fromkeys(group_of.get(model, (model,)) for model in order):
        if group in chained:
            for place, model in enumerate(group):
                yield OrderPart(" >~ " if place else joint, (model,), True)
        else:
            yield OrderPart(joint, group)
        joint = " > "
