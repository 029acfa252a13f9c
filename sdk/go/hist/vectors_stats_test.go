package hist

import (
	"fmt"
	"math"
	"math/big"
)

// statistics checks one histogram's statistics. What is authoritative is in docs/formats/openhistogram.md.
func statistics(_ string, r record) error {
	bins := binsIn(r["bins"])
	h := histogramOf(bins)
	return first(same("sample count", h.Count(), countIn(r["sample_count"])),
		moments(h, r), quantiles(h, r), fractions(h, bins, r), counts(h, bins, r))
}

func moments(h *Histogram, r record) error {
	size := func(k float64) (sum float64) {
		for _, e := range h.real() {
			sum += math.Pow(math.Abs(e.key.bin().Midpoint()), k) * float64(e.count)
		}
		return sum
	}
	total, deviation := h.total(), number(r["ref_stddev"])
	errs := []error{
		about("mean", h.Mean(), number(r["ref_mean"]), 1e-13*size(1)/total),
		about("sum", h.Sum(), number(r["sum"]), 1e-13*size(1)),
		about("stddev", h.StdDev(), deviation, 1e-12*deviation),
	}
	for at, expected := range r["moment"].([]any) {
		k, moment := float64(at+1), h.OpenHistogramMoment(at+1)
		if wanted := number(expected); math.IsNaN(wanted) || math.IsInf(wanted, 0) {
			errs = append(errs, same("moment is finite", math.IsNaN(moment) || math.IsInf(moment, 0), true))
		} else {
			errs = append(errs, about("moment", moment, wanted, 1e-12*size(k)/math.Pow(total, k)))
		}
	}
	return first(errs...)
}

func quantiles(h *Histogram, r record) error {
	for kind, find := range map[string]func(float64) float64{"quantile1": h.QuantileType1, "quantile7": h.QuantileType7} {
		if r[kind+"_rc"].(float64) != 0 {
			continue
		}
		for at, expected := range r[kind].([]any) {
			q, wanted := number(r["q"].([]any)[at]), number(expected)
			if err := about(fmt.Sprint(kind, " ", q), find(q), wanted, 1e-13*math.Abs(wanted)); err != nil {
				return err
			}
			found, some := h.Quantile(q)
			if some && !(found.Lo <= found.Value && found.Value <= found.Hi) {
				return fmt.Errorf("quantile %g lies outside its bounds: %v", q, found)
			}
		}
	}
	return nil
}

func fractions(h *Histogram, bins []counted, r record) error {
	if r["inverse_quantile_rc"].(float64) != 0 || wraps(bins) {
		return nil
	}
	for at, expected := range r["inverse_quantile"].([]any) {
		x := number(r["threshold"].([]any)[at])
		if err := about(fmt.Sprint("fraction below ", x), h.FractionBelow(x), number(expected), 1e-12); err != nil {
			return err
		}
	}
	return nil
}

// wraps reports whether the library's total of 64 bits wrapped around.
func wraps(bins []counted) bool {
	total := new(big.Int)
	for _, b := range bins {
		total.Add(total, new(big.Int).SetUint64(b.Count))
	}
	return !total.IsUint64()
}

func counts(h *Histogram, bins []counted, r record) error {
	answers := r["count"].(map[string]any)
	for at, threshold := range r["threshold"].([]any) {
		x := number(threshold)
		for _, kind := range []struct {
			name  string
			found uint64
			nan   uint64
		}{
			{"below", h.CountBelow(x), 0},
			{"below_inclusive", h.CountBelow(x), 0},
			{"below_exclusive", h.CountBelowExclusive(x), 0},
			{"above", h.CountAbove(x), h.NaN()},
			{"above_inclusive", h.CountAbove(x), h.NaN()},
			{"above_exclusive", h.CountAboveExclusive(x), h.NaN()},
		} {
			// The library wraps around, and takes a threshold of 1e128 or more for NaN.
			if wraps(bins) || math.Abs(x) >= 1e128 {
				continue
			}
			found, library := saturating(kind.found, kind.nan), countIn(answers[kind.name].([]any)[at])
			if err := same(fmt.Sprint(kind.name, " ", x), found, library); err != nil {
				return err
			}
		}
		// The bins decide what is near: the library compares doubles that are a rounding off.
		var near uint64
		for _, b := range canonical(bins) {
			if b.Bin == rule(x) && b.Bin != NaNBin {
				near = b.Count
			}
		}
		if err := same(fmt.Sprint("near ", x), h.CountNearby(x), near); err != nil {
			return err
		}
	}
	return nil
}
