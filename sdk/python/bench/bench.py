"""What do a record, a merge and four quantiles cost beside the hdrhistogram package?

All contenders run in turn, round after round, by the CPU time of the thread. A ratio is taken within a round and is how many times
our time another takes. ROUNDS=n for more rounds. The circllhist package is left out: it needs a library that no registry has.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import random
import statistics
import time
from collections.abc import Callable

from hdrh.histogram import HdrHistogram
from ogive import Histogram, Recorder

VALUES = 1 << 13
ROUNDS = int(os.environ.get("ROUNDS", "15"))
HOUR_NS = 3_600_000_000_000
QUANTILES = (0.5, 0.9, 0.99, 0.999)


def mixed() -> list[int]:
    """Three regimes that take turns (2 us, 300 us, 40 ms), and every eighth value tiny."""
    source, values, centre = random.Random(7), [], 2e3
    for at in range(VALUES):
        if source.random() < 1 / 64:
            centre = source.choice((2e3, 3e5, 4e7))
        values.append(source.randrange(100) if at % 8 == 0 else int(centre * math.exp(source.gauss(0, 0.3))))
    return values


def times(group: str, contenders: list[tuple[str, int, Callable[[], None]]]) -> None:
    costs: list[list[float]] = [[] for _ in contenders]
    for turn in range(ROUNDS + 1):
        for (_, operations, run), cost in zip(contenders, costs):
            begin = time.thread_time_ns()
            run()
            if turn > 0:  # the first warms up
                cost.append((time.thread_time_ns() - begin) / operations)
    print(f"\n{group}: {ROUNDS} rounds\n{'':38} {'median ns':>10} {'least':>10} {'greatest':>10} {'ratio':>8}")
    for (name, _, _), cost in zip(contenders, costs):
        ratio = statistics.median(one / first for one, first in zip(cost, costs[0]))
        print(f"{name:38} {statistics.median(cost):10.1f} {min(cost):10.1f} {max(cost):10.1f} {ratio:8.2f}")


def main() -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs")
    values = mixed()
    gc.disable()
    recorder, histogram = Recorder(), Histogram()
    two, three = HdrHistogram(1, HOUR_NS, 2), HdrHistogram(1, HOUR_NS, 3)

    def each(record: Callable[[int], object]) -> Callable[[], None]:
        def run() -> None:
            for value in values:
                record(value)

        return run

    times("record, mixed: 2 us, 300 us, 40 ms, tiny", [
        ("Recorder.record_nanoseconds", VALUES, each(recorder.record_nanoseconds)),
        ("Histogram.record, a double", VALUES, each(lambda value: histogram.record(value / 1e9))),
        ("hdrhistogram, 2 digits", VALUES, each(two.record_value)),
        ("hdrhistogram, 3 digits", VALUES, each(three.record_value)),
    ])
    left, right = recorder.take(), histogram
    other = HdrHistogram(1, HOUR_NS, 3)
    each(other.record_value)()

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(20):
                work()

        return run

    times("merge of a histogram of mixed values", [
        ("Histogram.merge", 20, repeat(lambda: left.merge(right))),
        ("hdrhistogram add, 3 digits", 20, repeat(lambda: three.add(other))),
    ])
    times("four quantiles", [
        ("Histogram.quantile", 20, repeat(lambda: [right.quantile(q) for q in QUANTILES])),
        ("hdrhistogram, 3 digits", 20, repeat(lambda: [other.get_value_at_percentile(100 * q) for q in QUANTILES])),
    ])


main()
