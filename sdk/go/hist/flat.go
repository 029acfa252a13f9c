package hist

import (
	"math"
	"math/bits"
)

// Flat bins are those that a duration in nanoseconds can fall in: 0 is the zero bin, then the bins of 1 ns and above. The
// leading bits of a number as a double (exponent and seven more) name a cell of 1/128 of it, in which lies one edge at most, so
// that one comparison gives the bin.
const (
	flatBins  = 2048
	flatMask  = flatBins - 1
	flatFirst = (128 - 9) * 90 // index within the scheme of flat bin 1: 1 ns is 1.0e-9 s

	cellBits = 7
	cells    = 64 << cellBits
	// Integers from here on are not all doubles: 104 days.
	exactEnd = 1 << 53
)

// table holds for each cell the edge in it, as the mantissa of a double moved to the top, and in the eleven bits below the flat
// bin that begins there. A cell without an edge has edge 0, which every number reaches.
var table = func() (table [cells]uint64) {
	for exponent := range uint(54) {
		for part := range uint64(1 << cellBits) {
			at := (uint64(exponent+1023)<<cellBits + part) & (cells - 1)
			table[at] = entryOf(exponent, 1<<cellBits|part)
		}
	}
	return table
}()

// entryOf returns the entry of the numbers whose highest bit is that of exponent and whose leading bits are these. They are one
// more than what is counted: a double has no exponent for zero that would name a cell.
func entryOf(exponent uint, leading uint64) uint64 {
	first, last := leading, leading
	if exponent < cellBits {
		// A small number has fewer bits than a cell's name; the cell holds that number alone.
		first, last = leading>>(cellBits-exponent), leading>>(cellBits-exponent)
	} else {
		first = leading << (exponent - cellBits)
		last = first + 1<<(exponent-cellBits) - 1
	}
	below, bin := uint64(flatOf(first-1)), uint64(flatOf(last-1))
	if bin == 0 {
		return flatBins + 1 // 0 has its cell alone: an edge that its mantissa does not reach
	}
	if below == bin {
		return bin
	}
	edge := nextEdge(int(below))
	return (edge+1)<<(63-exponent)<<1 | bin
}

// flatOf returns the flat bin by the rule of integers.
func flatOf(nanoseconds uint64) int {
	if nanoseconds == 0 {
		return 0
	}
	digits, exponent := nanoseconds, 1
	if digits < 10 {
		digits, exponent = digits*10, 0
	}
	for digits >= 100 {
		digits /= 10
		exponent++
	}
	return exponent*90 + int(digits) - 9
}

// nextEdge returns the least number of nanoseconds above a flat bin, or 0 when there is none.
func nextEdge(bin int) uint64 {
	if bin == 0 {
		return 1
	}
	digits, exponent := uint64((bin-1)%90+11), (bin-1)/90
	if exponent == 0 {
		return (digits + 9) / 10
	}
	edge := digits
	for range exponent - 1 {
		high, low := bits.Mul64(edge, 10)
		if high != 0 {
			return 0
		}
		edge = low
	}
	return edge
}

// flatIndex returns the flat bin of a number of nanoseconds, below flatBins.
func flatIndex(nanoseconds uint64) uint64 {
	if nanoseconds >= exactEnd {
		// The bin of a millionth of it, six decades up: both have the same leading digits, cut off at the same place.
		return nearIndex(nanoseconds/1_000_000) + 6*90
	}
	return nearIndex(nanoseconds)
}

// nearIndex returns the flat bin of a number below exactEnd. The compiler inlines it.
func nearIndex(nanoseconds uint64) uint64 {
	number := math.Float64bits(float64(int64(nanoseconds + 1)))
	entry := table[number>>(52-cellBits)%cells]
	// With its lowest bits set, a number that reaches the edge is not below the entry, whatever bin stands in it.
	_, short := bits.Sub64(number<<12|flatMask, entry, 0)
	bin, _ := bits.Sub64(entry, 0, short)
	return bin & flatMask
}

// keyOfFlat returns the histogram's key of a flat bin.
func keyOfFlat(bin int) key {
	if bin == 0 {
		return 0
	}
	return key(flatFirst + bin)
}
