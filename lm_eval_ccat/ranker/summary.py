"""From the state of a ranking to its `Ranking`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import __version__
from ..bank.outcome import Outcome
from ..methods.belief import BENCHMARK, POPULATION, Belief
from ..methods.policy import Description
from ..metrics.scale import Scale
from .allocation import Turns
from .audit import Audits
from .contents import groups_of
from .headline import Place
from .ledger import Account
from .looks import Looks
from .parts import Parts
from .result import Brief, Ranking, signature
from .rows import Estimate, ModelRow, PairRow
from .stopping import AllDecided, MaxItems, TopDecided, budget_used_up, has_goal
from .verdicts import DECIDED, WORDS, Verdicts
from .weighted import Weighted

_TOPS = (1, 3, 5, 10)


class Summary:
    """Puts a ranking's results together, of the whole and of its parts.

    Parameters
    ----------
    turns : Turns
    parts : Parts
    audits : Audits
    groups : mapping of str to (mapping of task to weight, or sequence of tasks)
    options : mapping
        Further arguments of the ranking, for the signature.
    """

    def __init__(
        self,
        turns: Turns,
        parts: Parts,
        audits: Audits,
        groups: Mapping[str, Mapping[str, float] | Sequence[str]],
        options: Mapping[str, Any],
    ) -> None:
        self._turns, self._judge, self._ledger = turns, turns.judge, turns.ledger
        self._parts, self._audits, self._contents = parts, audits, parts.contents
        self._options = {k: v for k, v in sorted(options.items()) if v is not None}
        factors = groups_of(self._contents, groups)
        #: Sums of some of the tasks, by group.
        self.groups = {name: self._judge.score.of(factor) for name, factor in factors.items()}

    def ranking(self, done: bool) -> Ranking:
        """The current ranking."""
        judge, contents = self._judge, self._contents
        rule, standing = self._turns.rule, judge.standing()
        goal = rule if has_goal(rule) else AllDecided()
        tops = [r.k for r in rule.parts() if isinstance(r, TopDecided)]
        found = self._rows(judge.verdicts(latest=True), judge.score, tops)
        found = replace(
            found,
            signature=self.signature,
            stopped_because=self._why_stopped(done),
            goal_met=goal.met(standing),
        )
        if len(contents.tasks) > 1 or not contents.bare:
            tasks = {t.name: self._task(n) for n, t in enumerate(contents.tasks)}
            found = replace(found, tasks=tasks)
        elif len(contents.outcomes) > 1:
            found = replace(found, outcomes=self._outcomes(0))
        if len(contents.outcomes) > 1:
            found = replace(found, weights={t.name: t.weight for t in contents.tasks})
        groups = {name: self._rows_of(score) for name, score in self.groups.items()}
        return replace(found, groups=groups)

    def brief(self) -> Brief:
        """Order, ties and estimates alone: for who looks many times."""
        judge, score = self._judge, self._judge.score
        if judge.references is not None:
            return Brief.of(self.ranking(False))
        v = judge.verdicts(latest=True)
        looks = v.looks.anew
        belief = judge.belief(v.belief.question, score).on_scores
        estimates = {
            a.name: _estimate(belief, a.at, looks, self._described(score, a.at))
            for a in self._ledger.accounts
        }
        means = {name: e.mean for name, e in estimates.items()}
        intervals = {name: e.interval(v.confidence) for name, e in estimates.items()}
        return Brief(v.order, v.ties, means, intervals)

    # -- parts --------------------------------------------------------------------------------

    def _task(self, t: int) -> Ranking:
        task = self._contents.tasks[t]
        outcomes = self._outcomes(t)
        if len(outcomes) == 1:
            return next(iter(outcomes.values()))
        score = self._judge.score.of({t: 1.0 / task.weight})
        weights = {o.name: o.weight / task.weight for o in task.outcomes}
        return replace(
            self._rows_of(score), outcomes=outcomes, weights=weights, signature=task.name
        )

    def _outcomes(self, t: int) -> dict[str, Ranking]:
        """A ranking by each outcome of a task by itself."""
        found = {}
        for part in self._parts.of_task[t]:
            score = self._judge.score.of({t: 1.0}, part)
            ranking = replace(self._rows_of(score), signature=_of_bank(part.outcome))
            found[part.outcome.name] = ranking
        return found

    def _rows_of(self, score: Weighted) -> Ranking:
        return self._rows(self._judge.first_look(score), score)

    # -- rows ---------------------------------------------------------------------------------

    def _rows(self, v: Verdicts, score: Weighted, tops: Sequence[int] = ()) -> Ranking:
        """The rows of a ranking by one score; items as their tasks name them."""
        whole = v.belief.references is not None or score is self._judge.score
        items = sum(s.stop - s.start for s in self._slices(score))
        looks = v.looks.anew
        models = self._models(v, score, looks, tops)
        scales = [p.outcome.scale for p in score.parts]
        return Ranking(
            models=tuple(models),
            pairs=tuple(self._pairs(v, whole)),
            order=v.order,
            ties=v.ties,
            separated_within_ties=v.separated_within_ties,
            open_pairs=v.missing(items, {m.name: m.cost / len(m.items) for m in models if m.items}),
            withdrawn=v.withdrawn,
            expected_wrong=v.expected_wrong,
            question=v.belief.question,
            confidence=v.confidence,
            level_spent=1.0 if looks.once else looks.spent(v.belief.n_items),
            n_items=items,
            scale=scales[0] if all(s == scales[0] for s in scales) else Scale(),
            signature="+".join(self._contents.tasks[t].name for t in score.tasks),
            verdicts=v,
        )

    def _slices(self, score: Weighted) -> list[slice]:
        return [self._contents.tasks[t].where for t in score.tasks]

    def _models(
        self, v: Verdicts, score: Weighted, looks: Looks, tops: Sequence[int]
    ) -> list[ModelRow]:
        belief = self._judge.belief(v.belief.question, score).on_scores
        rank = {name: n for n, name in enumerate(v.order, 1)}
        wanted = [k for k in sorted({*_TOPS, *tops}) if k == 1 or k < len(rank)]
        chances, ranges = v.p_top(wanted), v.rank_ranges
        p_top = {m: {k: c[m] for k, c in chances.items() if m in c} for m in v.names}
        out, slices = [], self._slices(score)
        for account in self._ledger.accounts:
            j, name = account.at, account.name
            about = self._described(score, j)
            estimate = _estimate(belief, j, looks, about)
            items, draws, failed = self._books(account, score, slices)
            interval = estimate.interval(v.confidence)
            out.append(
                ModelRow(
                    name=name,
                    estimate=estimate,
                    interval=interval,
                    rank=rank.get(name),
                    rank_range=ranges.get(name),
                    p_top=p_top.get(name, {}),
                    bound=self._bound(account, score, replace(estimate, lean=0.0), v.confidence),
                    cost=sum(account.spent_on[t] for t in score.tasks),
                    set_aside=account.dropped,
                    findings=score.findings(j),
                    place=_place(v, name, rank) if v.belief.references and name in rank else None,
                    items=items,
                    draws=draws,
                    failed=failed,
                    ability=(about.ability, about.ability_error) if about else None,
                    sample=about.drawn if about and about.drawn and about.drawn.n > 1 else None,
                    audit=self._audits.of(score.parts[0], j, estimate.mean, v.confidence)
                    if about and self._audits.share
                    else None,
                )
            )
        return out + _reference_rows(v, rank, ranges, p_top)

    def _described(self, score: Weighted, j: int) -> Description | None:
        """The method's description of a model, if the score is a single outcome's."""
        return score.parts[0].policy.describe(j) if len(score.parts) == 1 else None

    def _books(
        self, account: Account, score: Weighted, slices: Sequence[slice]
    ) -> tuple[list[Any], list[tuple[Any, float]], dict[Any, str]]:
        """Items of a model by what became of them, as `ModelRow` has them."""
        contents = self._contents
        whole = score is self._judge.score
        named = contents.item if whole or len(slices) > 1 else contents.doc_id

        def own(items: Iterable[int]) -> list[int]:
            return [i for i in items if any(s.start <= i < s.stop for s in slices)]

        told = own(account.told)
        if len(score.parts) == 1 and not whole:
            # An answer may lack an outcome, whose judge failed, say.
            scored = score.parts[0].scores[account.at]
            told = [i for i in told if i - slices[0].start in scored]
        drawn = [(named(i), account.probability[i]) for i in told if i in account.probability]
        failed = {named(i): account.failed[i] for i in own(account.failed)}
        return [named(i) for i in told], drawn, failed

    def _bound(
        self, account: Account, score: Weighted, estimate: Estimate, confidence: float
    ) -> tuple[float, float] | None:
        """The interval if every failed item had scored 0, or 1, and so all that it stands for."""
        down = up = 0.0
        for t, where, weight in zip(score.tasks, self._slices(score), score.weights):
            failed = [i - where.start for i in account.failed if where.start <= i < where.stop]
            if failed:
                part = max(self._parts.of_task[t], key=lambda p: p.outcome.weight)
                expected = part.policy.expected(account.at)[failed]
                asked = len(failed) + len(part.scores[account.at])
                down += weight * float(expected.sum()) / asked
                up += weight * float((1.0 - expected).sum()) / asked
        if not (down or up):
            return None
        low, high = estimate.interval(confidence)
        return max(low - down, 0.0), min(high + up, 1.0)

    def _pairs(self, v: Verdicts, whole: bool) -> list[PairRow]:
        judge, m = self._judge, len(v.tested)
        better, needed, state = v.better.tolist(), v.needed().tolist(), v.state.tolist()
        stands: dict[str, list[list[bool]]] = {}
        if whole and v.belief.question == BENCHMARK and m > 1:
            p = judge.first_look(question=POPULATION)
            agree = (p.sign == v.sign[:, :m]) & (p.state == DECIDED)
            stands["population"] = agree.tolist()
        out = []
        order = v.rows.tolist()
        tested = [i for i in order if i < m]
        below = {i: n for n, i in enumerate(order)}
        for i in tested:
            for j in order if m < len(order) else tested:
                if j == i or (j < m and below[j] < below[i]):
                    continue
                a, b = (i, j) if below[i] < below[j] else (j, i)
                p_a = better[i][j] if a == i else 1.0 - better[i][j]
                stand = stands["population"][i][j] if stands and j < m else None
                barred = frozenset((v.names[a], v.names[b])) in judge.barred
                out.append(
                    PairRow(
                        v.names[a], v.names[b], p_a, needed[i][j], WORDS[state[i][j]], stand, barred
                    )
                )
        return out

    # -- words --------------------------------------------------------------------------------

    @property
    def signature(self) -> str:
        """What a reader needs to reproduce the ranking, in one line."""
        turns, judge, outcomes = self._turns, self._judge, self._contents.outcomes
        if len(outcomes) == 1:
            what = _what(outcomes[0])
        else:
            each = (f"{o.weight:.4g} x {o.task}/{o.name}/{o.bank.short_hash}" for o in outcomes)
            what = {"tasks": "+".join(each)}
        references = judge.references
        return signature(
            {
                **what,
                "method": outcomes[0].bank.method,
                "confidence": f"{judge.confidence:g}",
                "question": None if judge.question == BENCHMARK else judge.question,
                "looks": "one" if judge.looks.once else None,
                "warmup": turns.warmup,
                "audit": turns.audit_share or None,
                "exposure": turns.exposure if turns.exposure > 1 else None,
                "known": None if references is None else len(references.names),
                "seed": turns.seed,
                **self._options,
                "ccat": __version__,
            }
        )

    def _why_stopped(self, done: bool) -> str:
        turns, ledger = self._turns, self._ledger
        if turns.stopped is not None:
            return turns.stopped
        if not done:
            return ""
        standing = self._judge.standing()
        seats = [ledger.accounts[j] for j in turns.unsettled()]
        if not seats:
            if not ledger.there.any():
                return "no model is left"
            if self._judge.barred and not turns.rule.met(standing):
                return "no open pair may be decided"
            return turns.rule.why(standing) or "no model is left"
        if any(a.n < turns.cap and a.left.any() for a in seats):
            return budget_used_up(ledger.budget, ledger.budget - ledger.committed)
        if not any(a.left.any() for a in seats):
            return "every item was administered"
        return MaxItems(turns.cap).why(standing)


def _what(o: Outcome) -> dict[str, object]:
    b = o.bank
    return {"task": b.task, "metric": b.metric, "filter": b.filter, "bank": b.short_hash}


def _of_bank(o: Outcome) -> str:
    return signature({**_what(o), "method": o.bank.method, "ccat": __version__})


def _reference_rows(
    v: Verdicts,
    rank: Mapping[str, int],
    ranges: Mapping[str, tuple[int, int]],
    p_top: Mapping[str, dict[int, float]],
) -> list[ModelRow]:
    r = v.belief.references
    if r is None:
        return []
    made = [Estimate(m, e) for m, e in zip(r.estimate.tolist(), r.error.tolist())]
    return [
        ModelRow(
            name=name,
            estimate=estimate,
            interval=estimate.interval(v.confidence),
            known=True,
            rank=rank[name],
            rank_range=ranges[name],
            p_top=p_top[name],
        )
        for name, estimate in zip(r.names, made)
    ]


def _estimate(belief: Belief, j: int, looks: Looks, about: Description | None) -> Estimate:
    """One model's estimated score, as a belief has it."""
    return Estimate(
        float(belief.location[j]),
        float(belief.variance[j, j] ** 0.5),
        float(belief.df[j, j]),
        float(belief.n[j, j]),
        belief.n_items,
        0.0 if belief.lean is None else float(belief.lean[j]),
        looks,
        about.interval if about else None,
    )


def _place(v: Verdicts, name: str, rank: Mapping[str, int]) -> Place:
    """Where a tested model stands among all models."""
    i = v.names.index(name)
    pairs = {other: v.pair(i, j) for j, other in enumerate(v.names) if j != i}
    better = [m for m, (sign, _) in pairs.items() if sign < 0]
    worse = [m for m, (sign, _) in pairs.items() if sign > 0]
    best, worst = (int(x[i]) for x in v.ranges)
    return Place(
        rank=rank[name],
        best=best,
        worst=worst,
        n_models=len(v.names),
        above=max(better, key=rank.__getitem__, default=None),
        below=min(worse, key=rank.__getitem__, default=None),
        tied_with=tuple(
            sorted((m for m, (sign, _) in pairs.items() if not sign), key=rank.__getitem__)
        ),
    )
