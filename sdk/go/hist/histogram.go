package hist

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// entry is a filled bin.
type entry struct {
	key   key
	count uint64
}

// Histogram is a set of counted bins with what is known exactly beside them. The zero value is empty and ready to use. It is
// not safe for concurrent use; [Recorder] is.
type Histogram struct {
	entries   []entry // ascending by key, without zero counts
	sum       float64
	min       float64
	max       float64
	sumKnown  bool // sum is that of the samples
	endsKnown bool // min and max are the least and the greatest sample
}

// Record counts one sample.
func (h *Histogram) Record(value float64) { h.RecordN(value, 1) }

// RecordN counts a sample n times. Counts saturate at 2^64-1.
func (h *Histogram) RecordN(value float64, n uint64) {
	if n == 0 {
		return
	}
	bin := BinOf(value)
	if bin != NaNBin {
		h.join(&Histogram{sum: value * float64(n), min: value, max: value, sumKnown: true, endsKnown: true})
	}
	h.add(bin.key(), n)
}

// RecordBin counts n samples of a bin. Sum, minimum and maximum are then not known.
func (h *Histogram) RecordBin(bin Bin, n uint64) {
	if n == 0 || !bin.Valid() {
		return
	}
	if bin != NaNBin {
		h.forget()
	}
	h.add(bin.key(), n)
}

// join adds what is known of others beside their bins, before their bins are added.
func (h *Histogram) join(other *Histogram) {
	if len(h.real()) == 0 {
		h.sum, h.min, h.max, h.sumKnown, h.endsKnown = other.sum, other.min, other.max, other.sumKnown, other.endsKnown
		return
	}
	h.sum += other.sum
	h.min, h.max = math.Min(h.min, other.min), math.Max(h.max, other.max)
	h.sumKnown, h.endsKnown = h.sumKnown && other.sumKnown, h.endsKnown && other.endsKnown
}

// forget says that sum, minimum and maximum are not known any more.
func (h *Histogram) forget() { h.sumKnown, h.endsKnown = false, false }

func (h *Histogram) add(k key, n uint64) {
	at, found := h.find(k)
	if found {
		h.entries[at].count = saturating(h.entries[at].count, n)
		return
	}
	h.entries = slices.Insert(h.entries, at, entry{k, n})
}

func (h *Histogram) find(k key) (int, bool) {
	at := sort.Search(len(h.entries), func(i int) bool { return h.entries[i].key >= k })
	return at, at < len(h.entries) && h.entries[at].key == k
}

func saturating(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// Count returns the number of samples, those that are not numbers included. It saturates at 2^64-1.
func (h *Histogram) Count() uint64 {
	var total uint64
	for _, e := range h.entries {
		total = saturating(total, e.count)
	}
	return total
}

// Real returns the number of samples that are numbers.
func (h *Histogram) Real() uint64 {
	var total uint64
	for _, e := range h.real() {
		total = saturating(total, e.count)
	}
	return total
}

// NaN returns the number of samples that are not numbers, infinite, or not below 1e128.
func (h *Histogram) NaN() uint64 {
	if len(h.entries) > 0 && h.entries[0].key == nanKey {
		return h.entries[0].count
	}
	return 0
}

func (h *Histogram) real() []entry {
	if len(h.entries) > 0 && h.entries[0].key == nanKey {
		return h.entries[1:]
	}
	return h.entries
}

// ExactSum returns the sum of the samples where it is known exactly.
func (h *Histogram) ExactSum() (sum float64, known bool) {
	return h.sum, h.sumKnown && len(h.real()) > 0
}

// Extremes returns the least and the greatest sample where they are known.
func (h *Histogram) Extremes() (least, greatest float64, known bool) {
	return h.min, h.max, h.endsKnown && len(h.real()) > 0
}

// Bins yields the filled bins with their counts: NaN, then ascending on the real axis.
func (h *Histogram) Bins() iter.Seq2[Bin, uint64] {
	return func(yield func(Bin, uint64) bool) {
		for _, e := range h.entries {
			if !yield(e.key.bin(), e.count) {
				return
			}
		}
	}
}

// Clone returns an independent copy.
func (h *Histogram) Clone() *Histogram {
	copied := *h
	copied.entries = slices.Clone(h.entries)
	return &copied
}

// Reset makes the histogram empty and keeps its memory.
func (h *Histogram) Reset() { *h = Histogram{entries: h.entries[:0]} }

// Merge adds the samples of another histogram. Bins merge exactly; counts saturate at 2^64-1.
func (h *Histogram) Merge(other *Histogram) {
	if len(other.real()) > 0 {
		h.join(other)
	}
	// Bins that both have are added where they are; then those that are missing are put in from the end, if there are any.
	missing, at := 0, 0
	for _, e := range other.entries {
		for at < len(h.entries) && h.entries[at].key < e.key {
			at++
		}
		if at < len(h.entries) && h.entries[at].key == e.key {
			h.entries[at].count = saturating(h.entries[at].count, e.count)
		} else {
			missing++
		}
	}
	if missing > 0 {
		h.insert(other.entries, missing)
	}
}

// insert puts those entries in whose bins are missing here, as many as missing says.
func (h *Histogram) insert(entries []entry, missing int) {
	from := len(h.entries)
	h.entries = slices.Grow(h.entries, missing)[:from+missing]
	for at := len(entries) - 1; missing > 0; at-- {
		for from > 0 && h.entries[from-1].key > entries[at].key {
			from--
			h.entries[from+missing] = h.entries[from]
		}
		if from == 0 || h.entries[from-1].key < entries[at].key {
			missing--
			h.entries[from+missing] = entries[at]
		}
	}
}

// Subtract takes the samples of another histogram away and returns how many bins held fewer than were to be taken; those
// are left empty. Sum, minimum and maximum are then not known.
func (h *Histogram) Subtract(other *Histogram) (short int) {
	for _, taken := range other.entries {
		at, found := h.find(taken.key)
		switch {
		case !found:
			short++
		case h.entries[at].count < taken.count:
			short++
			h.entries[at].count = 0
		default:
			h.entries[at].count -= taken.count
		}
	}
	h.compact()
	if len(other.real()) > 0 {
		h.forget()
	}
	return short
}

func (h *Histogram) compact() {
	h.entries = slices.DeleteFunc(h.entries, func(e entry) bool { return e.count == 0 })
}

// Equal reports whether both hold the same counts in the same bins.
func (h *Histogram) Equal(other *Histogram) bool { return slices.Equal(h.entries, other.entries) }
