"""Bugs of every room, by module: what goes wrong, the fragment, and what stands in its place.

They were thought of by somebody who did not write the tests. Each is planted with the tests of its
room, none of which is a golden file.
"""

from __future__ import annotations

from .bugs import Bug

#: The tests of a module, or of a room where nothing is said of the module.
TESTS: dict[str, tuple[str, ...]] = {
    "report": (
        "tests/report/test_tables.py",
        "tests/report/test_evidence.py",
        "tests/report/test_one_truth.py",
        "tests/report/test_page.py",
        "tests/report/test_plots.py",
        "tests/report/test_watch.py",
        "tests/cli/test_rank_output.py",
        "tests/live/test_progress.py",
    ),
    "board": ("tests/board/test_board.py", "tests/board/test_board_tasks.py"),
    "board/cheats": (
        "tests/board/test_chances.py",
        "tests/board/test_cheats.py",
        "tests/board/test_board_tasks.py",
    ),
    "board/adding": (
        "tests/board/test_configurations.py",
        "tests/board/test_board.py",
        "tests/board/test_board_tasks.py",
    ),
    "board/scoring": ("tests/board/test_scored_alike.py",),
    "board/ledger": ("tests/board/test_chances.py", "tests/board/test_board.py"),
    "upkeep": ("tests/upkeep/test_suites.py", "tests/upkeep/test_any_table.py"),
    "upkeep/check": (
        "tests/upkeep/test_by_hand.py",
        "tests/upkeep/test_checks.py",
        "tests/upkeep/test_suites.py",
    ),
    "upkeep/forms": ("tests/upkeep/test_by_hand.py", "tests/upkeep/test_forms.py"),
    "upkeep/borrow": ("tests/upkeep/test_by_hand.py", "tests/upkeep/test_borrow.py"),
    "upkeep/rescore": (
        "tests/task_configs/test_score_command.py",
        "tests/task_configs/test_comet.py",
    ),
    "upkeep/update": (
        "tests/upkeep/test_by_hand.py",
        "tests/upkeep/test_update.py",
        "tests/upkeep/test_grow.py",
    ),
    "live/line": ("tests/live/test_line.py", "tests/live/test_told.py"),
    "live/channel": (
        "tests/live/test_channel.py",
        "tests/live/test_failures.py",
        "tests/live/test_availability.py",
    ),
    "live/charges": (
        "tests/live/test_charges.py",
        "tests/live/test_rates.py",
        "tests/live/test_bill.py",
        "tests/live/test_rank.py",
        "tests/harness/test_prices.py",
    ),
    "live/earlier": (
        "tests/live/test_earlier.py",
        "tests/live/test_prior.py",
        "tests/live/test_complete.py",
        "tests/live/test_several_tasks.py",
    ),
    "live/result": (
        "tests/live/test_run_result.py",
        "tests/live/test_provenance.py",
        "tests/live/test_several_tasks.py",
        "tests/live/test_several_metrics.py",
        "tests/live/test_bill.py",
        "tests/live/test_rank.py",
    ),
    "live/forecast": ("tests/live/test_prospects.py",),
    "live/rehearsal": ("tests/live/test_prospects.py",),
    "live/ranking_run": ("tests/live/test_prospects.py",),
    "live/shared_documents": ("tests/live/test_compare_documents.py",),
    "live/keep": ("tests/live/test_save_bank.py",),
    "live/complete": ("tests/live/test_complete.py",),
    "live/verify": ("tests/cli/test_verify_command.py", "tests/runs/test_salvage.py"),
    "live/quiet": ("tests/live/test_quiet.py", "tests/live/test_secrets.py"),
    "live/copies": ("tests/live/test_repeats_live.py", "tests/live/test_sampled_answers.py"),
    "live/models": (
        "tests/live/test_harness_model.py",
        "tests/live/test_local_weights.py",
        "tests/live/test_slots.py",
        "tests/live/test_prior.py",
        "tests/live/test_several_metrics.py",
        "tests/live/test_repeats_live.py",
        "tests/live/test_rank.py",
    ),
    "harness": ("tests/harness",),
    "harness/task_check": ("tests/cli/test_check_command.py",),
    "harness/transport": (
        "tests/harness/test_reports.py",
        "tests/harness/test_transport.py",
        "tests/live/test_addresses.py",
    ),
    "harness/session": (
        "tests/harness/test_session_counts.py",
        "tests/harness/test_harness_session.py",
    ),
    "harness/served": (
        "tests/harness/test_reports.py",
        "tests/live/test_provenance.py",
        "tests/live/test_rates.py",
        "tests/live/test_bill.py",
    ),
    "harness/judge": ("tests/harness/test_reports.py", "tests/task_configs/test_judge.py"),
    "harness/judge/rater": ("tests/task_configs/test_judge.py",),
    "harness/estimates": (
        "tests/harness/test_group_estimates.py",
        "tests/harness/test_harness_partial.py",
        "tests/harness/test_harness_exactness.py",
    ),
    "harness/task_metrics": (
        "tests/harness/test_outcomes_of_tasks.py",
        "tests/harness/test_harness_partial.py",
        "tests/live/test_several_metrics.py",
    ),
    "report/plain": ("tests/report/test_plain_pages.py", "tests/live/test_compare.py"),
    "bank": ("tests/bank/test_format.py", "tests/bank/test_settings.py"),
    "metrics": (
        "tests/metrics/test_registry.py",
        "tests/metrics/test_scale.py",
        "tests/metrics/test_text_metrics.py",
    ),
    "scores": (
        "tests/scores/test_table.py",
        "tests/scores/test_harness_logs.py",
        "tests/scores/test_marks_of_prompts.py",
        "tests/scores/test_repeated_answers.py",
    ),
    "scores/answers": (
        "tests/task_configs/test_score_command.py",
        "tests/scores/test_repeated_answers.py",
        "tests/live/test_prior.py",
    ),
    "runs": ("tests/runs",),
    "integrations/trackers": ("tests/integrations/test_trackers.py",),
    "integrations/hub": ("tests/integrations/test_hub.py",),
    "demo": ("tests/demo",),
    "testing": ("tests/testing",),
    "integrations/logs": ("tests/integrations/test_logs.py",),
    "integrations/log_request": ("tests/integrations/test_logs.py",),
    "simulation": (
        "tests/simulation/test_pieces.py",
        "tests/simulation/test_power.py",
        "tests/simulation/test_simulate.py",
    ),
    "methods/sample/effects": ("tests/methods/sample",),
    "methods/sample/method": ("tests/upkeep/test_grow.py",),
    "methods/sample/passes": ("tests/methods/sample",),
    "methods/policy": ("tests/ranker/test_outcomes.py",),
    "methods/paper/test": ("tests/methods/paper",),
    "methods/sample/pairs": ("tests/methods/sample",),
    "ranker": (
        "tests/ranker/test_accounts.py",
        "tests/ranker/test_living.py",
        "tests/ranker/test_looks.py",
        "tests/ranker/test_rules.py",
        "tests/ranker/test_stopping.py",
        "tests/ranker/test_turns.py",
    ),
    "cli": ("tests/cli",),
    "cli/rank": ("tests/cli", "tests/live/test_wrong_turns.py", "tests/report/test_watch.py"),
    "cli/calibrate": ("tests/cli", "tests/upkeep/test_suites.py"),
    "cli/compare": ("tests/live/test_compare.py", "tests/live/test_versus.py"),
    "integrations/helm": ("tests/integrations/test_helm.py",),
    "cli/complete": ("tests/live/test_several_metrics.py",),
    "board/placing": (
        "tests/board/test_board_tasks.py",
        "tests/board/test_without_answers.py",
        "tests/board/test_board.py",
    ),
    "harness/evaluation": ("tests/harness/test_harness_protocol.py",),
    "live/plan": (
        "tests/live/test_sampled_answers.py",
        "tests/live/test_known_logs.py",
        "tests/live/test_several_tasks.py",
    ),
    "live/adaptive": (
        "tests/harness/test_harness_partial.py",
        "tests/harness/test_harness_together.py",
    ),
}

_MISTAKES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "report/tables": (
        (
            "the models of the first part fill the line twice",
            "max_names -= len(names)",
            "max_names -= 1",
        ),
        ("a decided rank has a range", "part.chained and best < worst", "part.chained"),
        (
            "known models have a line of ranks",
            "if cell.best and cell.rank and not cell.known]",
            "if cell.best and cell.rank]",
        ),
        (
            "the axis of ranks begins half a rank late",
            "tuple(mark - 0.5 for mark",
            "tuple(mark for mark",
        ),
        (
            "neighbours are decided though they are tied",
            'decided_neighbours=sum(pair.get("decision") == "decided" for pair in neighbours),',
            "decided_neighbours=len(neighbours),",
        ),
        (
            "pairs that do not stand beyond the benchmark are not counted",
            "n, n_holding = len(holds), sum(holds)",
            "n, n_holding = sum(holds), sum(holds)",
        ),
        (
            "answers that serve two pairs are counted in each",
            "max(n, answers_needed.get(model, 0))",
            "n + answers_needed.get(model, 0)",
        ),
        (
            "what would decide costs a whole model's bill",
            'answers_needed[model] * row["cost"] / row["n_items"]',
            'answers_needed[model] * row["cost"]',
        ),
        (
            "a model that was not asked has figures in a part",
            'if row["n_items"]\n            }',
            "}",
        ),
        ("an hour has a hundred minutes", "{minutes // 60} h", "{minutes // 100} h"),
        ("a small share has no decimal", "if share < 10 else", "if share < 1 else"),
    ),
    "report/terminal": (
        (
            "a table is a column too wide",
            "_fitted(columns, left_width - min(max(map(cell_len, texts_of_names)), _NAME_WIDTH))",
            "_fitted(columns, left_width)",
        ),
        (
            "the most important column leaves first",
            "max(fitting, key=lambda entry: entry.column.drop_order)",
            "min(fitting, key=lambda entry: entry.column.drop_order or 99)",
        ),
        (
            "the number of rows left out is wrong",
            "len(rows) - len(positions)",
            "len(rows) - n_first",
        ),
        (
            "a leaderboard shows no neighbours of the new models",
            "for step in (-1, 0, 1)}",
            "for step in (0,)}",
        ),
        (
            "two models share a short name",
            "if taken.count(short[name]) > 1:",
            "if taken.count(short[name]) > 2:",
        ),
        ("a task has too few items and yet an estimate", 'elif figures["too_few"]:', "elif False:"),
        (
            "the matrix of pairs is its mirror image",
            'chances.get((a, b), "") if j > i',
            'chances.get((b, a), "") if j > i',
        ),
        (
            "the first pair's answers are those of another number",
            "if further and {n_answers for _, n_answers in further} == {number}:",
            "if further:",
        ),
        (
            "a forecast of weights that take turns is of the slowest alone",
            'sum(seconds) if content["one_at_a_time"]',
            'max(seconds) if content["one_at_a_time"]',
        ),
        (
            "an unknown cost is nothing",
            "if low is None or high is None:",
            "if low is None and high is None:",
        ),
        (
            "the time left grows with what is spent",
            "max(0.0, plan.charges.budget - spent) / spent",
            "spent / plan.charges.budget",
        ),
    ),
    "report/trust": (
        (
            "a bank's warning is told twice",
            'if f"bank: {text}" not in doubts',
            "if text not in doubts",
        ),
        (
            "a run without answers is contradicted by another version",
            "elif run.answers and not with_course:",
            "elif not with_course:",
        ),
        (
            "a model that was set aside has failed as well",
            'elif failed := row.get("failed"):',
            'if failed := row.get("failed"):',
        ),
        (
            "the gravest warning comes last",
            "sorted(grave, key=lambda remark: GRAVE.index(remark.topic))",
            "sorted(grave, key=lambda remark: -GRAVE.index(remark.topic))",
        ),
        (
            "a command that was typed is not the one to type again",
            "if run.header.command is not None:",
            "if run.header.command is None:",
        ),
    ),
    "report/following": (
        (
            "the limit of answers of a run with repeats is that of its items",
            "min(largest, answers_in_full)",
            "min(largest, n_items)",
        ),
        (
            "the budget of a run with repeats is that of its items",
            "answers_of_all = answers_in_full * len(models)",
            "answers_of_all = n_items * len(models)",
        ),
        (
            "a budget of seconds is raised by a number of answers",
            'if "budget" in stopped and "seconds" not in stopped:',
            'if "budget" in stopped:',
        ),
        (
            "a pair that is to be decided gets the items of its cheaper model",
            'largest = max(models[name]["n_items"] + n for',
            'largest = min(models[name]["n_items"] + n for',
        ),
        (
            "a budget that is to decide a pair forgets what was spent",
            "_rounded_up(spent + pair['likely_cost'], 2)",
            "_rounded_up(pair['likely_cost'], 2)",
        ),
        ("an amount is rounded down", "step * -(-amount // step)", "step * (amount // step)"),
        (
            "a model that is set aside is not what comes next",
            'if row.get("set_aside")]',
            'if not row.get("set_aside")]',
        ),
    ),
    "report/plain": (
        (
            "a group fails a test report",
            "difference.verdict if outcome.decisive and difference is outcome.overall else",
            "difference.verdict if outcome.decisive else",
        ),
        (
            "an interval's ends are exchanged",
            "{percent(comparison)}: {low} to {high}",
            "{percent(comparison)}: {high} to {low}",
        ),
        (
            "the sides of a sentence are exchanged",
            "a, b = comparison.baseline, comparison.candidate",
            "b, a = comparison.baseline, comparison.candidate",
        ),
        (
            "a reported metric is not said to be one",
            "note = outcome.scale if outcome.decisive else",
            "note = outcome.scale if not outcome.decisive else",
        ),
    ),
    "report/chart": (
        (
            "a place below an axis is on it",
            "return min(100.0, max(0.0, self.uncut_percent(value)))",
            "return self.uncut_percent(value)",
        ),
        (
            "a vertical axis has 0 at the top",
            "round(100.0 - self.percent_at(tick), 3) if down",
            "self.percent_at(tick) if down",
        ),
        ("a NaN does not break a line", 'pen = "L" if math.isfinite(y) else "M"', 'pen = "L"'),
        ("the last tick is left out", "range(first, last + 1))", "range(first, last))"),
    ),
    "report/page": (
        (
            "the page has the best document last",
            "return -weight[doc], -spread[doc], str(doc)",
            "return weight[doc], -spread[doc], str(doc)",
        ),
        (
            "a full evaluation costs what was spent",
            'row["cost"] / row["n_items"] * self.in_full\n',
            'row["cost"]\n',
        ),
        (
            "evidence is weighed by the slope without its noise",
            "expit(coefficients @ value), (coefficients @ slope) / noise",
            "expit(coefficients @ value), (coefficients @ slope)",
        ),
        (
            "pairs are judged at the upper model's ability",
            "0.5 * sum(pair_abilities)",
            "pair_abilities[0]",
        ),
        ("a text that is cut is said to be whole", "max(0, len(text) - limit)", "0"),
        (
            "what is known of a pair stands one model too low",
            'places[pair["b"]] - above - 1',
            'places[pair["b"]] - above - 2',
        ),
    ),
    "report/plots": (
        (
            "the centre of abilities is taken off twice",
            'of_models + bank.constants.get("centre", 0.0)',
            'of_models - bank.constants.get("centre", 0.0)',
        ),
        (
            "an undecided model's background is not shaded",
            "        if model.tie is not None:\n            y = lines",
            "        if model.tie is None:\n            y = lines",
        ),
        (
            "the information of an item is that of its slope",
            "slope**2 * mu * (1.0 - mu) / curves.noise",
            "slope * mu * (1.0 - mu) / curves.noise",
        ),
        (
            "the difficulty has the wrong sign",
            "curves.origin - intercept / np.where",
            "curves.origin + intercept / np.where",
        ),
        (
            "a model that is out of the order has the first place",
            "[rank or math.nan for rank",
            "[rank or 1 for rank",
        ),
    ),
    "report/stored_run": (
        (
            "the leading outcome is the one with the smallest weight",
            'str(max(outcomes, key=lambda name: outcomes[name]["weight"]))',
            'str(min(outcomes, key=lambda name: outcomes[name]["weight"]))',
        ),
        (
            "a bank that was changed is the run's own",
            "return banks if hashes == header.bank_sha256 else None",
            "return banks",
        ),
        (
            "a course that contradicts its result is shown",
            'return replayed if close and replayed.ties == run.result["ties"] else None',
            "return replayed",
        ),
        ("known models are asked", 'if not self.result["models"][model].get("known")]', "]"),
    ),
    "board/adding": (
        (
            "two configurations of one source get one name",
            "            configurations_on_board[names[model]] = configurations\n",
            "",
        ),
        (
            "full results on another version stand in the ledger already",
            "and task_score.version in (None, earlier.tasks[task].version)",
            "",
        ),
        (
            "a model's full score is the mean of its scores on [0, 1]",
            "(float(end) for end in table.scale.restore(np.array([mean, low, high])))",
            "(float(end) for end in (mean, low, high))",
        ),
        (
            "results that stand in the ledger stand there twice",
            "if _says_nothing_new(row, earlier):",
            "if not _says_nothing_new(row, earlier):",
        ),
    ),
    "board/admission": (
        (
            "logs of all documents of a board are limited ones",
            "if not reason and asked.n_items < bank.n_items:",
            "if not reason:",
        ),
        (
            "a model that lacks documents has full results",
            "if in_full and not reason:",
            "if not in_full and not reason:",
        ),
        (
            "a model is left out for one that stands in the ledger",
            "not isinstance(reason, InLedger)",
            "isinstance(reason, InLedger)",
        ),
    ),
    "board/creating": (
        (
            "a board gets new banks and loses the old ones",
            "bank.save(board.old_bank(bank.sha256))",
            "pass",
        ),
    ),
    "board/placing": (
        (
            "an empty folder stays of a placing without rows",
            "if added.rows or not _tally_of(run_dir).answered:",
            "if added.rows:",
        ),
        (
            "a model that stands on the board is placed again",
            "if same_name or (",
            "if (",
        ),
        (
            "a configuration is placed again under another name",
            "configuration == _configuration_of_row(board, row)",
            "row.model == model",
        ),
        (
            "a run that is in the ledger is added again",
            "self.evidence in row.evidence and model ==",
            "row.evidence == self.evidence and model ==",
        ),
        (
            "a placed model keeps the name of its journal as its own",
            'in_journal = "" if name == row.model else row.model',
            'in_journal = ""',
        ),
        (
            "a model of logs needs results on one task alone",
            "            if model not in table.models:\n",
            "            if model in ():\n",
        ),
        (
            "the part of a run that was held back is guessed by one task",
            "if reserve is not None and all(",
            "if reserve is not None and any(",
        ),
        (
            "items that a bank dropped count in a placement",
            "and doc_id in bank.index and bank.kept[bank.index[doc_id]]",
            "and doc_id in bank.index",
        ),
        (
            "a name is given to every model of a run",
            "if name is not None and len(rows) != 1:",
            "if name is not None and not rows:",
        ),
    ),
    "board/cheats": (
        (
            "a model may have learned what itself was shown",
            "shown_items(rows[:line])",
            "shown_items(rows[: line + 1])",
        ),
        (
            "a model knew a document if its last answer says so",
            "            if item.is_repeat:\n                continue\n",
            "",
        ),
        (
            "relatives that share half of their errors are alike",
            "n_unequal <= _MAX_UNEQUAL * expected_unequal",
            "n_unequal <= n_items",
        ),
        (
            "a model is as often wrong where another is as it is right",
            "np.where(is_wrong, right,",
            "np.where(is_wrong, 1.0 - right,",
        ),
        (
            "the chance of equal scores is not shared among the known models",
            "np.log(max(peers.sum(), 1)) - log_copy",
            "-log_copy",
        ),
        (
            "items that were shown as often as the median were shown often",
            "times_shown > np.median",
            "times_shown >= np.median",
        ),
        (
            "a gain is compared by the deviation of one model's mean",
            "* math.sqrt(1.0 + 1.0 / n_models)",
            "* math.sqrt(1.0 / n_models)",
        ),
        ("a loss on shown items is suspicious", "-beyond / max(spread", "beyond / max(spread"),
        (
            "a model is compared with itself",
            "model != itself for model",
            "model != new for model",
        ),
        (
            "short answers are the same word for word",
            "if value == 1.0 or len(text) >= _LONG:",
            "if True:",
        ),
        (
            "perfect answers are the same word for word",
            'answers.texts[task, doc_id] = "" if value == 1.0 else text',
            "answers.texts[task, doc_id] = text",
        ),
    ),
    "board/checking": (
        (
            "only the newest hash of a ledger counts as published",
            "not any(line.link.startswith(head) for line in lines)",
            "not (lines and lines[-1].link.startswith(head))",
        ),
        (
            "a file outside the board proves a row",
            "if not (board.path / file).resolve().is_relative_to(root):",
            "if not (board.path / file).is_relative_to(board.path):",
        ),
        (
            "a file that was changed proves a row",
            "if digests[file] and digests[file] == sha256:",
            "if digests[file]:",
        ),
        (
            "a published head need not be in the ledger",
            "if head is not None and not any(",
            "if head is not None and not lines and not any(",
        ),
        (
            "an interval is not recomputed",
            '("interval", scored.high),',
            '("interval", scored.low),',
        ),
        (
            "a file proves the scores of every task",
            "key = task, task_score.evidence",
            'key = "", task_score.evidence',
        ),
        (
            "a row may name other items than its journal",
            'return "" if row.asked == recomputed.asked else',
            'return "" if len(row.asked) == len(recomputed.asked) else',
        ),
        (
            "a row is as its run was confident",
            "ranker={**file.header.ranker, **settings_of_board}",
            'ranker={**file.header.ranker, "looks": "every"}',
        ),
        (
            "a row of another version is refused",
            "return RowVerdict(OLDER, f",
            "return RowVerdict(REFUSED, f",
        ),
        (
            "a model that was set aside has a row",
            "if model in ranking.set_aside or not ranking.items[model]:",
            "if not ranking.items[model]:",
        ),
        (
            "the ends of an interval are exchanged where lower is better",
            "low, high = sorted(float(scale.restore(end)) for end in ranking.interval(model))",
            "low, high = (float(scale.restore(end)) for end in ranking.interval(model))",
        ),
    ),
    "board/folder": (
        (
            "a row that states no weights has those of the board",
            "row.shares.get(task, 1.0) - share",
            "row.shares.get(task, share) - share",
        ),
        (
            "a board whose lower scores are better has its worst first",
            "sign = 1.0 if higher_is_better else -1.0",
            "sign = 1.0",
        ),
        (
            "a lead's interval adds the arms of the two rows",
            "np.hypot(half_widths[:-1], half_widths[1:])",
            "(half_widths[:-1] + half_widths[1:])",
        ),
        (
            "a row is compared with rows of another number of documents",
            "elif result.documents != bank.n_items:",
            "elif result.items > bank.n_items:",
        ),
        (
            "a row of a bank that was updated since is apart",
            "not in {None, bank.sha256, *descent}",
            "not in {None, bank.sha256}",
        ),
        (
            "an average is one of raw scores",
            "share * float(scale.normalise(figure))",
            "share * float(figure)",
        ),
        ("a row that became comparable stays apart", "apart.pop(row.model, None)", "pass"),
        (
            "the part that is held back is the same for every task",
            "json.dumps([task, doc_id])",
            "json.dumps([doc_id])",
        ),
        (
            "several models may be the best, and the first alone is named",
            "if place.best == 1]",
            "if place.rank == 1]",
        ),
    ),
    "board/ledger": (
        ("a link of the chain leaves out the one before", 'f"{before}\\n{body}"', 'f"\\n{body}"'),
        (
            "numbers that are none are a row's",
            "and not isinstance(value, bool) and math.isfinite(value)",
            "and not isinstance(value, bool)",
        ),
        (
            "a ledger that is damaged grows",
            "        self.rows()\n        link, text",
            "        link, text",
        ),
    ),
    "upkeep/update": (
        (
            "items that calibration removed are enough for a bank to go on with",
            "if not (stays & bank.kept).any():",
            "if not stays.any():",
        ),
        (
            "a bank forgets the items that were retired before",
            '"retired": [*earlier_retirements, retirement]',
            '"retired": [retirement]',
        ),
        (
            "a union takes a document for another with its number",
            "if None not in (hash_, known) and hash_ != known:",
            "if hash_ is None and hash_ != known:",
        ),
        (
            "a union keeps configurations that a model no longer has",
            "if label in new_labels or label.model not in new.models\n    }",
            "}",
        ),
        (
            "an item that was retired by hand is learned again",
            'if retirement["why"] == BY_HAND',
            'if retirement["why"] != BY_HAND',
        ),
        (
            "missing documents of an adaptive run are retired",
            'has_full_run = any(how in ("", "all") for',
            'has_full_run = any(how in ("", "all", "adaptive") for',
        ),
        (
            "an answer that came again stands twice",
            "stays = ~np.isin(earlier.items, later.items)",
            "stays = np.ones(len(earlier.items), dtype=bool)",
        ),
        (
            "probabilities of an earlier observation are lost",
            "probabilities = np.concatenate([of_earlier[stays], of_later])",
            "probabilities = np.concatenate([np.full(stays.sum(), np.nan), of_later])",
        ),
        (
            "a mixture of drawn and chosen answers is drawn",
            'later.chosen if chosen_alike else "adaptive",',
            "later.chosen,",
        ),
        ("a bank grows by the most answered item", "int(count.min())", "int(count.max())"),
        (
            "a model to be ranked stays in its bank",
            "if entry.model not in ranked]",
            "if entry.model in bank.models]",
        ),
        (
            "retired items keep their parameters",
            "name: values[stays] for name, values",
            "name: values[: len(old_positions)] for name, values",
        ),
        (
            "a bank refuses fewer models than it needs for new documents",
            ".sum(axis=0) >= MODELS_TO_LEARN)",
            ".sum(axis=0) > MODELS_TO_LEARN)",
        ),
        (
            "scores of other models are those of the bank's calibration",
            "set(bank.models) ^ set(calibrated_on.models)",
            "set(bank.models) - set(calibrated_on.models)",
        ),
    ),
    "upkeep/check": (
        (
            "what a weak model is expected to get right is contaminated",
            " & (expected < 0.5)",
            "",
        ),
        (
            "a document that changed has scores",
            "scores[:, [bank.index[doc_id] for doc_id in changed]] = np.nan",
            "pass",
        ),
        (
            "an item that becomes easier is said to be harder",
            "easier = int((shifts[drifted] > 0).sum())",
            "easier = int((shifts[drifted] < 0).sum())",
        ),
        (
            "a drift is measured against the bank's own intercepts",
            "shifts = new - trend.intercept[scored]",
            "shifts = new - old",
        ),
        (
            "every strong model is contaminated",
            "weak = abilities <= np.median(abilities)",
            "weak = abilities >= np.median(abilities)",
        ),
        (
            "items on which better models score higher are reported",
            "discoveries(ndtr(z))",
            "discoveries(ndtr(-z))",
        ),
        (
            "a bank that fits no model is one for one",
            "several = fault.join.models > 1",
            "several = fault.join.models > 99",
        ),
        (
            "false discoveries are not shared among the tests",
            "rate * np.arange(1, p.size + 1) / p.size",
            "rate * np.ones(p.size)",
        ),
        (
            "an outlier bends a robust line",
            "np.maximum(0.0, 1.0 - (residual / (4.685 * scale)) ** 2) ** 2",
            "np.ones_like(residual)",
        ),
    ),
    "upkeep/forms": (
        (
            "a form of fewer answers is as certain as a whole one",
            "np.sqrt(max(residual, residual_of_all) / residual_of_all)",
            "1.0",
        ),
        (
            "a form's error is of the models that it was made from",
            "covariance = _Covariance(scores[~left_out], share)",
            "covariance = _Covariance(scores, share)",
        ),
        (
            "the items of a form need not tell models apart",
            "if not 1 <= n_items <= n_usable:",
            "if not 1 <= n_items <= len(doc_ids):",
        ),
        (
            "a form's own task is scored by the benchmark's numbers",
            "ids = _doc_ids(form, table) if task == form.name else table.doc_ids",
            "ids = table.doc_ids",
        ),
        (
            "few-shot examples come from the form alone",
            'str(getattr(dataset, "split", SPLIT)).removesuffix("[:]") == SPLIT',
            "True",
        ),
        ("the interval is of one side", "0.5 + 0.5 * CONFIDENCE", "CONFIDENCE"),
        (
            "a form of few models has the quantile of many",
            "stdtrit(max(self.models - 1, 1), ",
            "stdtrit(1e6, ",
        ),
    ),
    "upkeep/borrow": (
        (
            "a bank of another filter lends nothing",
            "if bank.filter == query.filter] or banks",
            "if bank.filter == query.filter]",
        ),
        (
            "a donor must have half of its own documents in the new task",
            "_LEAST_SHARE * own_scores.n_items:",
            "_LEAST_SHARE * donor.n_items:",
        ),
        (
            "a donor's documents are those of another data set",
            "if len(data_sets) < 2 else {}",
            "if data_sets else {}",
        ),
        (
            "a donor lends its level, not its profile",
            "np.nan_to_num(values - np.nanmean(values))",
            "np.nan_to_num(values)",
        ),
        (
            "a misleading donor lends",
            "if agreement(name, own_scores) < max(chance",
            "if agreement(name, own_scores) > max(chance",
        ),
        (
            "a donor's error is of its own profile too",
            "profile for donor, profile in profile_of.items() if donor != name]",
            "profile for donor, profile in profile_of.items()]",
        ),
        (
            "two donors are enough",
            "if len(names) < LEAST_DONORS:",
            "if len(names) + 1 < LEAST_DONORS:",
        ),
        (
            "the new task lends to itself",
            "            if name == query.task:\n                continue\n",
            "",
        ),
    ),
    "upkeep/rescore": (
        (
            "the last answers that were rated are not counted",
            'f"rated {len(scores)} of',
            'f"rated {start} of',
        ),
        (
            "scores of logs name no checkpoint where none is stated",
            'scorer = {"checkpoint": model} if model else None',
            'scorer = {"checkpoint": model}',
        ),
        (
            "a judge's list of answers has the last batch alone",
            "scores += [rating.score",
            "scores = [rating.score",
        ),
    ),
    "upkeep/score_tables": (
        (
            "a pattern named after a task no longer lets that task be required",
            "must_report.get(task, False) or not is_pattern",
            "not is_pattern",
        ),
        (
            "the middle of the range is chosen first",
            "key=lambda value: -abs(value",
            "key=lambda value: abs(value",
        ),
        (
            "a subgroup's tasks are left out",
            "if member in groups and member != name else [member]",
            "if member == name else [member]",
        ),
        (
            "a metric of another task's pattern is meant",
            "any(outcome in named for named in by_name)",
            "all(outcome in named for named in by_name)",
        ),
    ),
    "live/line": (
        (
            "the youngest waiting ask is sent first",
            "ask = waiting.popleft()",
            "ask = waiting.pop()",
        ),
        (
            "asks that come back stand behind all others",
            "insort(self._waiting[ask.model], ask, key=lambda waiting_ask: waiting_ask.number)",
            "self._waiting[ask.model].append(ask)",
        ),
        (
            "an ask that was released is sent",
            "            if ask.state == OPEN:\n                asks.append(ask)",
            "            asks.append(ask)",
        ),
        (
            "a window grows with every ask of the run",
            "int(self.growth.get(model, 0.0) * answers)",
            "int(self.growth.get(model, 0.0) * self.book.n_told)",
        ),
        (
            "a run that is to go to its limits stops when it is decided",
            "decided = self.ends_at_goal and not warming and ranker.decided",
            "decided = not warming and ranker.decided",
        ),
        ("a single model that is left is asked on", "2 if self.compares_only else 1", "1"),
        (
            "a first answer does not tell a price before others are asked",
            "if self.first_alone and not answers:",
            "if False:",
        ),
        (
            "a run with models away ends",
            "if not self.book.n_untold and not self.away:",
            "if not self.book.n_untold:",
        ),
        (
            "a model that was set aside for good is set aside once more",
            "and (away or model not in self.away):",
            "and away:",
        ),
        (
            "a run that is over ends again",
            "        if self.end_reason is None:\n            self._finish(reason, gaps=True)",
            "        self._finish(reason, gaps=True)",
        ),
    ),
    "live/channel": (
        (
            "answers that are being scored take a slot",
            "not (sending.extra or (scoring and sending.asks[0].item in scoring))",
            "not sending.extra",
        ),
        (
            "an attempt goes out before its pause is over",
            "            if due <= moment or",
            "            if due >= moment or due <= moment or",
        ),
        (
            "the second answer to an ask counts",
            "(self.book.has(ask.pair) or ask.pair in arrived):",
            "ask.pair in arrived:",
        ),
        (
            "concurrent items pay the hourly price in full",
            "seconds=answer.seconds / self.model.slots",
            "seconds=answer.seconds",
        ),
        (
            "a server's first silence is measured from nothing",
            "return moment - self.silent_since > patience and bool(self._asked_twice())",
            "return moment - self.silent_since > patience",
        ),
        (
            "a model is not set aside by failures of its judge",
            "self.failed_in_a_row = self.failed_in_a_row + 1 if lost else 0",
            "self.failed_in_a_row = self.failed_in_a_row + 1",
        ),
        (
            "a batch with one bad document is given up",
            "elif len(asks) > 1:",
            "elif len(asks) > 99:",
        ),
        (
            "a hiccup of a server that answered ends its model",
            "hiccup = self.median is not None and status in (401, 403, 404)",
            "hiccup = False",
        ),
        (
            "a document beyond the bank that fails is a failed item",
            "            if ask.is_beyond_bank:\n                document",
            "            if False:\n                document",
        ),
        (
            "twins take turns as first attempts",
            "second_request.attempt = max(second_request.attempt, failed.attempt + 1)",
            "pass",
        ),
    ),
    "live/charges": (
        (
            "an answer that was paid before is paid again",
            "usd += 0.0 if prior else price.cost(tokens, seconds)",
            "usd += price.cost(tokens, seconds)",
        ),
        (
            "a lost attempt is assumed at the token limit",
            "if column == UNKNOWN and assumed is not None:",
            "if assumed is not None:",
        ),
        (
            "a budget in items is one in money",
            "        if currency in spec.budget:\n            return currency",
            "        if currency not in spec.budget:\n            return currency",
        ),
        (
            "a document with many requests reads one prompt",
            "sum(map(estimate_tokens, prompts)) * (n_requests / len(prompts))",
            "estimate_tokens(prompts[0])",
        ),
        (
            "an answer from an earlier run costs an item",
            "return Charge(0.0 if prior else 1.0, usd)",
            "return Charge(1.0, usd)",
        ),
        ("units are in dollars", "max(size / mean, 1e-3)", "max(size, 1e-3)"),
    ),
    "live/earlier": (
        (
            "repeats of a log are further answers to an item that is asked once",
            "for part in answer.by_repeat() if repeats[task] > 1 else [answer]",
            "for part in answer.each()",
        ),
        (
            "the oldest adaptive run counts",
            "key=lambda run: run.date)",
            "key=lambda run: run.date, reverse=True)",
        ),
        (
            "answers of another model are its own",
            "if model in self.names and model_by_user in (ANY, model):",
            "if model in self.names:",
        ),
        ("a model that is ranked is known as well", "if name not in ranked]\n", "]\n"),
    ),
    "live/result": (
        (
            "as many empty answers as the user allows end a run as partial",
            "any(share > most_empty for share",
            "any(share >= most_empty for share",
        ),
        (
            "a model that was taken out of a run leaves it partial",
            "set(ranking.set_aside) - tally.leaving_models",
            "set(ranking.set_aside)",
        ),
        ("known models have too few items", "and model not in known\n", "and model in known\n"),
        (
            "the error of a score is on [0, 1]",
            "error = float(part.scale.restore_error(part.standard_errors[model]))",
            "error = float(part.standard_errors[model])",
        ),
        (
            "a result that ended in ties has met its goal",
            "PARTIAL if partial else MET if ranking.goal_met else TIES",
            "PARTIAL if partial else MET",
        ),
        (
            "dollars are those billed alone",
            "None if money is None else money[BILLED] + money[ASSUMED]",
            "None if money is None else money[BILLED]",
        ),
        (
            "a term of a mean forgets the share of its task",
            '{**term, "weight": task_weight * term["weight"]}',
            "term",
        ),
        (
            "a result is the latest though its journal went on",
            "if not leaves_ranking(record):",
            "if isinstance(record, Session):",
        ),
        (
            "reported metrics share in the score",
            "if weight > 0.0}\n",
            "}\n",
        ),
        (
            "a model with no answer is empty in a share above 1",
            "if share > most_empty or share >= MANY_EMPTY",
            "if share > most_empty",
        ),
        (
            "a run that cannot be repeated has the signature of one that can",
            "if book.tally.ever_set_aside or book.tally.by_clock:",
            "if book.tally.by_clock and book.tally.ever_set_aside:",
        ),
        (
            "another temperature than the bank's is not told",
            '_SETTINGS_IN_WORDS = {"temperature": "temperature", ',
            "_SETTINGS_IN_WORDS = {",
        ),
    ),
    "live/complete": (
        (
            "a run that has answers is refused where no further stored answer fits",
            "if run.spec.prior and not answered and not fitting:",
            "if run.spec.prior and not fitting:",
        ),
        ("a completion asks what was answered", "if item not in answered]", "]"),
        (
            "a ranking that goes on is completed",
            "    if not book.done:\n        raise RunError",
            "    if book.done and False:\n        raise RunError",
        ),
        (
            "answers that were not told are asked again",
            "        if answer.responses:",
            "        if not answer.responses:",
        ),
    ),
    "live/verify": (
        (
            "where lower is better, the order of a sound result contradicts its estimates",
            'better = 1.0 if result["scale"]["higher_is_better"] else -1.0',
            "better = 1.0",
        ),
        (
            "other verdicts of this version are those of another",
            "DAMAGED if self.made_by == __version__ else OTHER_VERSION",
            "OTHER_VERSION",
        ),
        (
            "money that differs is a verdict",
            "asked cost usd money failed",
            "asked failed",
        ),
        (
            "pairs are not compared",
            'frozenset("run_dir seconds',
            'frozenset("pairwise run_dir seconds',
        ),
        (
            "a journal that lost lines is sound",
            "if recomputed.answers_came_later or last_line > condition.records:",
            "if last_line < 0:",
        ),
        (
            "a repair keeps the torn part",
            "replace_bytes(folder.journal.path, sound, private=True)",
            "replace_bytes(folder.journal.path, copy.read_bytes(), private=True)",
        ),
        (
            "a lost line is not counted",
            "lost = sum(1 for _ in stream)  # a torn line counts",
            "lost = stream.read().count(b'\\n')",
        ),
    ),
    "live/quiet": (
        ("a warning is told each time", "if text not in self._warned:", "if text:"),
        (
            "everybody can read the log",
            "os.open(path, flags, 0o600)",
            "os.open(path, flags, 0o644)",
        ),
        (
            "the log has credentials",
            "visible(mask_text(_FORMAT.format(record)))",
            "visible(_FORMAT.format(record))",
        ),
    ),
    "live/copies": (
        (
            "short answers end a run",
            "        if long:\n            raise CopiesError(",
            "        if not long:\n            raise CopiesError(",
        ),
        (
            "a model whose repeats differ gives copies",
            " and n_differing <= MOST_DIFFERING * (n_equal + n_differing)",
            "",
        ),
    ),
    "live/models": (
        (
            "weights that take turns may be loaded together",
            "fit = sum(local.values()) <= spec.memory",
            "fit = max(local.values()) <= spec.memory",
        ),
        (
            "an earlier answer to another prompt counts",
            "and earlier.prompt_hash == session.prompt_hash(item.doc_id)",
            "and earlier.prompt_hash is not None",
        ),
        (
            "an answer with an unscored metric of weight 0 has no score",
            "counts = any(outcomes[name].weight > 0.0 for name in scored)",
            "counts = all(outcomes[name].weight > 0.0 for name in scored)",
        ),
        (
            "a document with several requests takes as many slots as one",
            "self.slots * width.requests // max(per_document, width.requests)",
            "self.slots",
        ),
        (
            "the client retries as well",
            "self._client_attempts = internals.set_client_attempts(lm, 1)",
            "self._client_attempts = None",
        ),
        (
            "an answer that was given earlier takes time",
            "administered.seconds if prior is None else 0.0",
            "administered.seconds",
        ),
        (
            "weights are freed that the caller loaded",
            "        if self.entry.model is None:\n            return  # the caller",
            "        if self.entry.model is not None:\n            return  # the caller",
        ),
        (
            "a repeat is the first answer again",
            "[item.repeat for item in items]",
            "[1 for item in items]",
        ),
    ),
    "harness/transport": (
        (
            "a busy process takes the time of its requests",
            "TURNS = 10",
            "TURNS = 1",
        ),
        (
            "the time to answer is that to get a connection",
            "self._allow(self.seconds)",
            "pass",
        ),
        (
            "an answer that states an error counts",
            'if answer.get("error") and not answer.get("choices"):',
            'if answer.get("error") and answer.get("choices"):',
        ),
        (
            "an answer without choices counts",
            'answer.get("choices") == [] else',
            'answer.get("choices") is None else',
        ),
        (
            "responses stand where they came",
            "for position, response in zip(call.positions, self.read(call, answer.content)):",
            "for position, response in enumerate(self.read(call, answer.content)):",
        ),
        (
            "requests of different settings share a call",
            "grouped((repr(request.args[1]), n)",
            "grouped(('', n)",
        ),
        (
            "user and password stay in the address",
            "return parts._replace(netloc=host).geturl(), {",
            "return url, {",
        ),
        (
            "the model's own key goes with a user's password",
            'if name.lower() != "authorization"',
            'if name.lower() == "authorization"',
        ),
        (
            "a cancelled transport sends on",
            "        if self._cancelled:\n            why",
            "        if self._cancelled and self._session is None:\n            why",
        ),
        (
            "others go on after a failed call",
            "                sending.cancel()",
            "                pass",
        ),
        ("a redirection is followed", '"allow_redirects": False', '"allow_redirects": True'),
        ("a quota that is spent may come back", "return self.code in _FINAL", "return False"),
        (
            "a prompt that was not answered is one that was",
            "if len(read) < len(call.positions):",
            "if not read:",
        ),
        (
            "an answer of any size is read",
            "if len(body) > LARGEST_BODY:",
            "if len(body) > LARGEST_BODY * 999:",
        ),
    ),
    "harness/session": (
        (
            "the prompt's hash is that of the last request",
            "internals.hash_text(group[0].arguments[0])",
            "internals.hash_text(group[-1].arguments[0])",
        ),
        (
            "a prompt that is asked several times is read once",
            "read += instance.repeats * count(internals.prompt(instance))",
            "read += count(internals.prompt(instance))",
        ),
        (
            "a cached answer takes a share of the time",
            "0 if is_cached else sum(request.repeats for request in group)",
            "sum(request.repeats for request in group)",
        ),
        (
            "an answer that was withheld is scored",
            """is_withheld = ("", WITHHELD) in zip(responses, list(islice(reasons, n)))""",
            "is_withheld = False",
        ),
        (
            "a likelihood reads its prompt alone",
            "internals.prompt(instance) + str(instance.args[1])",
            "internals.prompt(instance)",
        ),
        (
            "every document of a call gets the whole bill",
            "document_tokens.input / total.input if total.input else 1 / len(by_texts),",
            "1.0,",
        ),
        (
            "bills of some requests are those of all",
            "if not bills or len(bills) < len(served):",
            "if not bills:",
        ),
        (
            "every repeat has the same seed",
            '{**settings, "seed": first_seed + repeat - 1}',
            '{**settings, "seed": first_seed}',
        ),
        (
            "the batch is sized by the shortest prompt",
            "longest = max((len(model.tok_encode(prompt))",
            "longest = min((len(model.tok_encode(prompt))",
        ),
        ("several processes are one", "    if processes > 1:", "    if processes > 99:"),
        (
            "a perplexity is a score of a document",
            'if kind == "loglikelihood_rolling":',
            'if kind == "rolling":',
        ),
        (
            "a session shares its documents with the task's code",
            "document = self._requests.document(doc_id)  #",
            "document = internals.documents(task)[doc_id]  #",
        ),
    ),
    "harness/served": (
        ("a pause in milliseconds is one in seconds", "return exact / 1000.0", "return exact"),
        (
            "a rate limit with something left asks to wait",
            "and _number(value) == 0.0:",
            "and _number(value) != 0.0:",
        ),
        (
            "the shortest of several limits is waited for",
            "return max((seconds for seconds in resets",
            "return min((seconds for seconds in resets",
        ),
        ("reasoning is free", "Tokens(read, written + outside, ", "Tokens(read, written, "),
        (
            "a dated name is another model",
            "names[0] in names[1] or names[1] in names[0]",
            "names[0] == names[1]",
        ),
        (
            "more tokens are cached than read",
            "min(cached, read) if _is_count(cached)",
            "cached if _is_count(cached)",
        ),
    ),
    "harness/judge": (
        (
            "several ratings are reduced to the first",
            'float(statistics.median(rated) if how == "median" else statistics.fmean(rated))',
            "float(rated[0])",
        ),
        (
            "a judge rates itself",
            "if itself and not judge.allow_self:",
            "if itself and judge.allow_self:",
        ),
        (
            "one failed repeat fails a rating",
            "if all(vote.error for vote in votes)",
            "if any(vote.error for vote in votes)",
        ),
        (
            "another question has the cached rating",
            "parts = (asked_of, asked_as, self._prompt.template, dict(fields), repeat)",
            "parts = (asked_of, asked_as, self._prompt.template, sorted(fields), repeat)",
        ),
        ("repeats share a cached rating", "dict(fields), repeat)", "dict(fields))"),
        (
            "an answer may end its own block",
            "mark, filled = secrets.token_hex(8), dict(fields)",
            "mark, filled = 'mark', dict(fields)",
        ),
        (
            "the mean difference is of all ratings",
            "float(gaps.mean()), float(np.mean(gaps == 0))",
            "float(values.std()), float(np.mean(gaps == 0))",
        ),
        ("repeated ratings have one seed", 'body.pop("seed", None)', 'body.get("seed", None)'),
    ),
    "harness/estimates": (
        (
            "a full run has an error",
            "return ScoreEstimate(float(scale.restore(np.mean(scored))), 0.0)",
            "return ScoreEstimate(float(scale.restore(np.mean(scored))), float(np.std(scored)))",
        ),
        (
            "a group's score stays though a task lacks it",
            "if not all(key in metrics[name] for name in tasks):",
            "if not any(key in metrics[name] for name in tasks):",
        ),
        (
            "a group weighs by size where it should not",
            "sizes if config.weight_by_size else dict.fromkeys(tasks, 1)",
            "sizes",
        ),
        (
            "errors of a group's tasks are added once",
            "        for a in errors\n        for b in errors",
            "        for a in errors\n        for b in list(errors)[:1]",
        ),
        (
            "a group's tasks that were run in full have an error",
            "errors = {name: metrics[name][stderr] for name in tasks if name in partial}",
            "errors = {name: metrics[name][stderr] for name in tasks}",
        ),
        (
            "estimates of other metrics are left out of what is not estimated",
            "if key not in estimated]",
            "if key in estimated]",
        ),
    ),
    "harness/task_metrics": (
        (
            "the outcome with the smallest weight leads",
            "return max(outcomes.values(), key=lambda outcome: outcome.weight)",
            "return min(outcomes.values(), key=lambda outcome: outcome.weight)",
        ),
        (
            "a bank of the other direction is used",
            "if metric.scale.higher_is_better != scale.higher_is_better:",
            "if metric.scale.low != metric.scale.low:",
        ),
        (
            "a bank's documents need not be the task's",
            "if doc_id not in known]",
            "if doc_id in () and doc_id not in known]",
        ),
    ),
    "bank/suite": (
        (
            "a suite's bank may be exchanged for another",
            "if entry.checksum != bank.sha256:",
            "if entry.checksum is None:",
        ),
        (
            "files of banks differ in the case of their letters alone",
            "if name.lower() not in taken)",
            "if name not in taken)",
        ),
        (
            "banks of two filters of a metric are named by the metric",
            "alone = metrics[bank.task, bank.metric] == 1",
            "alone = metrics[bank.task, bank.metric] >= 1",
        ),
    ),
    "bank/bank": (
        (
            "the items of a bank may stand in any order",
            "if order != list(range(n)):",
            "if len(order) != n:",
        ),
        (
            "a model's organisation is its family",
            'model.rsplit("/", 1)[-1].lower()',
            "model.lower()",
        ),
        (
            "scores of a table are taken in its own order",
            "ordered[:, in_bank] = scores[:, columns]",
            "ordered[:, in_bank] = scores[:, : len(columns)]",
        ),
        (
            "the first items of a benchmark are taken for all",
            '"items": None if self.chosen == "all" else',
            '"items": None if self.chosen in ("all", "first") else',
        ),
        (
            "a document without a hash counts as changed",
            "if hash_ is not None and hash_in_task.get(doc_id) is not None",
            "if hash_ is not None and doc_id in hash_in_task",
        ),
        (
            "hashes of a blank bank stay in the order given",
            "None if values is None else tuple(values[i] for i in order)",
            "None if values is None else tuple(values)",
        ),
    ),
    "bank/settings": (
        (
            "of several stop sequences the first alone is compared",
            "return value[0] if len(value) == 1 else list(value)",
            "return value[0] if value else None",
        ),
        (
            "sampling at temperature 0 is sampled",
            "if drawn is not False:",
            "if drawn is None:",
        ),
    ),
    "bank/file": (
        (
            "the depth of a file is counted from 0 in each part of it",
            "depths = depth + np.cumsum(steps)",
            "depths = np.cumsum(steps)",
        ),
    ),
    "metrics/registry": (
        (
            "NaN means no score whatever the aggregation",
            "return self.skips_nan and is_float and math.isnan(value)",
            "return is_float and math.isnan(value)",
        ),
        (
            "acc of several targets is refused",
            'graded = self.base not in ("exact_match", "acc") and',
            'graded = self.base != "exact_match" and',
        ),
    ),
    "metrics/text_pairs": (
        (
            "the answer does not tell the halves of a reversed pair",
            "if (first == [prediction]) != (second == [prediction]):",
            "if False:",
        ),
        (
            "the last reference counts, not the best",
            "best = max(best, 2.0 * same / (answer_words.total() + reference_words.total()))",
            "best = 2.0 * same / (answer_words.total() + reference_words.total())",
        ),
        (
            "ROUGE of pairs is stemmed",
            "kinds=(base,), use_stemmer=False, tokenizer=split",
            "kinds=(base,), use_stemmer=True, tokenizer=split",
        ),
        (
            "Japanese with few kana is Chinese",
            'if count["Japanese"] > _LEAST_KANA * total:',
            'if count["Japanese"] > 10 * _LEAST_KANA * total:',
        ),
    ),
    "metrics/bertscore": (
        (
            "a pair with one empty text is scored",
            "if all(text.strip() for text in pair)",
            "if any(text.strip() for text in pair)",
        ),
        (
            "scores below the baseline stay below 0",
            "scores[i] = min(max(float(value), 0.0), 1.0)",
            "scores[i] = min(float(value), 1.0)",
        ),
    ),
    "metrics/scale": (
        (
            "a part of a word is a word of error",
            "any(_ERROR_WORD.fullmatch(word.lower()) for word in words)",
            "any(_ERROR_WORD.match(word.lower()) for word in words)",
        ),
    ),
    "scores/grid": (
        (
            "prompts move to the next model where one without a score is left out",
            "            prompts = prompts and prompts.take(counts > 0)\n",
            "",
        ),
        (
            "of equally common hashes the oldest counts",
            "key=lambda code: (counts[code], code), default",
            "key=lambda code: (counts[code], -code), default",
        ),
        (
            "two scores of an item in two files are not refused",
            "repeated = np.flatnonzero(replaced | ~np.isnan(before))",
            "repeated = np.flatnonzero(replaced)",
        ),
        (
            "items are named by the order in which they came",
            "order = np.array([self._items[doc_id] for doc_id in ids], dtype=np.intp)",
            "order = np.arange(len(ids))",
        ),
    ),
    "scores/item_scaling": (
        (
            "a missing score of an item without spread is 0.5",
            "np.where(flat & ~np.isnan(scores), 0.5, scaled)",
            "np.where(flat, 0.5, scaled)",
        ),
    ),
    "scores/answers": (
        (
            "marks of prompts and of what a template wrote are exchanged",
            "return self.mark if templated else self.prompt_hash and self.prompt_hash[:DIGITS]",
            "return self.prompt_hash and self.prompt_hash[:DIGITS] if templated else self.mark",
        ),
    ),
    "scores/prompts": (
        (
            "of equally common prompts the last counts",
            "order = np.lexsort((marks, -counts, items))",
            "order = np.lexsort((-marks, -counts, items))",
        ),
        (
            "a row of another template differs",
            "return np.asarray((differ & comparable).any(axis=1))",
            "return np.asarray(differ.any(axis=1))",
        ),
    ),
    "scores/readers/samples": (
        (
            "repeats of a prompt are read once",
            "sum(prompts) * n_repeats",
            "sum(prompts)",
        ),
    ),
    "runs/tally": (
        (
            "earlier answers were asked",
            "self.asked[model] += answer.has_answer and answer.prior is None",
            "self.asked[model] += answer.has_answer",
        ),
        (
            "what is unknown of a lost attempt is the mean",
            "return self.largest if column == UNKNOWN else self.total / self.answers",
            "return self.total / self.answers",
        ),
        (
            "completing a run takes time of it",
            "idle = record.beyond or isinstance(record, Session | Warn)",
            "idle = isinstance(record, Session)",
        ),
        (
            "a small difference of shares bars a pair",
            ">= np.maximum(UNLIKE, UNLIKE_ERRORS * error)",
            ">= np.minimum(UNLIKE, UNLIKE_ERRORS * error)",
        ),
    ),
    "runs/book": (
        (
            "a lost attempt after the end lowers the budget at once",
            "if self.ended is None:  # else when the run goes on",
            "if True:  # else when the run goes on",
        ),
    ),
    "runs/differences": (
        (
            "a setting may change whose path begins like one that may",
            "allowed = joins or may_change.fullmatch(change.path)",
            "allowed = joins or may_change.match(change.path)",
        ),
        (
            "a lifted limit of items leaves the old rule",
            'if "stop" in changed or ("max_items" in changed and new.get("max_items") is None):',
            'if "stop" in changed:',
        ),
    ),
    "runs/kept_answers": (
        (
            "the first answer to an item stays where a later one replaces it",
            "            self._order.append(number)\n        self._positions[number] = position",
            "            self._order.append(number)\n"
            "            self._positions[number] = position",
        ),
    ),
    "runs/directory": (
        (
            "a folder that a group may read is private",
            "self.path.stat().st_mode & 0o077",
            "self.path.stat().st_mode & 0o007",
        ),
        (
            "a folder in which no run began stays for its log",
            "{path.name for path in self.path.iterdir()} - {_LOCK, LOG}",
            "{path.name for path in self.path.iterdir()} - {_LOCK}",
        ),
    ),
    "integrations/trackers": (
        (
            "an estimate of 0 is left out",
            "if (number := block.get(quantity)) is not None",
            "if (number := block.get(quantity))",
        ),
        (
            "the table has each model's quantities in the order of the result",
            "(block.get(quantity) for quantity in NUMBERS)",
            "block.values()",
        ),
        (
            "a tracker without settings is not asked for",
            "if harness.get(key) is not None",
            "if harness.get(key)",
        ),
    ),
    "integrations/hub": (
        (
            "a suite is pushed without its own file",
            "files = [*SuiteBank.files(source).values(), source / SUITE]",
            "files = [*SuiteBank.files(source).values()]",
        ),
        (
            "a private bank is public",
            "private=private, exist_ok",
            "private=False, exist_ok",
        ),
        (
            "banks of one's own that are private are not listed",
            'listing.add_unredirected_header("Authorization", f"Bearer {token}")',
            "pass",
        ),
    ),
    "integrations/log_request": (
        (
            "models are first looked at by their names",
            "sorted(models, key=lambda name: hashlib.sha256(name.encode()).digest())",
            "sorted(models)",
        ),
    ),
    "integrations/logs": (
        (
            "the oldest run of a data set counts",
            "sorted(runs.items(), reverse=True)",
            "sorted(runs.items())",
        ),
        (
            "a metric without its filter is not found",
            'key.partition(",")[0]',
            "key",
        ),
        (
            "each file of an archive may be as large as all",
            "            left -= member.size\n            if left < 0:",
            "            if left < member.size:",
        ),
        (
            "a file of an archive may lie outside",
            'if not parts or ".." in parts or PureWindowsPath(member.path).drive:',
            "if not parts:",
        ),
        (
            "links in an archive are followed",
            "if member.isfile():",
            "if not member.isdir():",
        ),
    ),
    "testing/methods": (
        (
            "a policy that remembers a choice passes",
            "_same(policy.belief(), before)",
            "_same(policy.belief(), policy.belief())",
        ),
        (
            "an item that is not available may be chosen among others",
            "and available[items].all()",
            "and available[items].any()",
        ),
        (
            "a draw without a chance passes",
            "0.0 < choice.probability <= 1.0",
            "0.0 <= choice.probability <= 1.0",
        ),
        (
            "a score of NaN is taken",
            '(-0.1, 1.1, float("nan"))',
            "(-0.1, 1.1)",
        ),
        (
            "a variance of two models may depend on their order",
            "and np.allclose(matrix, matrix.T)",
            "",
        ),
        (
            "an estimate may be too low by any amount",
            "abs(estimates[model] - mean) < self.error",
            "estimates[model] - mean < self.error",
        ),
        (
            "a ranking that chance turned passes",
            "assert first.items == second.items and first.estimates == second.estimates",
            "assert first.items.keys() == second.items.keys()",
        ),
        (
            "a policy rebuilt from its events need not agree",
            "assert _same(rebuilt.belief(), live.belief())",
            "assert _same(live.belief(), live.belief())",
        ),
        (
            "an error that is not raised is passed over",
            '    raise AssertionError(f"no {kind.__name__} was raised")\n',
            "    return kind()\n",
        ),
        (
            "a model that joins may be missing from the belief",
            "assert policy.belief().variance.shape == (3, 3)",
            "assert policy.belief().variance.shape",
        ),
    ),
    "testing/readers": (
        (
            "a reader that takes any file passes",
            "for path in (root, *root.iterdir()):",
            "for path in (root,):",
        ),
        (
            "documents of other names are the same",
            "assert table.doc_ids == expected.doc_ids",
            "assert len(table.doc_ids) == len(expected.doc_ids)",
        ),
        (
            "a reader may crash on half a log",
            "except CcatError as error:",
            "except Exception as error:",
        ),
        (
            "a log is never cut off",
            "content[: int(len(content) * share)]",
            "content",
        ),
    ),
    "demo/story": (
        (
            "open pairs are counted, too",
            'for pair in content["pairwise"] if pair["decision"] == "decided"]',
            'for pair in content["pairwise"]]',
        ),
        (
            "a wrong pair counts as right",
            'truth[pair["a"]] < truth[pair["b"]]',
            'truth[pair["a"]] > truth[pair["b"]]',
        ),
    ),
    "demo/systems": (
        (
            "documents are the first ones, not spread",
            "documents[int(i * step)]",
            "documents[int(i)]",
        ),
        (
            "a name is read from its second part on",
            'last = name.rsplit(".", 1)[-1]',
            'last = name.split(".", 1)[-1]',
        ),
        (
            "a word loses its capital",
            're.findall(r"[a-z0-9_]+", text.lower())',
            're.findall(r"[a-z0-9_]+", text)',
        ),
        (
            "a sentence loses its full stop",
            'r"(?<=[.!?:])\\s+"',
            'r"[.!?:]\\s+"',
        ),
        (
            "a sentence is central by its likeness to itself",
            "enumerate(bags) if j != i)",
            "enumerate(bags))",
        ),
        (
            "the longest sentence is the most frequent",
            "/ len(bag) if bag else 0.0",
            "if bag else 0.0",
        ),
        (
            "a keyword's frequency is ignored",
            "for word, _ in Counter(content_words(body))",
            "for word, _ in Counter(sorted(set(content_words(body))))",
        ),
        (
            "letters stand in reverse order, too",
            '" ".join(reversed(cut(body, 11).split()))',
            '"".join(reversed(cut(body, 11)))',
        ),
        (
            "the tail is all but the last words",
            "body.split()[-count:]",
            "body.split()[:-count]",
        ),
        (
            "a random sentence differs from process to process",
            'int.from_bytes(hashlib.sha256(body.encode("utf-8", "replace")).digest()[:4], "big")',
            "hash(body)",
        ),
        (
            "a body ends with its first paragraph",
            'request.args[0].rpartition("\\n\\n")[0]',
            'request.args[0].partition("\\n\\n")[0]',
        ),
        (
            "answers are not kept in the harness's cache",
            '            self.cache_hook.add_partial("generate_until", request.args, answer)\n',
            "",
        ),
    ),
    "simulation/power": (
        (
            "the spread of one answer is that of two models' differences",
            "np.sqrt(scores.var(axis=1).mean())",
            "np.sqrt(differences.var(axis=1).mean())",
        ),
        (
            "the smallest difference is decided in half of rankings",
            "chance(middle) < CHANCE",
            "chance(middle) < 0.5",
        ),
        (
            "a plan knows of no scores of 0 that are still to come",
            "np.maximum(half_width * errors, zeros)",
            "half_width * errors",
        ),
    ),
    "simulation/newcomers": (
        (
            "newcomers spread more than the models that they are drawn from",
            " / float(np.sqrt(1.0 + width**2))",
            "",
        ),
        (
            "newcomers move by one width whatever the spread of the models",
            "width * float(np.std(abilities)) * move",
            "width * move",
        ),
        (
            "one model of all banks is every newcomer",
            "sorted(shared) if len(shared) > 2 else []",
            "sorted(shared)",
        ),
        (
            "abilities are not measured from the curves' origin",
            "float(a) - curves.origin",
            "float(a)",
        ),
    ),
    "methods/sample/effects": (
        (
            "an item that strong models have is easy",
            "np.where(present, self.scores - effect[:, None], 0.0)",
            "np.where(present, self.scores, 0.0)",
        ),
        (
            "every model is expected to score as the usual one",
            "np.clip(ease + effect[model], 0.0, 1.0)",
            "np.clip(ease, 0.0, 1.0)",
        ),
        (
            "two models that go on tell of a third as if they were unlike each other",
            "variance_on_item = from_each - 0.5 * np.minimum(among_others, from_each)",
            "variance_on_item = from_each - 0.5 * from_each",
        ),
    ),
    "methods/sample/method": (
        (
            "an item that strong models had in a ranking before is easy",
            "observation.scores - observation.scores.mean()",
            "observation.scores",
        ),
        (
            "one answer tells how easy an item is",
            "np.where(count >= _FEWEST_MODELS",
            "np.where(count >= 1",
        ),
        (
            "an item that fewer models had is harder",
            "total / np.maximum(count, 1.0), 0.0",
            "total / max(count.max(), 1.0), 0.0",
        ),
    ),
    "methods/sample/passes": (
        (
            "passes share one order",
            "seed = self._seed if number == 0 else self._seed + number * _SEED_STEP",
            "seed = self._seed",
        ),
        (
            "the mean of a model with fewer answers errs as if others did not correct it",
            "alone * share + correction",
            "alone",
        ),
    ),
    "methods/policy": (
        (
            "a draw expects the mean of all items, not of those left",
            "others = total + (n_asked - n) * mean, (self._n_items - n_asked) * mean",
            "others = total + (n_asked - n) * mean, self._n_items * mean",
        ),
    ),
    "methods/paper/test": (
        (
            "a jittered item is learned where it does not stand",
            "mu = float(expected_score(self.ability, self._jittered_difficulty()[item]))",
            "mu = float(expected_score(self.ability, self._difficulty[item]))",
        ),
    ),
    "methods/sample/pairs": (
        (
            "an item displaced by another loses its place",
            "self.position[item], self.position[displaced] = end, position",
            "self.position[item], self.position[displaced] = end, end",
        ),
    ),
    "ranker/stopping": (
        (
            "a limit of items lets one more through",
            "return np.asarray(standing.items < self.n)",
            "return np.asarray(standing.items <= self.n)",
        ),
    ),
    "ranker/accounts": (
        (
            "the cost of a unit forgets the stated price",
            "return (account.price * weight + cost) / (weight + units)",
            "return cost / units",
        ),
    ),
    "ranker/turns": (
        (
            "models share one draw of exposure",
            "np.random.default_rng([self.seed, _EXPOSURE_STREAM, turn.model, n_asked])",
            "np.random.default_rng([self.seed, _EXPOSURE_STREAM, n_asked])",
        ),
    ),
    "ranker/ranker": (
        (
            "joining models are no look anew",
            "        if add:\n            self._standing.belief_at_look = None\n",
            "",
        ),
    ),
    "simulation/judging": (
        (
            "the first level that reaches tau counts though a later one does not",
            "last_below = below[-1]",
            "last_below = below[0]",
        ),
        (
            "touching intervals are no tie",
            "(low[:, None] <= high[None, :]) & (low[None, :] <= high[:, None])",
            "(low[:, None] < high[None, :]) & (low[None, :] < high[:, None])",
        ),
    ),
    "simulation/folds": (
        (
            "a benchmark keeps models that lack a task",
            "with_scores &= scored",
            "with_scores |= scored",
        ),
    ),
    "cli/parsing": (
        (
            "an option of several words always has the first by default",
            "first_is_default = len(choices) > 1 and isinstance(help_or_opt, str)",
            "first_is_default = len(choices) > 1",
        ),
        (
            "one price for all models is refused",
            'values_of["price"] = values_of["price"] * len(kinds)',
            'values_of["price"] *= 1',
        ),
        (
            "a rising range says that higher is better",
            "falls = True if args.range[0] == high else None",
            "falls = args.range[0] == high",
        ),
        (
            "JSON in a file takes the place of the text",
            '        write_file(Path(target), text + "\\n")\n',
            '        write_file(Path(target), text + "\\n")\n        return\n',
        ),
    ),
    "cli/rank": (
        (
            "the page of a run is written beside it",
            "with LivePage(folder, args.watch) if args.watch",
            "with LivePage(folder.parent, args.watch) if args.watch",
        ),
        (
            "a run directory is shown in place of being resumed",
            "if flags or models or args.resume:",
            "if flags or models:",
        ),
    ),
    "cli/bank": (
        (
            "a warning of a suite's bank leaves the exit code 0",
            'are_sound = all(facts["ok"] for',
            'are_sound = any(facts["ok"] for',
        ),
        (
            "two suites that differ are the same",
            'return 0 if difference["same"] else WRONG',
            'return 0 if "tasks" in difference or difference["same"] else WRONG',
        ),
    ),
    "cli/compare": (
        (
            "a warning that was printed is printed again at the end",
            "if warning not in display.warned))",
            "))",
        ),
        (
            "the second name of one folder is not looked for",
            "zip(pair, known * 2)",
            "zip(pair, known)",
        ),
    ),
    "cli/check": (
        (
            "one usable task of several is enough",
            "usable = all(check.usable for check in checks)",
            "usable = any(check.usable for check in checks)",
        ),
    ),
    "cli/calibrate": (
        (
            "a suite that lacks a bank ends with 0",
            "return 3 if lacking else 0",
            "return 3 if not facts else 0",
        ),
    ),
    "integrations/helm": (
        (
            "the last trial counts",
            "sum(values) / len(values)",
            "values[-1]",
        ),
        (
            "a listing ends with its first page",
            'if not (token := page.get("nextPageToken")) or token == query.get("pageToken"):',
            'if (token := page.get("nextPageToken")) is None or token:',
        ),
        (
            "one common choice makes a document the same",
            "if choices <= self._texts[doc_id]",
            "if choices & self._texts[doc_id]",
        ),
        (
            "scores on perturbed documents count",
            'and not stat["name"].get("perturbation")\n',
            "\n",
        ),
        (
            "the newest release is the last of the alphabet",
            "max(releases, key=_version)",
            "max(releases)",
        ),
    ),
    "cli/complete": (
        (
            "further metrics of a completed run are not printed",
            "for outcome_run in (run, *run.further)\n",
            "for outcome_run in (run,)\n",
        ),
    ),
    "board/scoring": (
        (
            "four models are named where three are meant",
            "first_of(models, 3)",
            "first_of(models, 4)",
        ),
    ),
    "board/publish": (
        (
            "a model that states how one of its tasks was drawn counts as if it stated all",
            "if all(score.configuration for score in place.row",
            "if any(score.configuration for score in place.row",
        ),
    ),
    "live/forecast": (
        (
            "a run to its limits has a window of asks",
            "(spec.ahead or WINDOW) if has_goal(spec.rule) else 0",
            "(spec.ahead or WINDOW)",
        ),
        (
            "expected items are stated for differences on [0, 1]",
            '{gap * plan.scale.span:g}"',
            '{gap:g}"',
        ),
        (
            "expected items are those of twice the difference",
            "needed = [power.items_for_difference(gap) for power in ways]",
            "needed = [power.items_for_difference(2 * gap) for power in ways]",
        ),
    ),
    "harness/evaluation": (
        (
            "tasks of results stand in the order in which they were run",
            "for name in order if name in merged}",
            "for name in merged}",
        ),
    ),
    "live/adaptive": (
        (
            "a bank that several tasks name is meant for any one of them",
            "only_task = banks.count(options.spec.bank) == 1",
            "only_task = True",
        ),
    ),
    "live/plan": (
        (
            "a forecast takes a bank of one task for that of another",
            "if not (banks := banks_of(bank, task, only_task=False)):",
            "if not (banks := banks_of(bank, task)):",
        ),
        (
            "known means have no noise of sampling",
            "sampled=is_sampled(spec, sessions.values()), sessions",
            "sampled=False, sessions",
        ),
    ),
    "live/keep": (
        (
            "a bank holds several answers of an item",
            "        if item.is_repeat:\n            continue\n        score = answer.score",
            "        score = answer.score",
        ),
    ),
    "harness/task_check": (
        (
            "a metric with its tokenizer is not found in a task",
            "if name == parts_of(requested).base]",
            "if name == requested]",
        ),
    ),
    "harness/judge/rater": (
        (
            "equal answers without a rating are counted once",
            "self._usage.count(ratings)",
            "self._usage.count(list(rating_of.values()))",
        ),
    ),
    "live/rehearsal": (
        (
            "one model that gets the items that it needs decides a ranking",
            "all(needed[model] <= limit for",
            "any(needed[model] <= limit for",
        ),
    ),
    "live/ranking_run": (
        (
            "the most that a run costs has no judge",
            "entry.price.cost(tokens, seconds=1.0) + judge_usd for",
            "entry.price.cost(tokens, seconds=1.0) for",
        ),
    ),
    "live/shared_documents": (
        (
            "several answers to a document are no draws",
            "sampled = repeated or any(side",
            "sampled = any(side",
        ),
    ),
}


def _tests(module: str) -> tuple[str, ...]:
    room = module.split("/")[0]
    examples = f"tests/test_doctests.py::test_the_examples_run_as_printed[{room}]"
    return (*(TESTS.get(module) or TESTS[room]), examples)


ROOM_BUGS: tuple[Bug, ...] = tuple(
    Bug(name, f"lm_eval_ccat/{module}", right, wrong, _tests(module))
    for module, mistakes in _MISTAKES.items()
    for name, right, wrong in mistakes
)
