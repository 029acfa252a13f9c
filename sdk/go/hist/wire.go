package hist

import "encoding/binary"

// AppendBatchBins appends the bins as a native batch holds them (docs/formats/batch.md, "Bins of one histogram"): varints of
// the zero and NaN counts, then for each sign the number of bins, and for each bin the zig-zag distance of its index and its count.
func (h *Histogram) AppendBatchBins(to []byte) []byte {
	real := h.real()
	below := 0
	for below < len(real) && real[below].key < 0 {
		below++
	}
	positive := real[below:]
	var zero uint64
	if len(positive) > 0 && positive[0].key == 0 {
		zero, positive = positive[0].count, positive[1:]
	}
	to = binary.AppendUvarint(to, zero)
	to = binary.AppendUvarint(to, h.NaN())
	to = binary.AppendUvarint(to, uint64(below))
	last := 0
	for at := below - 1; at >= 0; at-- {
		to = binary.AppendVarint(to, int64(real[at].key.index()-last))
		to = binary.AppendUvarint(to, real[at].count)
		last = real[at].key.index()
	}
	to = binary.AppendUvarint(to, uint64(len(positive)))
	last = 0
	for _, e := range positive {
		to = binary.AppendVarint(to, int64(e.key.index()-last))
		to = binary.AppendUvarint(to, e.count)
		last = e.key.index()
	}
	return to
}
