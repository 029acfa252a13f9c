package hist

import (
	"math/bits"
)

// Flat bins are those that a duration in nanoseconds can fall in: 0 is the zero bin, then the bins of 1 ns and above. Cells of
// 1/128 of a value name a table entry; no cell holds more than one edge, so that one comparison gives the bin.
const (
	flatBins  = 2048
	flatFirst = (128 - 9) * 90 // index within the scheme of flat bin 1: 1 ns is 1.0e-9 s
)

// cell holds the least value of the bin above and the bin below it. A cell of more than one bin has one edge at most.
type cell struct {
	edge uint64
	bin  uint64
}

var cells = func() *[64 * 128]cell {
	table := new([64 * 128]cell)
	for at := range table {
		low := cellStart(at)
		bin := flatOf(low)
		table[at] = cell{edge: nextEdge(bin), bin: uint64(bin)}
		if table[at].edge == 0 {
			// No integer is above this bin: every one of the cell is "above" the bin before.
			table[at].bin--
		}
	}
	// The first cell holds 0 and 1, whose bins are neighbours.
	table[0] = cell{edge: 1, bin: 0}
	return table
}()

// cellStart returns the least value of a cell: values below 256 have one each.
func cellStart(at int) uint64 {
	lead, digits := at>>7, uint64(at&127)|128
	if lead < 7 {
		return digits >> (7 - lead)
	}
	return digits << (lead - 7)
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
	lead := uint(bits.Len64(nanoseconds|1)) - 1
	at := lead<<7 | uint(nanoseconds<<(63-lead)>>56)&127
	c := &cells[at&(64*128-1)]
	bin := c.bin
	if nanoseconds >= c.edge {
		bin++
	}
	return bin & (flatBins - 1)
}

// keyOfFlat returns the histogram's key of a flat bin.
func keyOfFlat(bin int) key {
	if bin == 0 {
		return 0
	}
	return key(flatFirst + bin)
}
