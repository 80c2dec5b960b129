"""The paper's own figures (Tables 2, 3 and 4) as plain data. Standard library only.

Rows are keyed by the names that the recipes use. `figures_of` finds the paper's figures for one of our rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class System:
    """A row of Table 2: newstest2014, the paper's own BLEU protocol, FLOPs of the whole training."""

    name: str
    en_de: float | None = None
    en_fr: float | None = None
    en_de_flops: float | None = None
    en_fr_flops: float | None = None
    ours: str | None = None  # the name of our row that reproduces it


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """A row of Table 3: English to German, newstest2013, no averaging; perplexity per subword.

    `parameters` is in millions and, like in the paper, absent where it is the base model's. `changes` says in the
    paper's symbols what differs from base.
    """

    perplexity: float
    bleu: float
    parameters: float | None = None
    changes: str = ""
    steps: int = 100_000


@dataclass(frozen=True, kw_only=True)
class Parser:
    """A row of Table 4: F1 on section 23 of the Wall Street Journal."""

    name: str
    training: str
    f1: float
    ours: str | None = None


TABLE_2: tuple[System, ...] = (
    System(name="ByteNet", en_de=23.75),
    System(name="Deep-Att + PosUnk", en_fr=39.2, en_fr_flops=1.0e20),
    System(name="GNMT + RL", en_de=24.6, en_fr=39.92, en_de_flops=2.3e19, en_fr_flops=1.4e20),
    System(name="ConvS2S", en_de=25.16, en_fr=40.46, en_de_flops=9.6e18, en_fr_flops=1.5e20),
    System(name="MoE", en_de=26.03, en_fr=40.56, en_de_flops=2.0e19, en_fr_flops=1.2e20),
    System(name="Deep-Att + PosUnk Ensemble", en_fr=40.4, en_fr_flops=8.0e20),
    System(name="GNMT + RL Ensemble", en_de=26.30, en_fr=41.16, en_de_flops=1.8e20, en_fr_flops=1.1e21),
    System(name="ConvS2S Ensemble", en_de=26.36, en_fr=41.29, en_de_flops=7.7e19, en_fr_flops=1.2e21),
    System(
        name="Transformer (base)", en_de=27.3, en_fr=38.1, en_de_flops=3.3e18, en_fr_flops=3.3e18, ours="base"
    ),
    # en_fr: the NIPS version of this table, and section 6.1 of every version, say 41.0
    System(name="Transformer (big)", en_de=28.4, en_fr=41.8, en_de_flops=2.3e19, en_fr_flops=2.3e19, ours="big"),
)  # fmt: skip

TABLE_3: Mapping[str, Ablation] = {
    "base": Ablation(perplexity=4.92, bleu=25.8, parameters=65, changes="N=6, d=512, d_ff=2048, h=8, P_drop=0.1"),
    "A/h=1": Ablation(perplexity=5.29, bleu=24.9, changes="h=1, d_k=d_v=512"),
    "A/h=4": Ablation(perplexity=5.00, bleu=25.5, changes="h=4, d_k=d_v=128"),
    "A/h=16": Ablation(perplexity=4.91, bleu=25.8, changes="h=16, d_k=d_v=32"),
    "A/h=32": Ablation(perplexity=5.01, bleu=25.4, changes="h=32, d_k=d_v=16"),
    "B/dk=16": Ablation(perplexity=5.16, bleu=25.1, parameters=58, changes="d_k=16"),
    "B/dk=32": Ablation(perplexity=5.01, bleu=25.4, parameters=60, changes="d_k=32"),
    "C/N=2": Ablation(perplexity=6.11, bleu=23.7, parameters=36, changes="N=2"),
    "C/N=4": Ablation(perplexity=5.19, bleu=25.3, parameters=50, changes="N=4"),
    "C/N=8": Ablation(perplexity=4.88, bleu=25.5, parameters=80, changes="N=8"),
    "C/d=256": Ablation(perplexity=5.75, bleu=24.5, parameters=28, changes="d=256, d_k=d_v=32"),
    "C/d=1024": Ablation(perplexity=4.66, bleu=26.0, parameters=168, changes="d=1024, d_k=d_v=128"),
    "C/ff=1024": Ablation(perplexity=5.12, bleu=25.4, parameters=53, changes="d_ff=1024"),
    "C/ff=4096": Ablation(perplexity=4.75, bleu=26.2, parameters=90, changes="d_ff=4096"),
    "D/drop=0.0": Ablation(perplexity=5.77, bleu=24.6, changes="P_drop=0.0"),
    "D/drop=0.2": Ablation(perplexity=4.95, bleu=25.5, changes="P_drop=0.2"),
    "D/ls=0.0": Ablation(perplexity=4.67, bleu=25.3, changes="ε_ls=0.0"),
    "D/ls=0.2": Ablation(perplexity=5.47, bleu=25.7, changes="ε_ls=0.2"),
    "E/learned": Ablation(perplexity=4.92, bleu=25.7, changes="learned positions"),
    "big": Ablation(
        perplexity=4.33, bleu=26.4, parameters=213, changes="d=1024, d_ff=4096, h=16, P_drop=0.3", steps=300_000
    ),
}

TABLE_4: tuple[Parser, ...] = (
    Parser(name="Vinyals & Kaiser et al. (2014)", training="WSJ only, discriminative", f1=88.3),
    Parser(name="Petrov et al. (2006)", training="WSJ only, discriminative", f1=90.4),
    Parser(name="Zhu et al. (2013)", training="WSJ only, discriminative", f1=90.4),
    Parser(name="Dyer et al. (2016)", training="WSJ only, discriminative", f1=91.7),
    Parser(name="Transformer (4 layers)", training="WSJ only, discriminative", f1=91.3, ours="parsing-wsj"),
    Parser(name="Zhu et al. (2013)", training="semi-supervised", f1=91.3),
    Parser(name="Huang & Harper (2009)", training="semi-supervised", f1=91.3),
    Parser(name="McClosky et al. (2006)", training="semi-supervised", f1=92.1),
    Parser(name="Vinyals & Kaiser et al. (2014)", training="semi-supervised", f1=92.1),
    Parser(name="Transformer (4 layers)", training="semi-supervised", f1=92.7, ours="parsing-semi"),
    Parser(name="Luong et al. (2015)", training="multi-task", f1=93.0),
    Parser(name="Dyer et al. (2016)", training="generative", f1=93.3),
)

P100_FLOPS = 9.5e12  # sustained single-precision rate that the paper assumes (footnote 5)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What the paper says of one row: the protocol of `bleu` is `protocol`, and `parameters` is a count."""

    protocol: str
    bleu: float | None = None
    f1: float | None = None
    perplexity: float | None = None
    parameters: float | None = None
    flops: float | None = None
    changes: str = ""


def training_flops(seconds: float, devices: int, device_flops: float = P100_FLOPS) -> float:
    """The estimate under Table 2: time x devices x the sustained rate of one."""
    return seconds * devices * device_flops


def plain_name(row: str) -> str:
    """'A/h=1' of 'A/h=1@seed2': a row that is run with several seeds is one row of the paper."""
    return row.partition("@")[0].strip()


def figures_of(table: int | None, row: str, pair: str = "en-de") -> Figures | None:
    """The paper's figures for one of our rows; None where the paper has none.

    In Table 2 a row is `base` or `big`, alone, or with its language pair as in `base-en-fr`, which goes before `pair`.
    """
    name = plain_name(row)
    if table == 3 and name in TABLE_3:
        found = TABLE_3[name]
        parameters = found.parameters if found.parameters is not None else TABLE_3["base"].parameters
        return Figures(
            bleu=found.bleu,
            protocol="BLEU on newstest2013, the paper's protocol, single checkpoint",
            perplexity=found.perplexity,
            parameters=parameters * 1e6 if parameters is not None else None,
            changes=found.changes,
        )
    if table == 4:
        parser = next((each for each in TABLE_4 if each.ours == name), None)
        return Figures(f1=parser.f1, protocol="F1 on section 23 of the WSJ, EVALB") if parser else None
    return _system_figures(name, pair) if table == 2 else None


def _system_figures(name: str, pair: str) -> Figures | None:
    model, _, own_pair = name.replace("/", "-").partition("-")
    pair = own_pair or pair
    for system in TABLE_2:
        if system.ours != model:
            continue
        bleu = {"en-de": system.en_de, "en-fr": system.en_fr}.get(pair)
        flops = {"en-de": system.en_de_flops, "en-fr": system.en_fr_flops}.get(pair)
        parameters = TABLE_3[model].parameters
        if bleu is not None and parameters is not None:
            protocol = "BLEU on newstest2014, the paper's protocol, averaged checkpoints"
            return Figures(bleu=bleu, protocol=protocol, parameters=parameters * 1e6, flops=flops)
    return None
