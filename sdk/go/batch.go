package ogive

import (
	"encoding/binary"
	"hash/crc32"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/ogive-monitoring/ogive/sdk/go/hist"
	"github.com/ogive-monitoring/ogive/sdk/go/internal/wire"
)

// frameBytesMax is the most that a server takes in one frame.
const frameBytesMax = 32 << 20

// sample is one value of a series at the end of a cell.
type sample struct {
	series *series
	float  float64
	cell   *hist.Histogram // nil for a float
}

// encodeBatch makes the frame of docs/formats/batch.md: every series declared, all samples at one time.
func encodeBatch(source [16]byte, sequence uint64, endNanoseconds int64, widthMilliseconds uint32, samples []sample) []byte {
	b := flatbuffers.NewBuilder(1 << 12)
	declared := make([]flatbuffers.UOffsetT, len(samples))
	for at, s := range samples {
		declared[at] = encodeSeries(b, s.series, widthMilliseconds)
	}
	series := b.CreateVectorOfTables(declared)
	var floats, cells []int
	for at, s := range samples {
		if s.cell == nil {
			floats = append(floats, at)
		} else {
			cells = append(cells, at)
		}
	}
	var floatTable, cellTable, schemes flatbuffers.UOffsetT
	if len(floats) > 0 {
		floatTable = encodeFloats(b, floats, endNanoseconds, samples)
	}
	if len(cells) > 0 {
		cellTable = encodeCells(b, cells, endNanoseconds, samples)
		wire.SchemeStart(b)
		wire.SchemeAddKind(b, wire.SchemeKindLogLinear10)
		schemes = b.CreateVectorOfTables([]flatbuffers.UOffsetT{wire.SchemeEnd(b)})
	}
	wire.BatchStart(b)
	wire.BatchAddSourceLow(b, binary.LittleEndian.Uint64(source[:8]))
	wire.BatchAddSourceHigh(b, binary.LittleEndian.Uint64(source[8:]))
	wire.BatchAddSequence(b, sequence)
	wire.BatchAddSeries(b, series)
	if len(cells) > 0 {
		wire.BatchAddSchemes(b, schemes)
		wire.BatchAddHistograms(b, cellTable)
	}
	if len(floats) > 0 {
		wire.BatchAddFloats(b, floatTable)
	}
	b.Finish(wire.BatchEnd(b))
	return frame(b.FinishedBytes())
}

func frame(message []byte) []byte {
	framed := make([]byte, 0, 16+len(message))
	framed = append(framed, "OGVF"...)
	framed = binary.LittleEndian.AppendUint16(framed, 1)
	framed = binary.LittleEndian.AppendUint16(framed, 0)
	framed = binary.LittleEndian.AppendUint32(framed, uint32(len(message)))
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(framed, table), table, message)
	framed = binary.LittleEndian.AppendUint32(framed, sum)
	return append(framed, message...)
}

func encodeSeries(b *flatbuffers.Builder, s *series, width uint32) flatbuffers.UOffsetT {
	texts := make([]flatbuffers.UOffsetT, len(s.labels))
	for at, text := range s.labels {
		texts[at] = b.CreateSharedString(text)
	}
	labels := b.CreateVectorOfTables(texts)
	unit := b.CreateSharedString(s.unit)
	wire.SeriesStart(b)
	wire.SeriesAddLabels(b, labels)
	wire.SeriesAddUnit(b, unit)
	wire.SeriesAddWidthMs(b, width)
	wire.SeriesAddKind(b, s.kind)
	wire.SeriesAddTemporality(b, s.temporality)
	return wire.SeriesEnd(b)
}

// encodeFloats writes samples that are floats; at numbers them within samples, and so names their series.
func encodeFloats(b *flatbuffers.Builder, at []int, end int64, samples []sample) flatbuffers.UOffsetT {
	series := vector(b, len(at), 4, func(n int) { b.PrependUint32(uint32(at[n])) })
	times := vector(b, len(at), 8, func(int) { b.PrependInt64(end) })
	values := vector(b, len(at), 8, func(n int) { b.PrependFloat64(samples[at[n]].float) })
	wire.FloatsStart(b)
	wire.FloatsAddSeries(b, series)
	wire.FloatsAddTimeNs(b, times)
	wire.FloatsAddValue(b, values)
	return wire.FloatsEnd(b)
}

func encodeCells(b *flatbuffers.Builder, at []int, end int64, samples []sample) flatbuffers.UOffsetT {
	var bins []byte
	ends, flags := make([]uint32, len(at)), make([]byte, len(at))
	exact := make([][3]float64, len(at))
	for n, place := range at {
		cell := samples[place].cell
		bins = cell.AppendBatchBins(bins)
		ends[n] = uint32(len(bins))
		if sum, known := cell.ExactSum(); known {
			flags[n], exact[n][0] = 1, sum
		}
		if least, greatest, known := cell.Extremes(); known {
			flags[n], exact[n][1], exact[n][2] = flags[n]|6, least, greatest
		}
	}
	data := b.CreateByteVector(bins)
	binsEnd := vector(b, len(at), 4, func(n int) { b.PrependUint32(ends[n]) })
	maxima := vector(b, len(at), 8, func(n int) { b.PrependFloat64(exact[n][2]) })
	minima := vector(b, len(at), 8, func(n int) { b.PrependFloat64(exact[n][1]) })
	sums := vector(b, len(at), 8, func(n int) { b.PrependFloat64(exact[n][0]) })
	known := b.CreateByteVector(flags)
	schemes := vector(b, len(at), 4, func(int) { b.PrependUint32(0) })
	times := vector(b, len(at), 8, func(int) { b.PrependInt64(end) })
	series := vector(b, len(at), 4, func(n int) { b.PrependUint32(uint32(at[n])) })
	wire.HistogramsStart(b)
	wire.HistogramsAddSeries(b, series)
	wire.HistogramsAddTimeNs(b, times)
	wire.HistogramsAddScheme(b, schemes)
	wire.HistogramsAddFlags(b, known)
	wire.HistogramsAddSum(b, sums)
	wire.HistogramsAddMin(b, minima)
	wire.HistogramsAddMax(b, maxima)
	wire.HistogramsAddBinsEnd(b, binsEnd)
	wire.HistogramsAddBins(b, data)
	return wire.HistogramsEnd(b)
}

// vector writes a vector, whose last element comes first.
func vector(b *flatbuffers.Builder, length, size int, prepend func(n int)) flatbuffers.UOffsetT {
	b.StartVector(size, length, size)
	for n := length - 1; n >= 0; n-- {
		prepend(n)
	}
	return b.EndVector(length)
}
