"""Measurements spread over devices and processes: the same answers, and nothing large is sent."""

import json
import os
import pathlib
import socket
import subprocess
import sys

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


def test_two_and_four_devices():
    said, errors = started("devices").communicate(timeout=300)
    assert said, errors
    told = json.loads(said.splitlines()[-1])
    assert len(told) == 6
    for name, entry in told.items():
        assert entry["status"] == "TARGET_REACHED"
        assert entry["difference"] < 1e-10, name
        for lanes, sent in enumerate(entry.get("sent", ()), start=1):
            # A step sends the gradient and the value, whatever the number of measurements.
            assert sorted(sent["all-reduce"]) == [lanes, lanes * NUMBERS[name.split()[0]]]
            assert not any(sent[kind] for kind in sent if kind != "all-reduce")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Gloo was tried on Linux alone")
def test_two_processes(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [started("process", rank, 2, port, tmp_path / "run") for rank in range(2)]
    try:
        ended = [each.communicate(timeout=300) for each in processes]
    finally:
        for each in processes:
            each.kill()
    lines = [said.splitlines() for said, _ in ended]
    found = [[line for line in each if line.startswith("{")] for each in lines]
    assert all(found), ended
    assert found[0] == found[1]
    told = json.loads(found[0][0])
    assert told.pop("resumed")
    for entry in told.values():
        assert entry["status"] == "TARGET_REACHED"
        assert entry["error"] < 1e-10
    # The second was gone, and the first says so instead of waiting for ever.
    assert "Another process of this run has ended" in lines[0][-1]
    assert len(told) == 3
