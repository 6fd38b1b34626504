"""The local benchmark, the harness's own results on it, and banks calibrated on its logs."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("lm_eval")

from lm_eval.tasks import TaskManager
from local_bench import Copyist, write_bench
from worlds.logs import logged

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.live.adaptive import adaptive_evaluate, simple_evaluate

#: Tests that the harness's branch next0.5 fails by itself (commit e7e6bc6), with what it does.
CORPUS = "its own bleu, chrf and ter fail: not enough values to unpack in corpus.py"
#: They run or calibrate on tasks of texts.
OF_TEXTS = (
    "test_a_bank_s_draws_estimate_the_metrics_that_it_does_not_know",
    "test_a_bill_is_shared_by_the_documents_of_its_call_and_counts_if_it_is_whole",
    "test_a_budget_in_dollars_is_kept",
    "test_a_config_file_of_the_harness_counts",
    "test_a_corpus_metric_is_estimated_under_its_sentence_name",
    "test_a_failed_call_counts_for_nothing",
    "test_a_group_and_a_task_share_a_budget_and_find_their_banks_in_a_directory",
    "test_a_lost_connection_is_tried_again_and_changes_nothing",
    "test_a_model_that_sends_by_itself_is_heard_too",
    "test_a_new_model_is_placed_and_its_own_results_are_left_out",
    "test_a_run_says_first_when_it_will_stop_and_what_it_ignores",
    "test_a_task_of_which_no_document_was_run_has_no_estimate",
    "test_all_documents_in_any_order_are_the_harness_s_own_results",
    "test_an_answer_of_the_response_cache_takes_no_time",
    "test_an_interrupted_full_run_goes_on_with_the_documents_that_the_bank_does_not_offer",
    "test_any_order_of_documents_gives_the_rows_of_the_harness",
    "test_documents_go_to_the_model_in_batches",
    "test_each_answer_carries_what_the_server_said_of_it",
    "test_it_stops_once_the_rank_is_known_well_enough",
    "test_logs_carry_the_scorer_into_the_bank_and_a_run_with_another_is_refused",
    "test_logs_of_the_harness_and_a_session_have_the_same_marks[texts-False]",
    "test_logs_of_the_harness_and_a_session_have_the_same_marks[texts-True]",
    "test_models_of_one_session_keep_their_answers_and_score_one_after_the_other",
    "test_one_budget_for_a_group",
    "test_our_task_class_runs_a_task_in_full_where_it_is_told_to",
    "test_plain_lm_eval_is_adaptive_with_our_task_class",
    "test_several_metrics_are_estimated_from_the_same_answers",
    "test_some_documents_give_the_very_rows_and_an_estimate",
    "test_the_directory_of_a_group_is_read_like_any_other",
    "test_the_first_look_is_at_every_task",
    "test_the_loop_sends_what_threads_send[texts]",
    "test_values_rows_and_prompts_are_those_of_the_harness[texts-bleu-settings0]",
    "test_values_rows_and_prompts_are_those_of_the_harness[texts-chrf-settings1]",
    "test_values_rows_and_prompts_are_those_of_the_harness[texts-ter-settings2]",
    "test_variants_of_any_task_and_group_are_all_that_plain_lm_eval_needs",
    "test_what_a_filter_withheld_has_no_score_and_a_filtered_text_has_one",
    "test_what_a_run_observed_is_kept_in_a_bank",
    "test_what_cannot_be_meant_ends_in_one_line_before_the_model_is_made",
    "test_without_arguments_the_choices_are_unknown_and_a_generating_prompt_is_not",
)
MAJORITY = "its exact_match of the filter majority is 0 for every document"
OF_THE_BRANCH = {
    **dict.fromkeys(OF_TEXTS, CORPUS),
    "test_values_rows_and_prompts_are_those_of_the_harness[continued-acc-settings4]": (
        "its rows have the target 0 in place of the text"
    ),
    "test_a_group_without_a_metric_that_all_of_its_tasks_have_is_marked": MAJORITY,
    "test_scores_of_logs_are_those_that_the_harness_aggregated": MAJORITY,
    "test_another_metric_or_filter_is_estimated_from_the_same_draws"
    "[sums-exact_match-strict-exact_match,majority]": MAJORITY,
}


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("lm_eval.scorers"):
        for item in items:
            known = (OF_THE_BRANCH.get(name) for name in (item.name, item.originalname))
            if reason := next(filter(None, known), None):
                item.add_marker(pytest.mark.skip(reason=f"next0.5: {reason}"))


class Bench:
    """A benchmark directory with what the tests ask of it again and again."""

    def __init__(self, folder):
        self.folder = folder
        self.tasks = write_bench(folder)
        self._banks = {}

    def manager(self, **metadata):
        return TaskManager(include_path=str(self.tasks), include_defaults=False, metadata=metadata)

    def stock(self, tasks, lm=None, **arguments):
        """The harness's own results."""
        arguments.setdefault("bootstrap_iters", 0)
        return simple_evaluate(
            model=lm or Copyist(), tasks=tasks, task_manager=self.manager(), **arguments
        )

    def adaptive(self, tasks, bank=None, lm=None, **arguments):
        """An adaptive run of some tasks."""
        arguments.setdefault("bootstrap_iters", 10)
        return adaptive_evaluate(
            lm or Copyist(), tasks=tasks, bank=bank, task_manager=self.manager(), **arguments
        )

    def variant(self, name, change=list, of="choices"):
        """Another task like one of the benchmark's, its documents changed."""
        lines = (self.folder / "DATA.jsonl").read_text().splitlines()
        (self.folder / f"{name}.jsonl").write_text("\n".join(change(lines)) + "\n")
        text = (self.tasks / f"{of}.yaml").read_text().replace("DATA.jsonl", f"{name}.jsonl")
        (self.tasks / f"{name}.yaml").write_text(text.replace(f"task: {of}", f"task: {name}"))

    def group(self, name, tasks, by_size, metric="acc"):
        aggregated = f"{{metric: {metric}, weight_by_size: {str(by_size).lower()}}}"
        (self.tasks / f"{name}.yaml").write_text(
            f"group: {name}\ntask: [{', '.join(tasks)}]\naggregate_metric_list: [{aggregated}]\n"
        )

    def write_logs(self, folder, tasks, settings):
        for position in range(6):
            about = {"skill": 0.25 + 0.13 * position, "model": f"copyist-{position}"}
            settings = {"tasks": tasks, "task_manager": self.manager(), **settings}
            logged(folder, "copyist", model_args=about, **settings)

    def bank(self, task, metric, filter="none", method="paper", **settings):
        """A bank calibrated on six models' logs, written with these settings."""
        folder = self.folder / "logs" / (task + "".join(sorted(settings)))
        if not folder.exists():
            self.write_logs(folder, [task], settings)
        key = str(folder), metric, filter, method
        if key not in self._banks:
            table = ScoreTable.read(folder, metric=metric, task=task, filter=filter)
            self._banks[key] = calibrate(table, method=method)
        return self._banks[key]


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("bench"))
