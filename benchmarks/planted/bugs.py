"""The bugs: each was thought of by reading the line it changes; none of them is exotic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One wrong fragment.

    Attributes
    ----------
    name : str
        The mistake in words.
    room : str
        Folder or module (without ``.py``) in which the fragment stands exactly once.
    old, new : str
        The fragment, right and wrong.
    tests : tuple of str
        The test files, folders or tests that should notice.
    reason : str
        Why it may survive.
    """

    name: str
    room: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str = ""


BUGS: tuple[Bug, ...] = (
    Bug(
        "a file is replaced before it is on the disk",
        "lm_eval_ccat/files",
        "            f.flush()\n            sync_file(f.fileno())\n",
        "            f.flush()\n",
        ("tests/test_files.py",),
    ),
    Bug(
        "two texts may get one file name: the hash is left out",
        "lm_eval_ccat/files",
        "    if plain == name and (name",
        "    if plain and (name",
        ("tests/test_files.py",),
    ),
    Bug(
        "only the last part of a credential in a URL is masked",
        "lm_eval_ccat/masking",
        "            yield user\n            yield from",
        "            yield from",
        ("tests/test_masking.py",),
    ),
    Bug(
        "a short credential is searched for everywhere",
        "lm_eval_ccat/masking",
        "if len(v) >= SHORTEST and",
        "if",
        ("tests/test_masking.py",),
    ),
    Bug(
        "a worker starts workers of its own",
        "lm_eval_ccat/cluster",
        "if count <= 1 or _inside_worker:",
        "if count <= 1:",
        ("tests/test_cluster.py",),
    ),
    Bug(
        "a joiner beside ASCII letters stays hidden",
        "lm_eval_ccat/shown",
        "[\\u200c\\u200d](?![^\\x00-\\x7f])",
        "[\\u200c](?![^\\x00-\\x7f])",
        ("tests/test_shown.py",),
    ),
    Bug(
        "an installed plugin hides one of the package's own",
        "lm_eval_ccat/plugins",
        '        if name in self._own():\n            raise UsageError(f"{name!r} is a',
        '        if name in self._registered:\n            raise UsageError(f"{name!r} is a',
        ("tests/methods/test_found_by_name.py",),
    ),
    Bug(
        "samples that an Inspect task drops count as scored 0",
        "lm_eval_ccat/inspect",
        '            ranker.fail(MODEL, id, "no score")',
        "            ranker.tell(MODEL, id, 0.0)",
        ("tests/integrations/test_inspect.py",),
    ),
    Bug(
        "the bank on the hub is fetched at its newest revision, whatever was asked",
        "lm_eval_ccat/integrations/hub",
        "hf_hub_download(repo, FILE, revision=revision, **place)",
        "hf_hub_download(repo, FILE, **place)",
        ("tests/integrations/test_hub.py",),
    ),
    Bug(
        "the worst rank is one too high",
        "lm_eval_ccat/ranker/verdicts",
        "return 1 + better, n - worse",
        "return 1 + better, n - worse + 1",
        ("tests/ranker/test_verdicts.py",),
    ),
    Bug(
        "a rank range counts its ends: the percentile rule asks for one rank more",
        "lm_eval_ccat/ranker/stopping",
        "return np.asarray(worst - best)",
        "return np.asarray(worst - best + 1)",
        ("tests/ranker/test_rules.py", "tests/ranker/test_stopping.py"),
    ),
    Bug(
        "models are equivalent though their difference may be large",
        "lm_eval_ccat/ranker/verdicts",
        "near = np.exp(-close) * (family_size(belief) if self.familywise else 1.0) <= level",
        "near = close == close",
        ("tests/ranker/test_verdicts.py",),
    ),
    Bug(
        "a score above the cap is divided by it and falls below 0",
        "lm_eval_ccat/metrics/scale",
        "score = np.clip(raw, self.low, self.high)",
        "score = raw",
        ("tests/metrics/test_scale.py",),
    ),
    Bug(
        "a group's weights are not divided by its tasks' own",
        "lm_eval_ccat/ranker/contents",
        "{t: w / self.tasks[t].weight for t, w in numbers.items()}",
        "dict(numbers)",
        ("tests/ranker/test_tasks.py",),
    ),
    Bug(
        "the interval of compare is judged by the wrong end",
        "lm_eval_ccat/ranker/verdicts",
        "NOT_WORSE if 0.0 < margin and -margin <= low",
        "NOT_WORSE if 0.0 < margin and -margin <= high",
        (
            "tests/live/test_versus.py",
            "tests/live/test_compare.py",
            "tests/methods/sample/test_sample.py",
        ),
    ),
    Bug(
        "clusters have the degrees of freedom of their documents",
        "lm_eval_ccat/ranker/difference",
        "n_clusters - 1\n        variance",
        "n - 1\n        variance",
        ("tests/live/test_compare.py", "tests/methods/sample/test_sample.py"),
    ),
    Bug(
        "the audit's spread is divided by n",
        "lm_eval_ccat/ranker/audit",
        "value.std(ddof=1)",
        "value.std(ddof=0)",
        ("tests/ranker/test_audit.py",),
    ),
    Bug(
        "a stratified draw has the probability of one stratum",
        "lm_eval_ccat/methods/sample/pairs",
        "if len(self.sizes) == 1:",
        "if len(self.sizes) >= 1:",
        ("tests/methods/sample/test_sample.py",),
    ),
    Bug(
        "a journal's checksum is not compared",
        "lm_eval_ccat/runs/journal",
        'return "" if right else "does not fit its checksum: it is damaged"',
        'return ""',
        ("tests/runs/test_journal.py", "tests/runs/test_format1.py"),
    ),
    Bug(
        "the page shows a result though the journal went on",
        "lm_eval_ccat/report/run",
        "finished = stored is not None and _is_the_last(stored, records)",
        "finished = stored is not None",
        ("tests/report/test_one_truth.py",),
    ),
    Bug(
        "Retry-After is cut to the back-off of the rule",
        "lm_eval_ccat/live/failures",
        "return max(min(backoff, rule.max_backoff), self.wait or 0.0)",
        "return min(backoff, rule.max_backoff)",
        ("tests/live/test_availability.py",),
    ),
    Bug(
        "a union of scores keeps the older of two",
        "lm_eval_ccat/upkeep/update",
        "np.where(np.isnan(scores), row[at], scores)",
        "np.where(np.isnan(row[at]), scores, row[at])",
        ("tests/upkeep/test_update.py",),
    ),
    Bug(
        "the mean over configs counts the missing ones",
        "lm_eval_ccat/scores/table",
        "count = seen.sum(axis=0)",
        "count = np.full(rows.shape[1], len(rows))",
        ("tests/scores/test_table.py",),
    ),
    Bug(
        "intervals of differences are covered by normal quantiles",
        "lm_eval_ccat/simulation/judging",
        "np.where(np.isinf(df), ndtri(p), stdtrit(finite, p))",
        "np.where(finite > 0.0, ndtri(p), stdtrit(finite, p))",
        ("tests/simulation/test_pieces.py::test_pairs_are_covered_by_students_quantiles",),
    ),
    Bug(
        "an error is restored without the width of its scale",
        "lm_eval_ccat/metrics/scale",
        "return np.asarray(se, dtype=np.float64) * self.span",
        "return np.asarray(se, dtype=np.float64)",
        ("tests/metrics/test_scale.py",),
    ),
    Bug(
        "a character beyond ASCII counts as a quarter of a token",
        "lm_eval_ccat/harness/price",
        "CHARACTERS_PER_TOKEN + (len(text) - plain)",
        "CHARACTERS_PER_TOKEN + (len(text) - plain) / 4",
        ("tests/harness/test_prices.py",),
    ),
    Bug(
        "the seed of a replay is shared by all folds",
        "lm_eval_ccat/simulation/stage",
        "seed=seed * 1_000_003 + self.fold.number",
        "seed=seed * 1_000_003",
        ("tests/simulation/test_simulate.py::test_folds_and_seeds_draw_each_their_own",),
    ),
    Bug(
        "the sample of a benchmark is taken for one of a population",
        "lm_eval_ccat/methods/sample/pairs",
        "if whole else np.ones_like(n)",
        "if not whole else np.ones_like(n)",
        ("tests/methods/sample/test_sample.py",),
    ),
    Bug(
        "a pair that only looked decided at an earlier look is forgotten",
        "lm_eval_ccat/ranker/looks",
        "seen[:, i, j] = np.maximum(now, before)",
        "seen[:, i, j] = now",
        ("tests/ranker/test_looks.py", "tests/ranker/test_verdicts.py"),
    ),
    Bug(
        "a raised horizon gets the whole level once more",
        "lm_eval_ccat/ranker/looks",
        "first, left = last + 1, left - share",
        "first, left = last + 1, left",
        ("tests/ranker/test_verdicts.py",),
    ),
    Bug(
        "a decided difference may include 0",
        "lm_eval_ccat/ranker/verdicts",
        "low = np.where(self.sign > 0, np.maximum(low, 0.0), low)",
        "low = low + 0.0",
        ("tests/ranker/test_verdicts.py",),
    ),
    Bug(
        "the interval of a mean leaves [0, 1]",
        "lm_eval_ccat/ranker",
        "min(1.0, high + max(-self.lean, 0.0))",
        "high + max(-self.lean, 0.0)",
        ("tests/ranker/test_result.py",),
    ),
    Bug(
        "references that are equal are decided",
        "lm_eval_ccat/ranker/verdicts",
        "return sign, DECIDED if sign else EQUIVALENT",
        "return sign, DECIDED",
        ("tests/ranker/test_verdicts.py", "tests/ranker/test_known.py"),
    ),
    Bug(
        "a price is corrected by the costs of one item alone",
        "lm_eval_ccat/ranker/ledger",
        "(account.price * weight + cost) / (weight + units)",
        "(account.price * weight + cost) / weight",
        ("tests/ranker/test_ledger.py", "tests/ranker/test_money.py"),
    ),
    Bug(
        "rounding costs the last item of a budget",
        "lm_eval_ccat/ranker/ledger",
        "(self.budget if budget is None else budget) * (1.0 + _ROUNDING) - self.committed",
        "(self.budget if budget is None else budget) - self.committed",
        ("tests/ranker/test_ledger.py", "tests/ranker/test_money.py"),
    ),
    Bug(
        "tasks weigh alike where documents were asked for",
        "lm_eval_ccat/ranker/contents",
        "weights: dict[str, Any] = {t: float(o[0].bank.n_items)",
        "weights: dict[str, Any] = {t: 1.0 * bool(o[0].bank.n_items)",
        ("tests/ranker/test_tasks.py",),
    ),
    Bug(
        "the middle item of a variance is counted twice",
        "lm_eval_ccat/methods/sample/pairs",
        "self.square[:, series] - self.total[:, series] ** 2 / least",
        "self.square[:, series]",
        ("tests/methods/sample/test_sample.py",),
    ),
    Bug(
        "an equal pair is better than itself",
        "lm_eval_ccat/ranker/verdicts",
        "(variance == 0.0) & (np.abs(gap) <= ROUNDING)] = 0.5",
        "(variance == 0.0) & (np.abs(gap) <= ROUNDING)] = 1.0",
        ("tests/live/test_compare.py", "tests/methods/sample/test_sample.py"),
    ),
    Bug(
        "more documents are forecast from half the margin",
        "lm_eval_ccat/ranker/difference",
        "abs(gain - least)) ** 2",
        "abs(gain)) ** 2",
        ("tests/live/test_compare.py", "tests/methods/sample/test_sample.py"),
    ),
    Bug(
        "a line of a journal may change if its number stays",
        "lm_eval_ccat/runs/journal",
        "            hashed.update(line[: seal.start()])\n",
        "",
        ("tests/runs/test_journal.py",),
    ),
    Bug(
        "a journal may lose lines",
        "lm_eval_ccat/runs/journal",
        "if sequence != self.count:",
        "if False:",
        ("tests/runs/test_journal.py", "tests/runs/test_salvage.py"),
    ),
    Bug(
        "an ask that is put back waits behind later ones",
        "lm_eval_ccat/live/line",
        "insort(self._waiting[ask.model], ask, key=lambda one: one.number)",
        "self._waiting[ask.model].append(ask)",
        ("tests/live/test_line.py",),
    ),
    Bug(
        "an answer that came after its model was put aside is asked for again",
        "lm_eval_ccat/runs/book",
        "if (late := self.waiting.get(ask.pair)) is not None:",
        "if (late := None) is not None:",
        ("tests/live/test_line.py",),
    ),
    Bug(
        "answers behind a gap are forgotten at the deadline",
        "lm_eval_ccat/runs/book",
        'if self.ended.get("gaps"):',
        "if False:",
        ("tests/runs/test_book.py",),
    ),
    Bug(
        "the end of a longer torn line stays behind a new one",
        "lm_eval_ccat/runs/journal",
        "                stream.truncate(self.size)\n                self.torn = None",
        "                self.torn = None",
        ("tests/runs/test_journal.py",),
    ),
    Bug(
        "a rate that is refused at once is not lowered",
        "lm_eval_ccat/live/rates",
        "self.rate *= BELOW if self._settled else SEARCH",
        "self.rate *= 1.0",
        (
            "tests/live/test_rates.py",
            "tests/live/test_outages.py",
            "tests/live/test_availability.py",
            "tests/live/test_line.py",
        ),
    ),
    Bug(
        "an error of the code is tried as often as one of the network",
        "lm_eval_ccat/live/failures",
        "min(rule.attempts, 2)",
        "rule.attempts",
        ("tests/live/test_failures.py",),
    ),
    Bug(
        "an observation may name an item that the bank lacks",
        "lm_eval_ccat/bank/bank",
        "if items.size and not (0 <= items.min() and items.max() < n_items):",
        "if False:",
        ("tests/bank/test_format.py",),
    ),
    Bug(
        "scores of an observation may leave [0, 1]",
        "lm_eval_ccat/bank/bank",
        "if not ((self.scores >= 0.0) & (self.scores <= 1.0)).all():",
        "if False:",
        ("tests/bank/test_format.py",),
    ),
    Bug(
        "of a board an estimate counts before full results",
        "lm_eval_ccat/board/standing",
        "now = {**latest(comparable), **latest(comparable, FULL)}",
        "now = {**latest(comparable, FULL), **latest(comparable)}",
        ("tests/board/test_board.py",),
    ),
    Bug(
        "rows with other weights of the tasks are compared",
        "lm_eval_ccat/board/standing",
        "if not reasons and any(abs(",
        "if reasons and any(abs(",
        ("tests/board/test_board.py",),
    ),
    Bug(
        "a row of the ledger may be changed",
        "lm_eval_ccat/board/ledger",
        "whole = text == _sealed(values, before)[1]",
        "whole = bool(_sealed(values, before))",
        ("tests/board/test_board.py",),
    ),
    Bug(
        "models that are apart share their ranks on a board",
        "lm_eval_ccat/ranker/verdicts",
        "np.hypot(arms, arms[i])",
        "arms + arms[i]",
        ("tests/board/test_board.py",),
    ),
    Bug(
        "a probability is rounded to certainty",
        "lm_eval_ccat/report/tables",
        '        return ">99.9%"',
        '        return "100%"',
        ("tests/test_doctests.py",),
    ),
    Bug(
        "a text of the page may end its script",
        "lm_eval_ccat/report/tables",
        '{"<": "\\\\u003c", ',
        "{",
        ("tests/report/test_page.py",),
    ),
    Bug(
        "the course of a run stops at its last answer",
        "lm_eval_ccat/report/run",
        "    book.look()\n    book.past.expected",
        "    book.past.expected",
        ("tests/report/test_one_truth.py",),
    ),
    Bug(
        "surprise is measured against the wrong document",
        "lm_eval_ccat/report/page",
        "expected[a.model][run.place[a.doc]]",
        "expected[a.model][0]",
        ("tests/report/test_one_truth.py", "tests/report/test_page.py"),
    ),
    Bug(
        "the budget of a fold is not what the paper's method spent",
        "lm_eval_ccat/simulation/stage",
        'elif "paper" in played and',
        'elif "papers" in played and',
        (
            "tests/simulation/test_simulate.py::test_all_methods_of_a_fold_spend_what_the_papers_spent",
        ),
    ),
    Bug(
        "held-out models calibrate",
        "lm_eval_ccat/simulation/stage",
        "tables = whole.calibration(fold.calibration)",
        "tables = whole.calibration(whole.models)",
        ("tests/simulation/test_simulate.py::test_held_out_models_do_not_touch_calibration",),
    ),
    Bug(
        "tasks of a suite weigh alike in a replay",
        "lm_eval_ccat/simulation/folds",
        "share * mean_of_seen(scores[:, at], had[:, at])",
        "mean_of_seen(scores[:, at], had[:, at]) / len(self.parts)",
        ("tests/simulation/test_simulate.py::test_weights_of_ones_own_make_the_order",),
    ),
    Bug(
        "strata add up with their weights, not their squares",
        "lm_eval_ccat/methods/belief",
        "variance *= (w * w)[:, None, None]",
        "variance *= w[:, None, None]",
        ("tests/simulation/test_pieces.py",),
    ),
    Bug(
        "a paired test forgets that the benchmark is finite",
        "lm_eval_ccat/simulation/methods",
        "spread * (1.0 - n / size) / n",
        "spread / n",
        ("tests/simulation/test_pieces.py",),
    ),
    Bug(
        "the random baseline goes on after what does not fit",
        "lm_eval_ccat/simulation/methods",
        "            break\n        administered[models, item]",
        "            continue\n        administered[models, item]",
        ("tests/simulation/test_pieces.py",),
    ),
    Bug(
        "an item's own score is in the total that it is correlated with",
        "lm_eval_ccat/simulation/methods",
        "(y.sum(axis=1)[:, None] - y) / np.maximum(others, 1)",
        "y.sum(axis=1)[:, None] / np.maximum(others, 1)",
        ("tests/simulation/test_pieces.py",),
    ),
    Bug(
        "a model without scores stands at 0",
        "lm_eval_ccat/simulation/folds",
        "out=np.full(len(count), overall)",
        "out=np.zeros(len(count))",
        ("tests/simulation/test_pieces.py",),
    ),
    Bug(
        "a table's document hashes keep the order in which they came",
        "lm_eval_ccat/scores/table",
        "hashes = tuple(hashes[i] for i in order)",
        "hashes = tuple(hashes)",
        ("tests/scores/test_table.py",),
    ),
    Bug(
        "a file's direction counts before the user's",
        "lm_eval_ccat/scores/reading",
        "for direction in (lower_is_better, self.lower_is_better):",
        "for direction in (self.lower_is_better, lower_is_better):",
        ("tests/scores/test_harness_logs.py",),
    ),
    Bug(
        "of two runs of another tool the earlier one counts",
        "lm_eval_ccat/scores/readers/rows",
        "key=lambda row: row.date)",
        "key=lambda row: row.date, reverse=True)",
        ("tests/scores/readers/test_other_logs.py",),
    ),
    Bug(
        "scores that a bank keeps stay where they were when items retire",
        "lm_eval_ccat/upkeep/update",
        "at[o.items[seen]]",
        "o.items[seen]",
        ("tests/upkeep/test_update.py",),
    ),
    Bug(
        "an updated bank forgets how its scores were scaled",
        "lm_eval_ccat/upkeep/update",
        "constants={**updated.constants, **ends}",
        "constants=updated.constants",
        ("tests/scores/test_table.py",),
    ),
    Bug(
        "a common trend of the new models counts as drift of items",
        "lm_eval_ccat/upkeep/check",
        "rest = new - trend.intercept[use]",
        "rest = new - old",
        ("tests/upkeep/test_checks.py",),
    ),
)
