"""What can be run: a recipe is a name, an experiment to start from, and a function that returns the last step.

attn plan base-en-de        attn run demo --set training.steps=2000
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jobs.configs import AverageConfig, ReportConfig, ShardConfig
from jobs.errors import UserError, refuse_unknown
from pipelines.recipes import settings
from pipelines.recipes.experiment import DemoText, Experiment, FilesText, WmtText, row
from pipelines.recipes.table3 import TABLE_3, Difference
from pipelines.recipes.treebanks import PARSING, PARSING_DEMO, PARSING_FILES, SemiText
from pipelines.steps import stages
from pipelines.steps.step import Step
from transformer.config import ModelConfig, TrainingConfig

MOST_SEEDS = 100  # a table with more has no end


def require_seeds(seeds: int) -> None:
    if not 1 <= seeds <= MOST_SEEDS:
        raise UserError(f"--seeds must be at least 1 and at most {MOST_SEEDS}, not {seeds}.")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the command line adds to a recipe beside `--set`: rows of a table, rows of one's own, how many seeds."""

    rows: Sequence[str] | None = None
    seeds: int = 1
    extra: Mapping[str, Difference] = field(default_factory=dict)
    changes: Sequence[str] = ()  # of `--set`, for a recipe whose rows start from experiments of their own

    def __post_init__(self) -> None:
        require_seeds(self.seeds)

    def sets(self, name: str) -> bool:
        """Whether `--set` names this section or field."""
        return any(f"{change.partition('=')[0].strip()}.".startswith(f"{name}.") for change in self.changes)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    name: str
    title: str  # of the report, part of its fingerprint: another title is another result
    summary: str
    paper: str  # what the paper got
    cost: str  # what it takes
    experiment: Experiment
    build: Callable[[Recipe, Experiment, Choice], Step]
    table: int | None = None
    base_seeds: int = 1  # the least for the row `base` of Table 3: its spread decides which rows have a sign
    source: str = ""  # the file that it is written in, if it is one of the user's own

    def step(self, changes: Iterable[str] = (), choice: Choice | None = None) -> Step:
        """The last step of this recipe, with `section.field=value` changes put in."""
        changes = tuple(changes)
        choice = replace(choice or Choice(), changes=changes)
        experiment = settings.apply(self.experiment, changes)
        try:
            return self.build(self, experiment, choice)
        except ValueError as error:  # of settings that only together are out of range
            raise UserError(f"{self.name}: {error}.") from error


def single(recipe: Recipe, experiment: Experiment, choice: Choice) -> Step:
    """One model, scored on its test set."""
    if choice.rows is not None or choice.extra:
        raise UserError(f"The recipe `{recipe.name}` is one model and has no rows to choose from.")
    tags = {"attn.table": str(recipe.table)} if recipe.table else {}
    name = "model" if recipe.table is None else recipe.name
    rows = seeded(name, experiment, choice.seeds, experiment.corpus.scored, tags)
    config = ReportConfig(title=recipe.title, recipe=recipe.name, rows=tuple(r.name for r in rows), table=recipe.table)
    return stages.report(config, rows)


def table_3(recipe: Recipe, experiment: Experiment, choice: Choice) -> Step:
    """Every row of Table 3, each a difference from the same base, scored on the development set, without averaging."""
    if choice.sets("corpus.test_pairs") or choice.sets("corpora.test_pairs"):
        raise UserError("Table 3 is scored on the development set: set corpus.dev_pairs, not corpus.test_pairs.")
    known = {**TABLE_3, **choice.extra}
    names = list(choice.rows) if choice.rows is not None else list(known)
    rows: list[stages.Row] = []
    for name in names:
        if name not in known:
            refuse_unknown("row", name, known)
        changed = known[name].applied(experiment, name)
        if not choice.sets("average"):
            changed = replace(changed, average=AverageConfig(last=1))
        tags = {"attn.table": "3", "attn.base": recipe.name}
        seeds = max(choice.seeds, recipe.base_seeds) if name == "base" else choice.seeds
        rows += seeded(name, changed, seeds, "dev", tags)
    config = ReportConfig(title=recipe.title, recipe=recipe.name, rows=tuple(r.name for r in rows), table=3)
    return stages.report(config, rows)


def table_2(recipe: Recipe, experiment: Experiment, choice: Choice) -> Step:
    """The four models of Table 2, side by side; what was made for one of them alone is used again."""
    parts = ("base-en-de", "big-en-de", "base-en-fr", "big-en-fr")
    if choice.sets("corpus.pair") or choice.sets("corpora.pair"):
        raise UserError(f"The rows of table2 are its language pairs: choose some with --rows ({', '.join(parts)}).")
    if choice.extra:
        raise UserError("The rows of table2 are recipes of their own: --rows-from adds rows to table3 only.")
    names = list(choice.rows) if choice.rows is not None else list(parts)
    rows: list[stages.Row] = []
    for name in names:
        if name not in parts:
            refuse_unknown("row", name, parts)
        part = RECIPES[name]
        own = settings.apply(part.experiment, choice.changes)
        rows += seeded(part.name, own, choice.seeds, "test", {"attn.table": "2"})
    config = ReportConfig(title=recipe.title, recipe=recipe.name, rows=tuple(r.name for r in rows), table=2)
    return stages.report(config, rows)


def seeded(name: str, experiment: Experiment, seeds: int, scored_on: str, tags: Mapping[str, str]) -> list[stages.Row]:
    """The row, once per seed; the first seed is the experiment's own, so that it is the very run made before."""
    first = experiment.training.seed
    made = []
    for seed in range(first, first + seeds):
        own = replace(experiment, training=replace(experiment.training, seed=seed))
        label = name if seeds == 1 else f"{name}@seed{seed}"
        own_tags = {**tags, "attn.row": name, "attn.seed": str(seed)}
        made.append(row(label, own, scored_on="dev" if scored_on == "dev" else "test", tags=own_tags))
    return made


DEMO = Experiment(  # no dropout: the demo language never runs out of sentences
    corpus=DemoText(),
    shards=ShardConfig(micro_batch_tokens=1_250, pool_pairs=10_000),
    model=ModelConfig(layers=2, d_model=128, d_ff=512, num_heads=4, dropout=0.0),
    training=TrainingConfig(
        steps=650,
        tokens_per_update=2_500,
        warmup=350,
        learning_rate=0.7,
        checkpoint_every=25,
        dev_every=100,
        log_every=10,
    ),
)
FILES = Experiment(
    corpus=FilesText(),
    shards=ShardConfig(micro_batch_tokens=1_024, pool_pairs=50_000),
    model=ModelConfig(layers=4, d_model=128, d_ff=512, num_heads=4, dropout=0.2),
    training=TrainingConfig(
        steps=8_000, tokens_per_update=2_048, warmup=1_500, checkpoint_every=250, dev_every=250, log_every=10
    ),
)
BIG = ModelConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
LONG = TrainingConfig(steps=300_000, keep_checkpoints=20)
SPEEDRUN = TrainingConfig(  # four times the paper's tokens an update, so about twice its peak rate, which is 7e-4
    steps=16_000,  # 1.6 thousand million target tokens, where the paper's 100,000 updates are 2.5
    tokens_per_update=100_000,
    warmup=2_000,
    learning_rate=1.4,  # a peak of 1.4e-3
    checkpoint_every=500,
    dev_every=500,
)
EN_FR = Experiment(corpus=WmtText(pair="en-fr"))
TINY = replace(  # every row's difference must leave whole numbers: three layers, eight heads
    DEMO,
    corpus=DemoText(dev_pairs=300, test_pairs=300),
    model=ModelConfig(layers=3, d_model=64, d_ff=256, num_heads=8, dropout=0.02),  # more needs more updates
    training=replace(
        DEMO.training,
        steps=1_250,
        tokens_per_update=1_250,
        warmup=400,
        learning_rate=0.5,  # at 1.0 it is chance which rows learn at all; at 0.5 deep and wide ones do
        checkpoint_every=125,
        dev_every=125,
    ),
)

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="demo",
            title="Demo language, English to German",
            summary="Demo language, English to German: the whole pipeline in minutes, no network",
            paper="not in the paper",
            cost="about 4 minutes on 2 cores",
            experiment=DEMO,
            build=single,
        ),
        Recipe(
            name="files",
            title="Your own parallel text",
            summary="Your own parallel text: --set corpus.train_source=FILE and so on",
            paper="not in the paper",
            cost="as long as you let it",
            experiment=FILES,
            build=single,
        ),
        Recipe(
            name="base-en-de",
            title="Transformer (base), WMT14 English to German",
            summary="Transformer (base), WMT14 English to German",
            paper="27.3 BLEU (Table 2)",
            cost="12 h on 8 P100",
            experiment=Experiment(),
            build=single,
            table=2,
        ),
        Recipe(
            name="big-en-de",
            title="Transformer (big), WMT14 English to German",
            summary="Transformer (big), WMT14 English to German",
            paper="28.4 BLEU (Table 2)",
            cost="3.5 days on 8 P100",
            experiment=Experiment(model=BIG, training=LONG, average=AverageConfig(last=20)),
            build=single,
            table=2,
        ),
        Recipe(
            name="base-en-fr",
            title="Transformer (base), WMT14 English to French",
            summary="Transformer (base), WMT14 English to French",
            paper="38.1 BLEU (Table 2)",
            cost="12 h on 8 P100",
            experiment=EN_FR,
            build=single,
            table=2,
        ),
        Recipe(
            name="big-en-fr",
            title="Transformer (big), WMT14 English to French",
            summary="Transformer (big), WMT14 English to French",
            paper="41.8 BLEU (Table 2; its text says 41.0)",
            cost="3.5 days on 8 P100",
            experiment=replace(EN_FR, model=replace(BIG, dropout=0.1), training=LONG, average=AverageConfig(last=20)),
            build=single,
            table=2,
        ),
        Recipe(
            name="speedrun-en-de",
            title="Transformer (base), WMT14 English to German, in large updates",
            summary="Transformer (base), WMT14 English to German: its quality in the least time, by large updates",
            paper="27.3 BLEU after 12 h (Table 2)",
            cost="a quarter of an hour of training on 8 A100, by calculation",
            experiment=Experiment(training=SPEEDRUN),
            build=single,
        ),
        Recipe(
            name="table2",
            title="Table 2: base and big, English to German and to French",
            summary="Table 2: base and big, English to German and to French",
            paper="27.3, 28.4, 38.1, 41.8 BLEU",
            cost="8 days on 8 P100",
            experiment=Experiment(),
            build=table_2,
            table=2,
        ),
        Recipe(
            name="table3",
            title="Table 3: all 20 variations of the architecture, WMT14 English to German",
            summary="Table 3: every variation of the architecture, WMT14 English to German",
            paper="23.7 to 26.4 BLEU on newstest2013",
            cost="about 13 days on 8 P100",
            experiment=Experiment(),
            build=table_3,
            table=3,
        ),
        Recipe(
            name="table3-demo",
            title="Table 3 in small, on the demo language",
            summary="Table 3 in small: the same rows on the demo language",
            paper="not in the paper: the same differences on a small base",
            cost="about 36 minutes on 2 cores, by estimate",
            experiment=TINY,
            build=table_3,
            table=3,
            base_seeds=3,
        ),
        Recipe(
            name="parsing-demo",
            title="Constituency parsing, treebank of the demo language",
            summary="Constituency parsing, a generated treebank: the whole pipeline in minutes, no data needed",
            paper="not in the paper",
            cost="about 6 minutes on 2 cores, 12 on busy ones",
            experiment=PARSING_DEMO,
            build=single,
            table=4,
        ),
        Recipe(
            name="parsing-wsj",
            title="Constituency parsing, Penn Treebank (WSJ only)",
            summary="Constituency parsing, your Penn Treebank: --set corpus.treebank=DIR",
            paper="91.3 F1 (Table 4, WSJ only)",
            cost="not said in the paper",
            experiment=PARSING,
            build=single,
            table=4,
        ),
        Recipe(
            name="parsing-semi",
            title="Constituency parsing, Penn Treebank and 17 million parses made by machine",
            summary="The same with your automatic parses: --set corpus.high_confidence=PATH corpus.automatic=PATH",
            paper="92.7 F1 (Table 4, semi-supervised)",
            cost="not said in the paper",
            experiment=replace(PARSING, corpus=SemiText()),
            build=single,
            table=4,
        ),
        Recipe(
            name="parsing-files",
            title="Constituency parsing, your own treebank",
            summary="Constituency parsing, your own trees in Penn brackets: --set corpus.treebank=DIR",
            paper="not in the paper",
            cost="as long as you let it",
            experiment=PARSING_FILES,
            build=single,
            table=4,
        ),
    )
}


def recipe_named(name: str) -> Recipe:
    if name not in RECIPES:
        refuse_unknown("recipe", name, RECIPES)
    return RECIPES[name]
