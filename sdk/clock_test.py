"""The clock page of a real server, read in C, Go and Java in turn: one clock.

    clock_test.py OGIVE READER...   where each READER is a command; crates/probe/tests/shared/reader.c says what it answers
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ROUNDS = 500
DEADLINE_S = 60


class Reader:
    """A program that reads the page, answering a line with a line."""

    def __init__(self, command: str, page: str) -> None:
        self.name = command
        self.process = subprocess.Popen([*shlex.split(command), "turns", page], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: str) -> list[int]:
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        assert answer, f"{self.name} has ended"
        return [] if answer == ["none"] else [int(word) for word in answer]


def monotonic() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def differences(readers: list[Reader], source: random.Random) -> tuple[int, list[str]]:
    """Asks all in any order, again and again. Gives readings of the counter, and what is not as one clock would have it."""
    counted, wrong = 0, []
    last, last_error = 0, 0
    for _ in range(ROUNDS):
        for reader in source.sample(readers, len(readers)):
            before, wall_before = monotonic(), time.time_ns()
            ns, error, mode, epoch, wall, _ = reader.ask("now")
            after, wall_after = monotonic(), time.time_ns()
            counted += mode
            if not before - error <= ns <= after + error:
                wrong.append(f"{reader.name}: {ns} +- {error} is not from {before} to {after}")
            if ns + error + last_error < last:
                wrong.append(f"{reader.name}: {ns} +- {error} after {last} +- {last_error}")
            # The offset is looked at ten times a second, and brings its own rounding.
            if not wall_before - 1_000_000 <= wall <= wall_after + 1_000_000:
                wrong.append(f"{reader.name}: the wall clock {wall} is not from {wall_before} to {wall_after}")
            last, last_error = ns, error
    return counted, wrong


def stamps_are_one_time(readers: list[Reader]) -> None:
    """A stamp that one takes from the counter is the same time for all, within what a publication in between may change."""
    stamping = [reader for reader in readers if reader.ask("now")[5] != 0]
    assert len(stamping) >= 2, "C and Go read the counter"
    for reader in stamping * 50:
        ticks = reader.ask("now")[5]
        times = [other.ask(f"at {ticks}") for other in readers]
        # A segment that was published after the stamp does not reach back to it.
        times = [one[0] for one in times if one]
        assert not times or max(times) - min(times) <= 1000, f"{ticks} of {reader.name}: {times}"


def until(what: str, done: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.01)


@contextmanager
def server(ogive: str, directory: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    page = os.path.join(directory, "clock")
    command = [ogive, "serve", "--data", os.path.join(directory, "data"), "--listen", "127.0.0.1:0", "--clock-page", page]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        until("the page", lambda: os.path.exists(page) or process.poll() is not None)
        assert process.poll() is None, process.stderr.read().decode()
        yield process, page
    finally:
        process.kill()
        process.wait()


def main(ogive: str, commands: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory, server(ogive, directory) as (process, page):
        readers = [Reader(command, page) for command in commands]
        # Before the publisher has calibrated, and where the processor has no counter to trust, the page is of the system's clock.
        clock = subprocess.run([ogive, "clock", "--json"], stdout=subprocess.PIPE, check=False).stdout
        is_counter = json.loads(clock)["mode"] == "counter"
        if is_counter:
            until("the counter", lambda: all(reader.ask("now")[2] == 1 for reader in readers))
        # A busy machine may give the publisher no CPU for longer than its segment lasts: what is wrong is so each time.
        for attempt in range(5):
            counted, wrong = differences(readers, random.Random(attempt))
            if not wrong and counted >= is_counter * ROUNDS * len(readers) * 9 // 10:
                break
        else:
            raise AssertionError(f"{counted} readings of the counter; {len(wrong)} differ: {wrong[:5]}")
        if is_counter:
            stamps_are_one_time(readers)
        process.kill()
        until("the end of the segment", lambda: all(reader.ask("now")[2] == 0 for reader in readers))
        for attempt in range(5):
            _, wrong = differences(readers, random.Random(attempt))
            if not wrong:
                break
        else:
            raise AssertionError(f"without a publisher: {wrong[:5]}")
    print(f"clock: {len(readers)} languages, {ROUNDS * len(readers)} readings are one clock, {counted} of them of the counter")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
