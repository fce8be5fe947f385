"""Build the sdist and from it the wheel; install it in clean environments, and try each extra.

One environment has the wheel and its dependencies alone. Each extra has one of its own, which sees
the first through a .pth file, so that JAX is installed once and extras do not see each other.
"""

import pathlib
import shutil
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).parent.parent
WORK = ROOT / ".package"

SOLVE = """
import numpy as np, lemmax as lm
problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), np.array([4.0, 1.0]))
result = lm.solve(problem, lm.methods.lmm(), np.array([1.5, 1.5]))
assert result.status is lm.Status.TARGET_REACHED, result
"""
# What each extra is for, beside which nothing but the core is installed.
EXTRAS = {
    "plots": SOLVE + "assert lm.plots.convergence({'LMM': result}).axes",
    "sparse": """
import jax.numpy as jnp, numpy as np, lemmax as lm
curve = lm.maps.FromFunction(lambda x: x * x)
problem = lm.Composite(lm.losses.SquaredL2(), curve, np.array([4.0, 1.0]))
method = lm.methods.trust_region(lm.jacobians.Sparse())
assert lm.solve(problem, method, np.array([1.5, 1.5])).value < 1e-12
""",
    "estimators": """
import numpy as np
from lemmax.estimators import RobustPCA
rng = np.random.default_rng(0)
table = rng.standard_normal((20, 1)) @ rng.standard_normal((1, 8))
assert RobustPCA().fit(table).n_components_ == 1
""",
    "optimistix": "import lemmax.optimistix",
    "cli": "from lemmax.cli.app import app",
}


def run(*command: object, **options: object) -> str:
    """What a command prints; a failure is shown and ends everything."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=WORK, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def pip_install(python: pathlib.Path, *what: object) -> None:
    pip = (WORK / "build" / "bin" / "python", "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--disable-pip-version-check", "--no-compile", *what)


def environment(name: str, *, pip: bool = False) -> pathlib.Path:
    """A new environment's interpreter."""
    run(sys.executable, "-m", "venv", *(() if pip else ("--without-pip",)), WORK / name)
    return WORK / name / "bin" / "python"


def build() -> pathlib.Path:
    """The wheel; `build` makes it from the sdist, as distributors do."""
    builder = environment("build", pip=True)
    # In this environment rather than in two more; it complains if pyproject.toml wants others.
    pip_install(builder, "build", "hatchling")
    run(builder, "-m", "build", "--no-isolation", "--outdir", WORK / "dist", ROOT)
    (wheel,) = (WORK / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    outside = {name for name in names if not name.startswith(("lemmax/", "lemmax-"))}
    assert not outside, f"The wheel holds {outside}."
    for needed in ("lemmax/py.typed", "lemmax/__main__.py", "lemmax/experiments/figures/fig1.py"):
        assert needed in names, f"The wheel lacks {needed}."
    return wheel


def check_core(python: pathlib.Path, version: str) -> None:
    """Without extras: solving works, and the commands say what they need in one sentence."""
    run(python, "-c", SOLVE)
    assert run(python, "-c", "import lemmax; print(lemmax.__version__)") == version
    for command in ((python.parent / "lemmax",), (python, "-m", "lemmax")):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, cwd=WORK)
        assert done.returncode == 1, done
        assert done.stderr.count("\n") == 1, done.stderr
        assert "pip install 'lemmax[cli]'" in done.stderr, done.stderr


def check_commands(python: pathlib.Path, version: str) -> None:
    """With the command line: its version, what there is to reproduce, completion."""
    command = python.parent / "lemmax"
    assert run(command, "--version") == run(python, "-m", "lemmax", "--version") == version
    assert "fig8" in run(command, "reproduce")
    assert "complete -o default" in run(python, "-m", "lemmax", "--show-completion", "bash")


def main() -> None:
    """Everything, with the seconds it took."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    began = time.perf_counter()

    def tell(what: str) -> None:
        print(f"{time.perf_counter() - began:5.1f} s  {what}", flush=True)

    wheel = build()
    version = wheel.name.split("-")[1]
    tell(f"built {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB)")
    core = environment("core")
    pip_install(core, wheel)
    check_core(core, version)
    tell("without extras")
    seen = run(core, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    for extra, code in EXTRAS.items():
        python = environment(extra)
        own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        (pathlib.Path(own) / "core.pth").write_text(seen + "\n")
        pip_install(python, f"{wheel}[{extra}]")
        run(python, "-c", code)
        if extra == "cli":
            # The wheel once more, for its command, which is the core's.
            pip_install(python, "--no-deps", "--ignore-installed", wheel)
            check_commands(python, version)
        tell(f"with {extra}")


if __name__ == "__main__":
    main()
