"""The native batch (docs/formats/batch.md): every series declared, all samples at one time, in a checksummed frame."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import flatbuffers

from .histogram import NAN_BIN, Histogram
from .wire import Batch, Floats, Histograms, Scheme, Series
from .wire.Kind import Kind
from .wire.Temporality import Temporality

__all__ = ["Kind", "Sample", "SeriesOf", "Temporality", "encode_batch"]


@dataclass(frozen=True)
class SeriesOf:
    """What a sample is of; `labels` is name, value, name, value ..."""

    labels: tuple[str, ...]
    unit: str
    kind: int
    temporality: int


@dataclass(frozen=True)
class Sample:
    """One value at the end of a cell."""

    series: SeriesOf
    value: float | Histogram


def encode_batch(source: bytes, sequence: int, end_ns: int, width_ms: int, samples: Sequence[Sample]) -> bytes:
    """Encodes samples of cells that end at `end_ns` since 1970."""
    builder = flatbuffers.Builder(4096)
    declared = [_series(builder, sample.series, width_ms) for sample in samples]
    series = _tables(builder, declared)
    floats = [at for at, sample in enumerate(samples) if not isinstance(sample.value, Histogram)]
    cells = [at for at, sample in enumerate(samples) if isinstance(sample.value, Histogram)]
    float_table = _floats(builder, floats, end_ns, samples) if floats else 0
    cell_table = _cells(builder, cells, end_ns, samples) if cells else 0
    schemes = 0
    if cells:
        Scheme.SchemeStart(builder)
        schemes = _tables(builder, [Scheme.SchemeEnd(builder)])
    low, high = struct.unpack("<QQ", source)
    Batch.BatchStart(builder)
    Batch.BatchAddSourceLow(builder, low)
    Batch.BatchAddSourceHigh(builder, high)
    Batch.BatchAddSequence(builder, sequence)
    Batch.BatchAddSeries(builder, series)
    if floats:
        Batch.BatchAddFloats(builder, float_table)
    if cells:
        Batch.BatchAddSchemes(builder, schemes)
        Batch.BatchAddHistograms(builder, cell_table)
    builder.Finish(Batch.BatchEnd(builder))
    return _framed(bytes(builder.Output()))


def _series(builder: flatbuffers.Builder, series: SeriesOf, width_ms: int) -> int:
    labels = _tables(builder, [builder.CreateSharedString(label) for label in series.labels])
    unit = builder.CreateSharedString(series.unit)
    Series.SeriesStart(builder)
    Series.SeriesAddLabels(builder, labels)
    Series.SeriesAddUnit(builder, unit)
    Series.SeriesAddWidthMs(builder, width_ms)
    Series.SeriesAddKind(builder, series.kind)
    Series.SeriesAddTemporality(builder, series.temporality)
    return Series.SeriesEnd(builder)


def _floats(builder: flatbuffers.Builder, at: list[int], end_ns: int, samples: Sequence[Sample]) -> int:
    series = _vector(builder, 4, builder.PrependUint32, at)
    times = _vector(builder, 8, builder.PrependInt64, [end_ns] * len(at))
    values = _vector(builder, 8, builder.PrependFloat64, [float(samples[place].value) for place in at])
    Floats.FloatsStart(builder)
    Floats.FloatsAddSeries(builder, series)
    Floats.FloatsAddTimeNs(builder, times)
    Floats.FloatsAddValue(builder, values)
    return Floats.FloatsEnd(builder)


def _cells(builder: flatbuffers.Builder, at: list[int], end_ns: int, samples: Sequence[Sample]) -> int:
    bins, ends, flags, exact = bytearray(), [], bytearray(), []
    for place in at:
        cell = samples[place].value
        _append_bins(bins, cell)
        ends.append(len(bins))
        known, extremes = cell.exact_sum, cell.extremes
        flags.append((known is not None) + 6 * (extremes is not None))
        exact.append((known or 0.0, *(extremes or (0.0, 0.0))))
    data = builder.CreateByteVector(bytes(bins))
    bins_end = _vector(builder, 4, builder.PrependUint32, ends)
    sums, least, greatest = (
        _vector(builder, 8, builder.PrependFloat64, [known[which] for known in exact]) for which in range(3)
    )
    known = builder.CreateByteVector(bytes(flags))
    schemes = _vector(builder, 4, builder.PrependUint32, [0] * len(at))
    times = _vector(builder, 8, builder.PrependInt64, [end_ns] * len(at))
    series = _vector(builder, 4, builder.PrependUint32, at)
    Histograms.HistogramsStart(builder)
    Histograms.HistogramsAddSeries(builder, series)
    Histograms.HistogramsAddTimeNs(builder, times)
    Histograms.HistogramsAddScheme(builder, schemes)
    Histograms.HistogramsAddFlags(builder, known)
    Histograms.HistogramsAddSum(builder, sums)
    Histograms.HistogramsAddMin(builder, least)
    Histograms.HistogramsAddMax(builder, greatest)
    Histograms.HistogramsAddBinsEnd(builder, bins_end)
    Histograms.HistogramsAddBins(builder, data)
    return Histograms.HistogramsEnd(builder)


def _tables(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    return _vector(builder, 4, builder.PrependUOffsetTRelative, offsets)


def _vector(builder: flatbuffers.Builder, size: int, prepend: Callable, values: Sequence) -> int:
    builder.StartVector(size, len(values), size)
    for value in reversed(values):
        prepend(value)
    return builder.EndVector()


def _append_bins(to: bytearray, cell: Histogram) -> None:
    """The varints of one histogram's bins."""
    zero, negative, positive = 0, [], []
    for found, count in cell.bins():
        if found.val == 0:
            zero = count
        elif found != NAN_BIN:
            index = (found.exp + 128) * 90 + abs(found.val) - 10
            (positive if found.val > 0 else negative).append((index, count))
    _varint(to, zero)
    _varint(to, cell.nan)
    for side in (negative[::-1], positive):
        _varint(to, len(side))
        last = 0
        for index, count in side:
            distance = index - last
            _varint(to, -2 * distance - 1 if distance < 0 else 2 * distance)
            _varint(to, count)
            last = index


def _varint(to: bytearray, value: int) -> None:
    while value > 127:
        to.append(value & 127 | 128)
        value >>= 7
    to.append(value)


def _castagnoli() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 if byte & 1 else byte >> 1
        table.append(byte)
    return table


_CASTAGNOLI = _castagnoli()


def crc32c(data: bytes) -> int:
    """CRC32C (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CASTAGNOLI[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _framed(message: bytes) -> bytes:
    head = b"OGVF" + struct.pack("<HHI", 1, 0, len(message))
    return head + struct.pack("<I", crc32c(head + message)) + message
