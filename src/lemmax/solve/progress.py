"""Progress bars, with rich."""

import contextlib
from collections.abc import Callable, Iterator

Report = Callable[[int, float], None]


@contextlib.contextmanager
def progress_bar(description: str, max_steps: int) -> Iterator[Report]:
    """A progress bar on stderr; the report function takes the step and the value."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError(
            "progress=True needs the package rich: pip install 'lemmax[cli]'."
        ) from error
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
        TextColumn("value {task.fields[value]:.3e}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        task = bar.add_task(description, total=max_steps, value=float("nan"))
        yield lambda step, value: bar.update(task, completed=step, value=value)


@contextlib.contextmanager
def no_progress_bar() -> Iterator[Report]:
    """No output."""
    yield lambda step, value: None
