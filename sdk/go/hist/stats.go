package hist

import "math"

// Quantile is an estimate with what is certain about it: the sample of its rank lies between Lo and Hi.
type Quantile struct {
	Value, Lo, Hi float64
}

// Quantile returns the q quantile, 0 <= q <= 1: an estimate of the sample of rank max(1, ceil(q * n)) and the edges between
// which it lies, narrowed by the exact minimum and maximum where they are known. The last result is false when there are no
// samples or q is outside.
func (h *Histogram) Quantile(q float64) (Quantile, bool) {
	total := h.total()
	if !(q >= 0 && q <= 1) || total == 0 {
		return Quantile{}, false
	}
	rank := q * total
	// A rounding of q * n (0.07 * 100 is 7.000000000000001) must not move the answer to the next sample.
	if nearest := math.Round(rank); math.Abs(rank-nearest) <= nearest*0x1p-51 {
		rank = nearest
	}
	rank = min(max(math.Ceil(rank), 1), total)
	lo, hi, below, count := h.walk(rank)
	if least, greatest, known := h.Extremes(); known {
		if lo <= greatest && greatest <= hi {
			hi = greatest
		}
		if lo <= least && least <= hi {
			lo = least
		}
		switch {
		case rank >= total && hi == greatest:
			lo = hi
		case rank <= 1 && lo == least:
			hi = lo
		}
	}
	value := lo + (hi-lo)*min(max((rank-below)/(count+1), 0), 1)
	return Quantile{Value: min(max(value, lo), hi), Lo: lo, Hi: hi}, true
}

// walk returns the edges of the bin at whose end at least rank samples have passed, the samples below it and in it.
func (h *Histogram) walk(rank float64) (lo, hi, below, count float64) {
	real := h.real()
	var passed float64
	for at, e := range real {
		if passed+float64(e.count) >= rank || at == len(real)-1 {
			lo, hi = e.key.bin().Bounds()
			return lo, hi, passed, float64(e.count)
		}
		passed += float64(e.count)
	}
	return math.NaN(), math.NaN(), 0, 0
}

func (h *Histogram) total() (total float64) {
	for _, e := range h.real() {
		total += float64(e.count)
	}
	return total
}

// QuantileType1 is OpenHistogram's default quantile: the k-th of c samples of a bin stands at left + k/(c+1) of its width.
// NaN when there are no samples or q is outside 0 to 1.
func (h *Histogram) QuantileType1(q float64) float64 {
	if !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	return h.spread(h.total() * q)
}

// QuantileType7 is OpenHistogram's type 7: as type 1, for the sample of rank floor((n-1) * q + 1).
func (h *Histogram) QuantileType7(q float64) float64 {
	if !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	return h.spread(math.Floor((h.total()-1)*q + 1))
}

func (h *Histogram) spread(rank float64) float64 {
	if len(h.real()) == 0 {
		return math.NaN()
	}
	lo, hi, below, count := h.walk(rank)
	return lo + (hi-lo)*(max(math.Ceil(rank-below), 1)/(count+1))
}

// FractionBelow returns the share of samples below x, linear inside the bin that holds it. NaN without samples.
func (h *Histogram) FractionBelow(x float64) float64 {
	total := h.total()
	if math.IsNaN(x) || total == 0 {
		return math.NaN()
	}
	var below float64
	for _, e := range h.real() {
		lo, hi := e.key.bin().Bounds()
		if e.key == 0 {
			hi = powers[0]
		}
		switch {
		case x >= hi:
			below += float64(e.count)
			continue
		case x > lo && e.key != 0:
			below += float64(e.count) * ((x - lo) / (hi - lo))
		}
		break
	}
	return min(below/total, 1)
}

// CountBelow returns the samples in the bins up to and with that of x.
func (h *Histogram) CountBelow(x float64) uint64 {
	return h.where(x, func(k, at int) bool { return k <= at })
}

// CountBelowExclusive returns the samples in the bins below that of x.
func (h *Histogram) CountBelowExclusive(x float64) uint64 {
	return h.where(x, func(k, at int) bool { return k < at })
}

// CountAbove returns the samples in the bins from that of x upwards. Samples in the NaN bin are not above anything.
func (h *Histogram) CountAbove(x float64) uint64 {
	return h.where(x, func(k, at int) bool { return k >= at })
}

// CountAboveExclusive returns the samples in the bins above that of x.
func (h *Histogram) CountAboveExclusive(x float64) uint64 {
	return h.where(x, func(k, at int) bool { return k > at })
}

// CountNearby returns the samples in the bin of x.
func (h *Histogram) CountNearby(x float64) uint64 {
	return h.where(x, func(k, at int) bool { return k == at })
}

func (h *Histogram) where(x float64, wanted func(k, at int) bool) (total uint64) {
	bin := BinOf(x)
	at := int(bin.key())
	switch {
	case math.IsNaN(x):
		return 0
	case bin == NaNBin:
		at = int(math.Copysign(math.MaxInt16, x))
	}
	for _, e := range h.real() {
		if wanted(int(e.key), at) {
			total = saturating(total, e.count)
		}
	}
	return total
}

// Sum returns the exact sum where it is known, else that of the bins' midpoints.
func (h *Histogram) Sum() float64 {
	if sum, known := h.ExactSum(); known {
		return sum
	}
	var sum compensated
	for _, e := range h.real() {
		sum.add(e.key.bin().Midpoint() * float64(e.count))
	}
	return sum.value()
}

// Mean returns the mean: exact where the sum is known, else of the midpoints. NaN without samples.
func (h *Histogram) Mean() float64 {
	if sum, known := h.ExactSum(); known {
		return sum / h.total()
	}
	return h.meanOfBins()
}

func (h *Histogram) meanOfBins() float64 {
	total := h.total()
	if total == 0 {
		return math.NaN()
	}
	var mean compensated
	for _, e := range h.real() {
		mean.add(e.key.bin().Midpoint() * (float64(e.count) / total))
	}
	return mean.value()
}

// StdDev returns the standard deviation of the midpoints around their mean, in two passes. NaN without samples.
func (h *Histogram) StdDev() float64 {
	total, mean := h.total(), h.meanOfBins()
	if total == 0 {
		return math.NaN()
	}
	// The greatest deviation scales the squares, so that they neither overflow nor vanish.
	var scale float64
	for _, e := range h.real() {
		scale = max(scale, math.Abs(e.key.bin().Midpoint()-mean))
	}
	if scale == 0 || math.IsInf(scale, 0) {
		return scale
	}
	var squares compensated
	for _, e := range h.real() {
		deviation := (e.key.bin().Midpoint() - mean) / scale
		squares.add(deviation * deviation * (float64(e.count) / total))
	}
	return scale * math.Sqrt(max(squares.value(), 0))
}

// OpenHistogramMoment returns the k-th raw moment as OpenHistogram has it: the sum of midpoint^k * count, divided by n^k
// (a textbook divides by n). NaN without samples.
func (h *Histogram) OpenHistogramMoment(k int) float64 {
	total := h.total()
	if total == 0 {
		return math.NaN()
	}
	var sum float64
	for _, e := range h.real() {
		sum += math.Pow(e.key.bin().Midpoint(), float64(k)) * float64(e.count)
	}
	return sum / math.Pow(total, float64(k))
}

// compensated is a sum that carries its rounding error along (Neumaier).
type compensated struct{ sum, lost float64 }

func (c *compensated) add(term float64) {
	next := c.sum + term
	if math.Abs(c.sum) >= math.Abs(term) {
		c.lost += (c.sum - next) + term
	} else {
		c.lost += (term - next) + c.sum
	}
	c.sum = next
}

func (c *compensated) value() float64 {
	if math.IsInf(c.lost, 0) || math.IsNaN(c.lost) {
		return c.sum
	}
	return c.sum + c.lost
}
