package hist

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestVectors holds every record of the OpenHistogram vectors to the library's answer, or to Ogive's written rule where the
// two differ on purpose (docs/formats/openhistogram.md). OGIVE_VECTORS_DIR names another directory.
func TestVectors(t *testing.T) {
	directory := os.Getenv("OGIVE_VECTORS_DIR")
	if directory == "" {
		directory = "../../../vectors"
	}
	if inner := filepath.Join(directory, "openhistogram"); isDirectory(inner) {
		directory = inner
	}
	files, _ := filepath.Glob(filepath.Join(directory, "*.json"))
	if len(files) == 0 {
		t.Fatalf("%s holds no vectors", directory)
	}
	checkers := map[string]func(string, record) error{
		"adhoc.json": adhoc, "deserialize.json": deserialize, "double_to_bin.json": doubleToBin,
		"intscale_to_bin.json": integerToBin, "merge.json": merge, "serialize.json": serialize,
		"stats.json": statistics, "transform.json": transform,
	}
	passed, failed := 0, 0
	for _, path := range files {
		check, known := checkers[filepath.Base(path)]
		if !known {
			t.Errorf("%s: no test knows this file", path)
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var document map[string]json.RawMessage
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		for _, list := range []string{"records", "records_b64"} {
			var records []record
			if raw, given := document[list]; given {
				if err := json.Unmarshal(raw, &records); err != nil {
					t.Fatal(err)
				}
			}
			for at, r := range records {
				if err := check(list, r); err != nil {
					failed++
					t.Errorf("%s %s[%d]: %v", filepath.Base(path), list, at, err)
					continue
				}
				passed++
			}
		}
	}
	hdrPassed, hdrFailures := checkHdr(hdrFile(os.Getenv("OGIVE_VECTORS_DIR")))
	for _, err := range hdrFailures {
		t.Errorf("HdrHistogram, %v", err)
	}
	fmt.Printf("go: %d passed, %d failed\n", passed+hdrPassed, failed+len(hdrFailures))
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

type record map[string]any

type counted struct {
	Bin   Bin
	Count uint64
}

func binIn(value any) Bin {
	pair := value.([]any)
	return Bin{Val: int8(pair[0].(float64)), Exp: int8(pair[1].(float64))}
}

func countIn(value any) uint64 {
	switch count := value.(type) {
	case string:
		n, err := strconv.ParseUint(count, 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	default:
		return uint64(count.(float64))
	}
}

func binsIn(value any) (bins []counted) {
	for _, item := range value.([]any) {
		bins = append(bins, counted{binIn(item), countIn(item.([]any)[2])})
	}
	return bins
}

func number(value any) float64 {
	if text, ok := value.(string); ok {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	return value.(float64)
}

func histogramOf(bins []counted) *Histogram {
	h := &Histogram{}
	for _, b := range bins {
		h.RecordBin(b.Bin, b.Count)
	}
	return h
}

func binsOf(h *Histogram) (bins []counted) {
	for bin, count := range h.Bins() {
		bins = append(bins, counted{bin, count})
	}
	return bins
}

// canonical adds equal bins up, drops empty ones, and sorts, apart from the code under test.
func canonical(bins []counted) (sorted []counted) {
	order := func(b Bin) int {
		switch {
		case b == NaNBin:
			return math.MinInt32
		case b.Val > 0:
			return 1_000_000 + int(b.Exp)*1000 + int(b.Val)
		case b.Val < 0:
			return -1_000_000 - int(b.Exp)*1000 + int(b.Val)
		}
		return 0
	}
	sums := map[Bin]uint64{}
	for _, b := range bins {
		bin := b.Bin
		if bin.Val == 0 {
			bin.Exp = 0
		}
		sum := sums[bin] + b.Count
		if sum < b.Count {
			sum = math.MaxUint64
		}
		sums[bin] = sum
	}
	for bin, count := range sums {
		if count > 0 {
			sorted = append(sorted, counted{bin, count})
		}
	}
	slices.SortFunc(sorted, func(a, b counted) int { return order(a.Bin) - order(b.Bin) })
	return sorted
}

func same[T any](what string, found, expected T) error {
	if f, e := fmt.Sprint(found), fmt.Sprint(expected); f != e {
		return fmt.Errorf("%s: found %s, expected %s", what, f, e)
	}
	return nil
}

func about(what string, found, expected, tolerance float64) error {
	if found == expected || math.IsNaN(found) && math.IsNaN(expected) || math.Abs(found-expected) <= tolerance {
		return nil
	}
	return fmt.Errorf("%s: found %g, expected %g", what, found, expected)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func doubleToBin(_ string, r record) error {
	bits, err := strconv.ParseUint(r["bits"].(string), 16, 64)
	if err != nil {
		return err
	}
	value := math.Float64frombits(bits)
	library, found := binIn(r["bin"]), BinOf(value)
	if found != library {
		// The library's rounded logarithm loses or lifts what lies within 3e-13 below a power of ten; nothing else may differ.
		if expected := rule(value); found != expected || !justBelowPower(value) {
			return same("bin of "+strconv.FormatFloat(value, 'e', -1, 64), found, expected)
		}
		return nil
	}
	if library == NaNBin {
		return same("label", found.String(), "NaN")
	}
	parsed, err := ParseBin(r["str"].(string))
	lo, hi := library.Bounds()
	near := lo
	if library.Val < 0 {
		near = hi
	}
	return first(err, same("bin of the label", parsed, library),
		about("edge", near, number(r["lo"]), math.Abs(near)*4.5e-16),
		about("width", hi-lo, math.Abs(number(r["width"])), math.Abs(near)*9e-16),
		about("midpoint", library.Midpoint(), number(r["mid"]), math.Abs(near)*9e-16))
}

// rule is the written rule in exact arithmetic, apart from the code under test: the decade by comparison of rationals.
func rule(value float64) Bin {
	magnitude := math.Abs(value)
	if magnitude >= 1e128 {
		return NaNBin
	}
	if magnitude < 1e-128 {
		return ZeroBin
	}
	exact := new(big.Float).SetFloat64(magnitude)
	exponent := 127
	for ; exponent > -128; exponent-- {
		power, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", exponent), 64)
		if new(big.Float).SetFloat64(power).Cmp(exact) <= 0 {
			break
		}
	}
	power, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", exponent), 64)
	quotient := magnitude / power
	scaled := quotient * 10
	slacked := scaled + 1e-13
	mantissa := int(slacked)
	if mantissa == 100 {
		mantissa, exponent = 10, exponent+1
	}
	if exponent > 127 {
		return NaNBin
	}
	if value < 0 {
		mantissa = -mantissa
	}
	return Bin{Val: int8(mantissa), Exp: int8(exponent)}
}

func justBelowPower(value float64) bool {
	magnitude := math.Abs(value)
	for exponent := -128; exponent <= 128; exponent++ {
		power, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", exponent), 64)
		if magnitude < power && magnitude >= power*(1-3e-13) {
			return true
		}
	}
	return false
}

func integerToBin(_ string, r record) error {
	value, err := strconv.ParseInt(r["value"].(string), 10, 64)
	return first(err, same("bin", BinOfInteger(value, int(r["scale"].(float64))), binIn(r["bin"])))
}

func serialize(_ string, r record) error {
	bins := binsIn(r["bins"])
	raw, text := r["hex"], r["b64"]
	if _, defect := r["upstream_defect"]; defect {
		raw, text = r["correct_hex"], r["correct_b64"]
	}
	h := histogramOf(bins)
	data, err := h.MarshalBinary()
	b64, err2 := h.MarshalText()
	back, repairs, err3 := Decode(data)
	return first(err, err2, err3, same("bytes", hex.EncodeToString(data), raw.(string)), same("base64", string(b64), text.(string)),
		same("bins read back", binsOf(back), canonical(bins)), same("repairs", repairs, Repairs{}))
}

func deserialize(list string, r record) error {
	library := int(r["rc"].(float64))
	var read *Histogram
	var repairs Repairs
	var err error
	var data []byte
	if list == "records_b64" {
		read, repairs, err = DecodeBase64(r["b64"].(string))
	} else {
		data, _ = hex.DecodeString(r["hex"].(string))
		read, repairs, err = Decode(data)
	}
	switch {
	case library < 0 && err != nil, library < 0 && repairs.LooseBase64:
		return nil
	case library < 0:
		return fmt.Errorf("read, the library refuses")
	case err != nil:
		return fmt.Errorf("refused (%w), the library reads %d bytes", err, library)
	}
	if data != nil {
		if err := same("bytes consumed", len(data)-repairs.TrailingBytes, library); err != nil {
			return err
		}
	}
	return same("bins", binsOf(read), canonical(binsIn(r["bins"])))
}

func merge(_ string, r record) error {
	h := histogramOf(binsIn(r["a"]))
	short := 0
	for _, other := range r["b"].([]any) {
		switch r["op"] {
		case "accumulate":
			h.Merge(histogramOf(binsIn(other)))
		case "subtract":
			short += h.Subtract(histogramOf(binsIn(other)))
		default:
			return fmt.Errorf("no test knows %v", r["op"])
		}
	}
	if r["op"] == "subtract" {
		if err := same("short", short > 0, r["rc"].(float64) != 0); err != nil {
			return err
		}
	}
	return same("bins", binsOf(h), canonical(binsIn(r["result"])))
}

func transform(_ string, r record) error {
	before := binsIn(r["a"])
	h := histogramOf(before)
	expected := canonical(binsIn(r["result"]))
	switch r["op"] {
	case "compress_mbe":
		h.CompressBelow(int8(r["mbe"].(float64)))
	case "remove":
		removed := h.Remove(number(r["value"]), countIn(r["n"]))
		if err := same("removed", removed, countIn(r["removed"])); err != nil {
			return err
		}
	case "clamp":
		lower, upper := number(r["lower"]), number(r["upper"])
		h.Clamp(lower, upper)
		found := binsOf(h)
		// A bin whose edge meets a bound up to a rounding may be kept or not.
		for _, b := range canonical(before) {
			lo, hi := b.Bin.Bounds()
			meets := math.Abs(lo-upper) <= 1e-15*math.Abs(upper) || math.Abs(hi-lower) <= 1e-15*math.Abs(lower)
			if slices.Contains(found, b) != slices.Contains(expected, b) && !meets {
				return fmt.Errorf("bin %v is kept or dropped against the library", b)
			}
		}
		return nil
	default:
		return fmt.Errorf("no test knows %v", r["op"])
	}
	return same("bins", binsOf(h), expected)
}

func adhoc(_ string, r record) error {
	modes := map[any]Placement{"high": PlaceHigh, "low": PlaceLow, "mid": PlaceMid, "harmonic_mean": PlaceHarmonicMean}
	mode, known := modes[r["mode"]]
	if !known {
		return fmt.Errorf("no test knows mode %v", r["mode"])
	}
	var buckets []ForeignBucket
	for _, item := range r["in"].([]any) {
		bucket := item.([]any)
		buckets = append(buckets, ForeignBucket{countIn(bucket[0]), number(bucket[1]), number(bucket[2])})
	}
	found, expected := binsOf(FromBuckets(mode, buckets)), canonical(binsIn(r["result"]))
	err := same("bins", found, expected)
	if last := len(buckets) - 1; err != nil && last > 0 && buckets[last].Upper >= 1e128 && buckets[last-1].Lower < 0 {
		// The library places a tail behind a bucket below zero outside its own bounds.
		for _, b := range found {
			if lo, _ := b.Bin.Bounds(); lo >= buckets[last].Lower {
				return nil
			}
		}
	}
	return err
}
