"""What needs more memory than a process may have is refused, in a control group as well."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from tests.memory_runs import CALLS

LIMIT = 2_500_000_000
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Arrays of 2.4 GB in little room: a sparse file, an archive of zeros, equal columns."""
    folder, shape = tmp_path_factory.mktemp("files"), (300_000, 1000)
    head = io.BytesIO()
    declared = {"shape": shape, "fortran_order": False, "descr": "<f8"}
    np.lib.format.write_array_header_1_0(head, declared)
    (folder / "zeros.npy").write_bytes(head.getvalue())
    os.truncate(folder / "zeros.npy", len(head.getvalue()) + 8 * shape[0] * shape[1])
    packed = zipfile.ZipFile(folder / "zeros.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed, packed.open("x.npy", "w", force_zip64=True) as member:
        member.write(head.getvalue())
        for _ in range(100):
            member.write(bytes(8 * shape[0] * shape[1] // 100))
    with contextlib.suppress(ImportError):
        import pyarrow as pa
        from pyarrow import parquet

        column = pa.array(np.zeros(10_000_000))
        parquet.write_table(pa.table({f"c{k}": column for k in range(4)}), folder / "zeros.parquet")
    return folder


def all_refused(*arguments, files, within=()):
    """Every call ends with our own sentence: nothing is killed, and NumPy says nothing."""
    command = [sys.executable, "-m", "tests.memory_runs", str(files), *map(str, arguments)]
    done = subprocess.run([*within, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split(" | ", 1) for line in done.stdout.splitlines())
    assert set(said) == {*CALLS, *(path.suffix for path in files.iterdir())}
    for name, sentence in said.items():
        expected = (
            r" needs [\d,]+ bytes \(\d+\.\d GiB\), but only [\d,]+ \(\d+\.\d GiB\) are free\."
        )
        assert re.search(expected, sentence), (name, sentence)


# The quick one is that of the control group.
@pytest.mark.slow
def test_a_limit_on_the_address_space(files):
    all_refused("limited", files=files)


@pytest.mark.slow
def test_files_of_a_control_group(files, tmp_path):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemAvailable: {16 * 2**20} kB\n")
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(str(LIMIT))
    (tmp_path / "memory.current").write_text(str(2**29))
    all_refused(tmp_path / "proc", tmp_path, files=files)


def control_groups():
    """Folders in which a group with a limit may be made, and the limit's name; the root first."""
    root = pathlib.Path("/sys/fs/cgroup")
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            top, limit = root / "memory", "memory.limit_in_bytes"
        elif controllers == "":
            top, limit = root, "memory.max"
        else:
            continue
        mine = top / path.lstrip("/")
        for folder in (*reversed(mine.parents), mine):
            if folder.is_relative_to(top):
                yield folder, limit


@pytest.fixture
def control_group():
    """A group inside of one that may take 2.5 GB; skipped where none can be made."""
    for folder, limit in control_groups():
        outer = folder / f"lemmax-{os.getpid()}"
        inner = outer / "inner"
        try:
            outer.mkdir()
            (outer / limit).write_text(str(LIMIT))
            inner.mkdir()
            subprocess.run([*inside(inner), "true"], capture_output=True, check=True)
        except (OSError, subprocess.SubprocessError):
            remove(inner, outer)
            continue
        yield inner
        remove(inner, outer)
        return
    pytest.skip("no control group with a limit on its memory can be made here")


def inside(group):
    """What to write before a command to run it in a group.

    A shell enters the group: `preexec_fn` would fork this process, in which JAX has threads.
    """
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]


def remove(*groups):
    for group in groups:
        for _ in range(50):  # the last process may still be leaving
            try:
                group.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.1)


def test_in_a_control_group_nothing_is_killed(files, control_group):
    all_refused(files=files, within=inside(control_group))
