"""Ogive for Python: histograms, recorders, and an exporter that sends each sample exactly once."""

from .exporter import Exporter, Status
from .histogram import (
    NAN_BIN,
    ZERO_BIN,
    FormatError,
    Histogram,
    Quantile,
    Recorder,
    bin_bounds,
    bin_label,
    bin_midpoint,
    bin_of,
    bin_of_integer,
    bin_parse,
)
from .library import Bin, Repairs

__all__ = [
    "NAN_BIN",
    "ZERO_BIN",
    "Bin",
    "Exporter",
    "FormatError",
    "Histogram",
    "Quantile",
    "Recorder",
    "Repairs",
    "Status",
    "bin_bounds",
    "bin_label",
    "bin_midpoint",
    "bin_of",
    "bin_of_integer",
    "bin_parse",
]
