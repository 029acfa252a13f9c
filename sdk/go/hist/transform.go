package hist

import "math"

// Remove takes up to n samples of the bin of value away and returns how many it took.
func (h *Histogram) Remove(value float64, n uint64) uint64 {
	at, found := h.find(BinOf(value).key())
	if !found || n == 0 {
		return 0
	}
	removed := min(n, h.entries[at].count)
	h.entries[at].count -= removed
	if h.entries[at].key != nanKey {
		h.forget()
	}
	h.compact()
	return removed
}

// Clamp keeps the bins that touch [lower, upper] and drops the others, the NaN bin included.
func (h *Histogram) Clamp(lower, upper float64) {
	low, high := BinOf(lower).key(), BinOf(upper).key()
	kept := h.entries[:0]
	for _, e := range h.entries {
		lo, hi := e.key.bin().Bounds()
		if e.key == 0 {
			lo, hi = -powers[0], powers[0]
		}
		if e.key != nanKey && (lo <= upper && hi >= lower || e.key == low || e.key == high) {
			kept = append(kept, e)
		}
	}
	h.entries = kept
	h.forget()
}

// CompressBelow makes the histogram coarser near zero: bins with a decimal exponent below the given one go to the zero bin,
// those with it to the whole digit below. With an exponent of 0 or above, NaN goes to the zero bin too, as in OpenHistogram.
func (h *Histogram) CompressBelow(exponent int8) {
	var compressed Histogram
	for _, e := range h.entries {
		bin := e.key.bin()
		switch {
		case bin == NaNBin && exponent < 0, bin == ZeroBin, bin.Exp > exponent && bin != NaNBin:
		case bin == NaNBin, bin.Exp < exponent:
			bin = ZeroBin
		default:
			bin.Val -= bin.Val % 10
		}
		compressed.add(bin.key(), e.count)
	}
	*h = compressed
}

// Placement says where in a bin's stead the samples of a foreign bucket are placed.
type Placement int

// Where the samples of a foreign bucket go.
const (
	PlaceHigh Placement = iota
	PlaceLow
	PlaceMid
	PlaceHarmonicMean
)

// ForeignBucket is a bucket of another scheme, such as a classic Prometheus histogram's, with its own count.
type ForeignBucket struct {
	Count        uint64
	Lower, Upper float64
}

const (
	far     = 1e127
	endless = 1e128
)

// FromBuckets places the samples of foreign buckets into bins. Buckets must ascend. A first or last bucket without an end is
// placed one width of its neighbour from its finite edge.
func FromBuckets(placement Placement, buckets []ForeignBucket) *Histogram {
	placed := &Histogram{}
	var before float64
	for at, bucket := range buckets {
		near, distant := bucket.Lower, bucket.Upper
		if math.Abs(bucket.Lower) > math.Abs(bucket.Upper) || bucket.Upper < 0 {
			near, distant = bucket.Upper, bucket.Lower
		}
		var value float64
		switch {
		case at > 0 && bucket.Upper >= endless:
			value = near + min(before, math.Abs(near))
		case at == 0 && len(buckets) > 2 && bucket.Lower <= -endless:
			value = near - min(math.Abs(buckets[1].Upper-buckets[1].Lower), math.Abs(near))
		default:
			value = place(placement, near, distant)
		}
		placed.RecordBin(BinOf(value), bucket.Count)
		before = math.Abs(distant - near)
	}
	return placed
}

func place(placement Placement, near, distant float64) float64 {
	switch {
	case near == 0 && distant == 0:
		return 0
	case placement == PlaceHigh || placement == PlaceLow:
		switch {
		case math.Abs(near) > far:
			return math.Copysign(endless, near)
		case placement == PlaceHigh && math.Abs(distant) > far:
			return math.Copysign(far, distant)
		case placement == PlaceHigh:
			return distant - math.Copysign(widthAt(distant)/100, distant)
		case near > 0:
			return near + widthAt(near)/100
		}
		return near - widthAt(near)/100
	case placement == PlaceHarmonicMean && near != 0 && distant != 0:
		if near+distant == 0 {
			return 0
		}
		return near * (distant / (near/2 + distant/2))
	}
	return near + (distant-near)/2
}

func widthAt(value float64) float64 {
	bin := BinOf(value)
	if bin.Val == 0 || bin == NaNBin {
		return 1e-127
	}
	return power(int(bin.Exp)) / 10
}
