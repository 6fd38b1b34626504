"""Plots show what the results say, and come out as files that are the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from synthetic import make_run

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.report import read_run

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

from lm_eval_ccat.report.plots import (
    plot_bank,
    plot_pairwise,
    plot_progress,
    plot_ranking,
    plot_simulation,
    save,
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    skill, ease = np.linspace(-1.5, 1.5, 14)[:, None], rng.normal(size=150)[None]
    mu = 1 / (1 + np.exp(-skill - ease))
    scores = rng.beta(8 * mu, 8 * (1 - mu))
    return ScoreTable.from_arrays(scores, models=[f"m{j}" for j in range(14)])


@pytest.fixture(scope="module")
def ranking(table):
    bank = calibrate(table.without(["m2", "m7", "m12"]), method="paper")
    ranker = Ranker(bank, {"m2": 1.0, "m7": 1.0, "m12": 1.0})
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, table.select([model]).scores[0, item])
    return ranker.result()


def labels(axis):
    return [t.get_text() for t in axis.get_ticklabels()]


def test_the_forest_plot_has_the_order_and_the_intervals(ranking):
    ax = plot_ranking(ranking)
    assert labels(ax.yaxis) == ranking.order
    [dots] = ax.lines
    assert dots.get_xdata() == pytest.approx([ranking.estimates[m] for m in ranking.order])
    [ranges] = [c for c in ax.collections if len(c.get_segments()) == len(ranking.order)]
    for segment, model in zip(ranges.get_segments(), ranking.order):
        assert tuple(segment[:, 0]) == pytest.approx(ranking.interval(model))


def test_plots_are_drawn_where_one_wants_them(ranking, tmp_path):
    from matplotlib.figure import Figure

    left, right = Figure().subplots(1, 2)
    assert plot_ranking(ranking, ax=left) is left and plot_pairwise(ranking, right) is right
    assert len(left.figure.axes) == 3  # the colour bar of the matrix
    [file] = save(left, tmp_path / "both", ["svg"])
    ET.parse(file)


def test_where_pyplot_is_in_use_it_shows_the_figure(ranking):
    script = (
        "import matplotlib; matplotlib.use('Agg')\n"
        "import matplotlib.pyplot as plt\n"
        "from lm_eval_ccat.report.plots.style import subplots\n"
        "axes = subplots(1, 2)\n"
        "assert plt.figure(plt.get_fignums()[0]) is axes[0].figure"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_matrix_has_every_pair(ranking):
    ax = plot_pairwise(ranking)
    shown = ax.images[0].get_array()
    for i, a in enumerate(ranking.order):
        for j, b in enumerate(ranking.order):
            if i != j:
                assert shown[i, j] == pytest.approx(ranking.pairwise[a, b])


def test_the_course_ends_where_the_ranking_is(decided_dir):
    run = read_run(decided_dir)
    estimate = plot_progress(run)[0]
    ends = sorted(line.get_ydata()[-1] for line in estimate.lines)
    assert ends == pytest.approx(sorted(b["estimate"] for b in run.result["models"].values()))


def test_simulation_is_drawn_from_its_sweep(table, tmp_path):
    found = simulate(table, ["paper", "common"], folds=3, levels=(5, 10, 20), processes=1)
    file = tmp_path / "sim.json"
    file.write_text(json.dumps(found.to_dict()))
    for source in (found, found.to_dict(), file):
        tau = plot_simulation(source)[0]
        shown = {line.get_label(): line for line in tau.lines}
        assert set(shown) == {"paper", "common"}
        for method, line in shown.items():
            assert line.get_ydata() == pytest.approx([p["tau"] for p in found.sweep[method]])
    assert len(plot_simulation(found, found)[0].lines[0].get_xdata()) == 6


@pytest.mark.parametrize("method", ["paper", "default"])
def test_a_bank_is_drawn_with_its_fit(table, method):
    bank = calibrate(table, method=method)
    items, information, level, spread = plot_bank(bank, table)
    assert f"{int(bank.kept.sum())} items" in items.get_title("left")
    curve = information.lines[0].get_ydata()
    assert (curve > 0).all() and curve.max() > curve[0]
    points = level.lines[1]
    assert np.corrcoef(points.get_xdata(), points.get_ydata())[0, 1] > 0.95
    assert "R²" in spread.get_title("left")
    with pytest.raises(UsageError, match="not the bank's"):
        plot_bank(bank, ScoreTable.from_arrays(table.raw[:, 1:], models=list(table.models)))


def test_a_name_is_neither_mathematics_nor_markup(tmp_path):
    folder = make_run(tmp_path / "run", n_models=3, n_items=60, budget=60, hostile=False)
    for file in ("journal.jsonl", "result.json"):
        text = (folder / file).read_text()
        (folder / file).write_text(text.replace("system-0", "$\\\\frac{<b>&amp;"))
    assert main(["report", str(folder), "--plots", str(tmp_path / "figures")]) == 0
    for stem in ("ranking", "pairs", "course", "information"):
        ET.parse(tmp_path / "figures" / f"{stem}.svg")
        assert (tmp_path / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_plot_is_the_same_file(decided_dir, tmp_path):
    for name in ("a", "b"):
        assert main(["report", str(decided_dir), "--plots", str(tmp_path / name)]) == 0
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_the_command_plots_banks_and_simulations(table, tmp_path, capsys):
    bank, sim, out = tmp_path / "x.bank.json", tmp_path / "sim.json", tmp_path / "out"
    calibrate(table, method="paper").save(bank)
    found = simulate(table, ["paper"], folds=2, processes=1)
    sim.write_text(json.dumps(found.to_dict()))
    assert main(["report", str(bank), "--plots", str(out), "--formats", "svg"]) == 0
    assert main(["report", str(sim), "--plots", str(out), "--formats", "png"]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["bank.svg", "simulation.png"]
    assert ItemBank.load(bank).method == "paper"
    capsys.readouterr()
    for wrong, words in (
        (["report", str(sim)], "--plots DIR"),
        (["report", str(tmp_path / "none")], "no run directory or file"),
        (["report", str(sim), "--plots", "x", "--formats", "gif"], "not 'gif'"),
    ):
        assert main(wrong) == 2
        assert words in capsys.readouterr().err


def test_without_matplotlib_the_message_names_the_extra(decided_dir, tmp_path):
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from lm_eval_ccat.cli.main import main\n"
        f"sys.exit(main(['report', {str(decided_dir)!r}, '-o', {str(tmp_path / 'p.html')!r},"
        f" '--plots', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "lm-eval-ccat[plot]" in done.stderr and len(done.stderr.splitlines()) == 1
