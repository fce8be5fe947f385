"""The estimators beside the tools that people use today: same data, same run, time and error.

    pip install -e '.[benchmark]'
    python -m benchmarks.peers                 # everything; names of parts for some of it
    python -m benchmarks.peers rpca nnls

Times are of a second call (the first compiles, which is stated apart); peers are not compiled.
"""

import argparse
import contextlib
import io
import itertools
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

from lemmax.estimators import CPDecomposition, NonnegativeRegression, RobustPCA

Row = dict[str, object]


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the seconds it took; what it prints is not wanted."""
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = call()
    return answer, time.perf_counter() - began


def warm(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, the seconds of the second one, and how much longer the first took."""
    _, first = timed(call)
    answer, second = timed(call)
    return answer, second, first - second


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def row(problem: str, tool: str, error: float, seconds: float, remark: str = "") -> Row:
    return {
        "problem": problem,
        "tool": tool,
        "relative error": f"{error:.1e}",
        "seconds": f"{seconds:.3g}",
        "remark": remark,
    }


def rpca() -> Iterator[Row]:
    """500 x 500, rank 5, a fifth of the entries wrong by ten times their size."""
    from pyrpca import rpca_pcp_ialm
    from rpca import RobustPCA as AcceleratedProjections
    from tensorly.decomposition import robust_pca

    rng = np.random.default_rng(900_000)
    truth = rng.standard_normal((500, 5)) @ rng.standard_normal((5, 500))
    wrong = rng.random(truth.shape) < 0.2
    table = np.where(wrong, 10 * truth.std() * rng.uniform(-1, 1, truth.shape), truth)
    problem = "robust PCA, all entries"
    for bound in (5, 10, 20):
        model, seconds, compiling = warm(
            lambda r=bound: RobustPCA(max_components=r, centre=False).fit(table)
        )
        remark = f"rank {model.n_components_} found, {compiling:.1f} s more the first time"
        yield row(
            problem,
            f"lemmax, rank <= {bound}",
            relative(model.reconstruction_, truth),
            seconds,
            remark,
        )
    for rank in (5, 10):

        def projections(rank: int = rank) -> Any:
            model = AcceleratedProjections(n_components=rank, tol=1e-12, verbose=False)
            return model.fit(table).low_rank_

        found, seconds = timed(projections)
        yield row(problem, f"rpca, rank = {rank}", relative(found, truth), seconds)
    weight = 1 / np.sqrt(500)
    (found, _), seconds = timed(lambda: rpca_pcp_ialm(table, weight, tol=1e-12, verbose=False))
    yield row(problem, "pyrpca", relative(found, truth), seconds)
    (found, _), seconds = timed(
        lambda: robust_pca(table, reg_E=weight, tol=1e-12, n_iter_max=500, verbose=0)
    )
    yield row(problem, "tensorly robust_pca", relative(np.asarray(found), truth), seconds)
    holes = np.where(rng.random(truth.shape) < 0.5, np.nan, table)
    model, seconds, _ = warm(lambda: RobustPCA(centre=False).fit(holes))
    yield row("half of them missing", "lemmax", relative(model.reconstruction_, truth), seconds)
    seen = ~np.isnan(holes)
    (found, _), seconds = timed(
        lambda: robust_pca(
            np.where(seen, holes, 0), mask=seen, reg_E=weight, tol=1e-12, n_iter_max=500, verbose=0
        )
    )
    yield row(
        "half of them missing", "tensorly robust_pca", relative(np.asarray(found), truth), seconds
    )


def collinear_factors(
    rng: np.random.Generator, dim: int, rank: int, cosine: float, condition: float = 1.0
) -> list[np.ndarray]:
    """Unit columns with a given cosine between any two, the sizes of the terms spread."""
    gram = np.full((rank, rank), cosine) + (1 - cosine) * np.eye(rank)
    mix = np.linalg.cholesky(gram).T
    factors = [np.linalg.qr(rng.standard_normal((dim, rank)))[0] @ mix for _ in range(3)]
    sizes = np.linspace(1, 1 / condition, rank) ** (1 / 3)
    return [factor * sizes for factor in factors]


def full(factors: Any) -> np.ndarray:
    first, second, third = factors
    return np.einsum("ir,jr,kr->ijk", first, second, third, optimize=True)


def cp() -> Iterator[Row]:
    """Exact tensors of rank 5 whose factors are nearly collinear, and one of rank 2."""
    cases = (
        ("d=100, rank 2 in 5", 100, 2, 0.0, 1.0),
        ("d=100, cosine 0.9", 100, 5, 0.9, 1.0),
        ("d=200, condition 100", 200, 5, 0.9, 100.0),
    )
    for problem, dim, rank, cosine, condition in cases:
        rng = np.random.default_rng(901_000 + dim)
        tensor = full(collinear_factors(rng, dim, rank, cosine, condition))
        start = [rng.standard_normal((dim, 5)) for _ in range(3)]
        # Iterations of the large one take eight times as long: so many are long enough to see.
        yield from _exact_cp(problem, tensor, start, 3000 if dim < 200 else 300)


def _exact_cp(
    problem: str, tensor: np.ndarray, start: list[np.ndarray], iterations: int
) -> Iterator[Row]:
    from pyttb.gcp.handles import Objectives
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import parafac

    model, seconds, _ = warm(lambda: CPDecomposition(5, loss="squared").fit(tensor))
    remark = f"rank {model.rank_}"
    yield row(
        problem, "lemmax, from the data", relative(model.reconstruct(), tensor), seconds, remark
    )

    def from_start() -> Any:
        given = CPDecomposition.from_cp((None, start), loss="squared", warm_start=True)
        return given.fit(tensor)

    model, seconds, _ = warm(from_start)
    yield row(problem, "lemmax, from a given start", relative(model.reconstruct(), tensor), seconds)
    starts = {"its own start": "svd", "the given start": CPTensor((np.ones(5), start))}
    for name, init in starts.items():

        def als(init: Any = init) -> Any:
            return parafac(
                tensor,
                5,
                init=init,
                n_iter_max=iterations,
                tol=1e-16,
                linesearch=True,
                random_state=0,
            )

        remark = f"at most {iterations} iterations"
        try:
            found, seconds = timed(als)
            error = relative(full_cp(found), tensor)
        except np.linalg.LinAlgError as failure:
            error = seconds = float("nan")
            remark = str(failure)
        yield row(problem, f"parafac, {name}", error, seconds, remark)

    found, seconds = timed(lambda: gcp(tensor, Objectives.GAUSSIAN, start, iterations))
    remark = f"at most {iterations} iterations"
    yield row(problem, "pyttb gcp_opt, the given start", relative(found, tensor), seconds, remark)


def gcp(tensor: np.ndarray, objective: Any, start: list[np.ndarray], iterations: int) -> np.ndarray:
    """Pyttb's decomposition of rank 5 by the quasi-Newton method that it recommends."""
    import pyttb
    from pyttb.gcp.optimizers import LBFGSB

    optimizer = LBFGSB(maxiter=iterations, factr=1.0, pgtol=1e-14)
    given = pyttb.ktensor([factor.copy(order="F") for factor in start])
    found = pyttb.gcp_opt(pyttb.tensor(tensor), 5, objective, optimizer, init=given, printitn=0)[0]
    return full([found.factor_matrices[0] * found.weights, *found.factor_matrices[1:]])


def full_cp(found: Any) -> np.ndarray:
    weights, factors = found
    return full([np.asarray(factors[0]) * np.asarray(weights), *map(np.asarray, factors[1:])])


def wrong_entries() -> Iterator[Row]:
    """The first of those tensors with a tenth of its entries wrong."""
    from pyttb.gcp.fg_setup import setup
    from pyttb.gcp.handles import Objectives
    from tensorly.decomposition import parafac

    rng = np.random.default_rng(902_000)
    truth = full(collinear_factors(rng, 100, 5, 0.9))
    wrong = rng.random(truth.shape) < 0.1
    tensor = np.where(wrong, 10 * truth.std() * rng.standard_normal(truth.shape), truth)
    problem = "d=100, a tenth wrong"
    model, seconds, _ = warm(lambda: CPDecomposition(5).fit(tensor))
    remark = f"rank {model.rank_}, {model.status_}"
    yield row(problem, "lemmax", relative(model.reconstruct(), truth), seconds, remark)
    found, seconds = timed(lambda: parafac(tensor, 5, n_iter_max=500, random_state=0))
    yield row(problem, "parafac", relative(full_cp(found), truth), seconds)
    threshold = 1e-3 * float(np.median(np.abs(tensor)))
    huber = setup(Objectives.HUBER, additional_parameter=threshold)
    weights, factors = found
    start = [np.asarray(factors[0]) * np.asarray(weights), *map(np.asarray, factors[1:])]
    better, seconds = timed(lambda: gcp(tensor, huber, start, 2000))
    remark = "from parafac's answer"
    yield row(problem, "pyttb gcp_opt, Huber", relative(better, truth), seconds, remark)


def many_nnls() -> Iterator[Row]:
    """A thousand right-hand sides of one 200 x 100 matrix, and one alone."""
    rng = np.random.default_rng(903_000)
    design = rng.standard_normal((200, 100))
    targets = rng.standard_normal((200, 1000))
    best, seconds = timed(lambda: np.stack([nnls(design, b)[0] for b in targets.T]))
    yield row("1000 x NNLS", "scipy, in a loop", 0.0, seconds, "the reference")
    model, seconds, _ = warm(lambda: NonnegativeRegression().fit(design, targets))
    yield row("1000 x NNLS", "lemmax", relative(model.coef_, best), seconds)
    one = targets[:, 0]
    alone, seconds, _ = warm(lambda: nnls(design, one)[0])
    yield row("one NNLS", "scipy", 0.0, seconds, "the reference")
    model, seconds, _ = warm(lambda: NonnegativeRegression().fit(design, one))
    yield row("one NNLS", "lemmax", relative(model.coef_, alone), seconds)


PARTS = {"rpca": rpca, "cp": cp, "wrong": wrong_entries, "nnls": many_nnls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all if none is named")
    logging.disable(logging.WARNING)  # pyttb warns at every evaluation
    console = Console()
    for name in parser.parse_args().parts or PARTS:
        table = None
        for line in itertools.chain(PARTS[name]()):
            if table is None:
                table = Table(*line, title=name)
            table.add_row(*map(str, line.values()))
            console.print(line)
        if table is not None:
            console.print(table)


if __name__ == "__main__":
    main()
