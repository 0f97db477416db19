"""The miniature study: every training method from one cloned start, with equal sampling budgets, on held-out boards.

    python benchmarks/training_study.py recipes/study_minesweeper.toml --out study [--methods grpo,retrail] [--seeds 0]

A cell is one method with one seed. Each is a training run in its own directory: a cell that is complete is not run
again, one that was stopped goes on, and a cell that is deleted and run again gives the same numbers on the same
machine. `--report` only reads: it prints the table; `--to FILE` writes FILE.json (all that the table is made of) and,
with matplotlib, FILE.png (curves).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from agentrewind.bench.statistics import Interval, deviation
from agentrewind.cli.trained import line_of, paired
from agentrewind.core.codec import to_plain
from agentrewind.core.errors import AgentRewindError
from agentrewind.learn.scores import Score
from agentrewind.learn.training.kept import Place, TrainingDirectory
from agentrewind.learn.training.methods import METHODS
from agentrewind.learn.training.recipe import Recipe, read_recipe
from agentrewind.learn.training.trainer import Trainer

START = "start"
COLUMNS = {
    "P@1": ("retrospective", "P@1"), "T@1": ("retrospective", "T@1"), "T@3": ("retrospective", "T@3"),
    "T@3 without memory": ("no-memory", "T@3"), "T@3 oracle": ("oracle-remark", "T@3"),
    "T@3 random": ("random-remark", "T@3"),
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A cell that is complete."""

    method: str
    seed: int
    scores: list[Score]
    metrics: list[dict[str, float]]


def start_of(base: Recipe, out: Path) -> tuple[Path, list[Score]]:
    """The cloned weights that all cells begin with, and how well they play."""
    done = Trainer(base.up_to(0), out / START, said(base, START)).train()
    assert done.after is not None
    return done.weights, done.after


def cell_recipe(base: Recipe, start: Path, method: str, seed: int) -> Recipe:
    name = f"{method}-{seed}"
    measured = replace(base.evaluation, gate=0.0)
    return replace(base, name=name, method=method, seed=seed, model=str(start), cloning=None, evaluation=measured)


def said(recipe: Recipe, name: str):
    return lambda line: print(f"{name}: {line_of(line, recipe)}", flush=True)


def run(base: Recipe, out: Path, methods: list[str], seeds: list[int]) -> None:
    start, scores = start_of(base, out)
    for seed in seeds:
        for method in methods:
            recipe = cell_recipe(base, start, method, seed)
            trainer = Trainer(recipe, out / recipe.name, said(recipe, recipe.name))
            if trainer.directory.scores(Place()) is None:
                trainer.directory.keep_scores(Place(), scores)  # all begin with the same weights: measured once
            trainer.train()


def complete(base: Recipe, out: Path, start: Path, method: str, seed: int) -> Found | None:
    recipe = cell_recipe(base, start, method, seed)
    if not (out / recipe.name).is_dir():
        return None
    directory = TrainingDirectory(out / recipe.name, recipe)
    scores = directory.scores(Place(0, base.updates))
    return None if scores is None else Found(method, seed, scores, directory.metrics())


def chosen(scores: list[Score], column: str) -> list[Score]:
    method, protocol = COLUMNS[column]
    return [score for score in scores if (score.method, score.protocol) == (method, protocol)]


def share(scores: list[Score]) -> float:
    return statistics.fmean(score.solved for score in scores)


def row(cells: list[Found], before: list[Score]) -> dict[str, object]:
    """Means and deviations over training seeds; intervals over instances, each with all its seeds."""
    found: dict[str, object] = {"method": cells[0].method, "seeds": [cell.seed for cell in cells]}
    for column in COLUMNS:
        shares = [share(chosen(cell.scores, column)) for cell in cells]
        pooled = [score for cell in cells for score in chosen(cell.scores, column)]
        change = paired(pooled, chosen(before, column))
        found[column] = {"mean": statistics.fmean(shares), "deviation": deviation(shares), "change": to_plain(change)}
    own = [score for cell in cells for score in chosen(cell.scores, "T@3")]
    bare = [score for cell in cells for score in chosen(cell.scores, "T@3 without memory")]
    found["own remarks over none"] = to_plain(paired(own, bare))
    found["asked"] = statistics.fmean(score.rewinds for score in own)
    found["calls"] = statistics.fmean(sum(line["calls"] for line in cell.metrics) for cell in cells)
    found["tokens"] = statistics.fmean(sum(line["sampled"] for line in cell.metrics) for cell in cells)
    found["seconds"] = statistics.fmean(sum(line["seconds"] for line in cell.metrics) for cell in cells)
    return found


def interval(plain: dict[str, float]) -> str:
    item = Interval(**plain)
    return f"{100 * item.value:+.1f} [{100 * item.low:+.1f}, {100 * item.high:+.1f}]"


def table(rows: list[dict[str, object]], before: list[Score]) -> str:
    """In Markdown, in percent."""
    names = ["method", "seeds", *COLUMNS, "change of T@3", "own remarks over none", "asked", "calls"]
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    shares = [f"{100 * share(chosen(before, column)):.1f}" for column in COLUMNS]
    asked = statistics.fmean(score.rewinds for score in chosen(before, "T@3"))
    bare = interval(to_plain(paired(chosen(before, "T@3"), chosen(before, "T@3 without memory"))))
    lines.append("| " + " | ".join([START, "", *shares, "", bare, f"{asked:.2f}", ""]) + " |")
    for item in rows:
        shares = [f"{100 * item[column]['mean']:.1f} ± {100 * item[column]['deviation']:.1f}" for column in COLUMNS]
        more = [interval(item["T@3"]["change"]), interval(item["own remarks over none"])]
        last = [f"{item['asked']:.2f}", f"{item['calls']:,.0f}"]
        lines.append("| " + " | ".join([item["method"], str(len(item["seeds"])), *shares, *more, *last]) + " |")
    return "\n".join(lines)


def report(base: Recipe, out: Path, methods: list[str], seeds: list[int], to: Path | None) -> None:
    kept = TrainingDirectory(out / START, base.up_to(0))
    place = max(kept.checkpoints())
    before = kept.scores(place)
    assert before is not None
    cells = [complete(base, out, kept.weights(place), method, seed) for method in methods for seed in seeds]
    found = [cell for cell in cells if cell is not None]
    groups = [[cell for cell in found if cell.method == method] for method in methods]
    rows = [row(group, before) for group in groups if group]
    print(table(rows, before))
    print(f"\n{len(found)} of {len(cells)} cells are complete.")
    if to is not None:
        curves = [{"method": cell.method, "seed": cell.seed, "metrics": cell.metrics} for cell in found]
        shares = {column: share(chosen(before, column)) for column in COLUMNS}
        facts = {"recipe": to_plain(base), "start": shares, "rows": rows, "curves": curves}
        to.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        draw(groups, to.with_suffix(".png"))


def draw(groups: list[list[Found]], to: Path) -> None:
    """Learning curves: the mean over seeds, of what each method solves of its own training trials, and asks for."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("No curves were drawn: `pip install 'agentrewind[bench]'` adds matplotlib.")
        return
    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, (name, label) in zip(
        figure.subplots(1, 2),
        (("first", "solved without a way back"), ("asked", "rewinds asked for, a trial")),
        strict=True,
    ):
        for cells in filter(None, groups):
            steps = zip(*([line[name] for line in cell.metrics] for cell in cells), strict=False)
            axes.plot([statistics.fmean(step) for step in steps], label=cells[0].method)
        axes.set(xlabel="update", ylabel=label)
    figure.axes[0].legend(fontsize=7)
    figure.savefig(to, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--report", action="store_true", help="of the cells that are complete; nothing is run")
    parser.add_argument("--to", type=Path, metavar="FILE", help="write the report's JSON and curves here")
    asked = parser.parse_args()
    methods, seeds = asked.methods.split(","), [int(seed) for seed in asked.seeds.split(",")]
    try:
        base = read_recipe(asked.recipe)
        if not asked.report:
            run(base, asked.out, methods, seeds)
        report(base, asked.out, methods, seeds, asked.to)
    except AgentRewindError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
