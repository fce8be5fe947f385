"""Measurements spread over devices and processes: the same answers, and nothing large is sent."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Entries of a point that are distinct to the operator's adjoint; of RankOne, those of X.
NUMBERS = {"Dense": 64, "SymmetricDense": 36, "RankOne": 16}


def started(*arguments):
    source = str(ROOT / "src") + os.pathsep + os.environ.get("PYTHONPATH", "")
    return subprocess.Popen(
        [sys.executable, "-m", "tests.device_runs", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_measurements_spread_over_devices(count):
    said, errors = started("devices", count).communicate(timeout=300)
    assert said, errors
    told = json.loads(said.splitlines()[-1])
    assert set(told) == set(NUMBERS)
    for name, entry in told.items():
        assert entry["status"] == "TARGET_REACHED"
        assert entry["difference"] < 1e-10, name
        assert_sent(name, entry["sent"])


def assert_sent(name, counted):
    """A step sends the gradient and the value of each lane, whatever the number of measurements."""
    for lanes, sent in enumerate(counted, start=1):
        assert sorted(sent["all-reduce"]) == [lanes, lanes * NUMBERS[name]]
        assert not any(sent[kind] for kind in sent if kind != "all-reduce")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Gloo was tried on Linux alone")
class TestTwoProcesses:
    def test_answers(self, tmp_path):
        port = free_port()
        processes = [started("process", rank, 2, port, tmp_path / "run") for rank in range(2)]
        lines = [said.splitlines() for said, _ in ended(processes)]
        found = [[line for line in each if line.startswith("{")] for each in lines]
        assert all(found), lines
        assert found[0] == found[1]
        told = json.loads(found[0][0])
        assert told.pop("resumed")
        assert len(told) == 3
        for name, entry in told.items():
            assert entry["status"] == "TARGET_REACHED"
            assert entry["error"] < 1e-10
            assert_sent(name, entry["sent"])

    @pytest.mark.parametrize("killed", [0, 1])
    def test_one_is_killed_and_both_start_again(self, tmp_path, killed):
        def run(folder):
            port = free_port()
            return [started("long", rank, 2, port, tmp_path / folder) for rank in range(2)]

        wanted = ended(run("calm"))[0][0].splitlines()[-1]
        assert wanted.startswith("to ")
        processes = run("run")
        deadline = time.monotonic() + 100
        while not (tmp_path / "run" / "solve.safetensors").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.3)
        processes[killed].send_signal(signal.SIGKILL)
        said, errors = ended(processes)[1 - killed]
        # It says so instead of waiting for ever. JAX may be faster, and end who has lost the first.
        told = "Another process of this run has ended" in said.splitlines()[-1]
        assert told or (killed == 0 and processes[1].returncode != 0), (said, errors)
        said, _ = ended(run("run"))[0]
        (begun,) = (line for line in said.splitlines() if line.startswith("from "))
        assert int(begun.split()[1]) > 10  # it goes on
        assert said.splitlines()[-1] == wanted


def ended(processes, seconds=150):
    """What they print, at the latest after so long."""
    try:
        return [each.communicate(timeout=seconds) for each in processes]
    finally:
        for each in processes:
            each.kill()
