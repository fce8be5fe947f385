"""Reproducible experiments: resumable jobs, a table, a picture, and tested claims.

One file of ``lemmax.experiments.figures`` per figure exports ``EXPERIMENT``; its name goes into
``figures.NAMES``. `perform` runs it and writes everything into a folder. A minimal file::

    '''Figure 9: what it shows.'''

    from typing import Any

    import lemmax as lm

    from ..harness import (
        Claim, Experiment, Facts, Job, Outcome, Settings, Table, Watch,
        curve, draw_curves, error_of, panels, part_of, run, seconds_per_step, steps_to,
    )
    from ..instances import psd_factorisation

    # Everything that shapes the data, except the seed; JSON-able. It is what --resume compares.
    SETTINGS = {
        "full": {"dim": 50, "ranks": [2, 5], "steps": 500},
        "quick": {"dim": 10, "ranks": [2, 5], "steps": 100},
    }
    METHODS = {"LMM": lm.methods.lmm, "subgradient": lm.methods.polyak_subgradient}


    def jobs(settings: Settings, seed: int) -> list[Job]:
        return [_job(settings, seed, rank) for rank in settings["ranks"]]


    def _job(settings: Settings, seed: int, rank: int) -> Job:
        def work(watch: Watch) -> Outcome:
            instance = psd_factorisation(seed, dim=settings["dim"], rank=rank)
            curves, facts = [], {}
            for k, (name, make) in enumerate(METHODS.items()):
                result = run(part_of(watch, k, len(METHODS)), instance, make(), settings["steps"])
                curves.append(curve(error_of(result), method=name, rank=rank))
                facts[f"{name}: seconds per step"] = seconds_per_step(result)
            return Outcome(Table.concatenate(curves), facts)

        return Job(f"rank={rank}", work)   # the key becomes a file's name


    def claims(table: Table, facts: Facts) -> list[Claim]:
        error = table.where(method="LMM", rank=5).column("error")
        needed = steps_to(error, 1e-10)
        return [Claim("LMM converges linearly whatever the rank.", needed is not None,
                      f"{needed} iterations to 1e-10")]


    def draw(table: Table) -> Any:
        figure, axes = panels(1, 1)
        draw_curves(axes[0, 0], table, styled_by=["rank"])
        return figure


    EXPERIMENT = Experiment("fig9", "What it shows", minutes=1, settings=SETTINGS,
                            jobs=jobs, claims=claims, draw=draw)

- Times, and whatever else differs from run to run, go into ``facts`` (by job), not into the table.
- The table is tidy: one row per method, setting and iteration (or trial). All jobs of an
  experiment have the same columns. Claims and picture use the table as read from disk.
- ``claims`` and ``draw`` must work at both sizes: get sizes from the table.
- Call ``watch(done, total)`` from time to time in a long job (`run` does); it also handles Ctrl-C.
  Pass ``part_of(watch, k, n)`` to the k-th of n runs of a job.
- Method names are shared, and so are their colours: ``LMM``, ``Gauss-Newton``, ``subgradient``,
  ``gradient descent``, ``PrecGD``, ``ScaledGD(λ)``, ``OPSA``.
- A claim that fails as printed may have a correction: ``Claim(statement, False, numbers,
  correction="what is true instead", correction_holds=...)``.
- Runs that share their measurements go into one program: ``run_together(watch, lanes, steps)``.
- ``summaries(table)``, optional, returns small text tables for console and report.
"""

from .batch import Lane as Lane
from .batch import measured_array as measured_array
from .batch import out_of_reach as out_of_reach
from .batch import run_together as run_together
from .drawing import ERROR_RANGE as ERROR_RANGE
from .drawing import colour as colour
from .drawing import draw_curves as draw_curves
from .drawing import legend_beside as legend_beside
from .drawing import line_style as line_style
from .drawing import panels as panels
from .experiment import SIZES as SIZES
from .experiment import Claim as Claim
from .experiment import Experiment as Experiment
from .experiment import Facts as Facts
from .experiment import Job as Job
from .experiment import Outcome as Outcome
from .experiment import Settings as Settings
from .experiment import Summary as Summary
from .experiment import Watch as Watch
from .report import write_report as write_report
from .runner import Finished as Finished
from .runner import perform as perform
from .runner import read_claims as read_claims
from .runs import curve as curve
from .runs import error_of as error_of
from .runs import part_of as part_of
from .runs import run as run
from .runs import seconds_per_step as seconds_per_step
from .runs import steps_to as steps_to
from .table import Table as Table
