// Package hist holds Ogive's histogram: the LogLinear10 scheme of OpenHistogram by the rule that docs/formats/openhistogram.md
// writes down, with exact merges, quantiles with bounds, the binary and base64 forms, and recorders for hot paths.
package hist

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bin is a bin of the scheme as its byte form holds it. Val is ten times the mantissa of the edge nearer zero, with the
// sign: 10 to 99 and -99 to -10; (0, 0) is the zero bin and (-1, 0) the NaN bin.
type Bin struct {
	Val int8
	Exp int8
}

// ZeroBin holds what is nearer zero than 1e-128, NaNBin what is not a number, infinite, or not below 1e128.
var (
	ZeroBin = Bin{}
	NaNBin  = Bin{Val: -1}
)

// slack is what a scaled mantissa may lack and still belong to the bin above: 0.3 is stored below 0.3 and belongs to 30.
const slack = 1e-13

// powers holds the doubles nearest to 1e-128 up to 1e128.
var powers = func() (table [257]float64) {
	for i := range table {
		table[i], _ = strconv.ParseFloat("1e"+strconv.Itoa(i-128), 64)
	}
	return table
}()

func power(exponent int) float64 { return powers[exponent+128] }

// BinOf returns the bin of a double. Only comparison, division, multiplication and addition are used, each rounded once, so
// that the bin is the same on every machine.
func BinOf(value float64) Bin {
	magnitude := math.Abs(value)
	if !(magnitude < powers[256]) {
		return NaNBin
	}
	if magnitude < powers[0] {
		return ZeroBin
	}
	exponent := decade(magnitude)
	// The conversions forbid a fused multiply-add, which would round once where the rule rounds twice.
	scaled := float64(float64(magnitude/power(exponent)) * 10)
	mantissa := int(float64(scaled + slack))
	if mantissa == 100 {
		mantissa = 10
		exponent++
		if exponent > 127 {
			return NaNBin
		}
	}
	return signed(mantissa, exponent, value < 0)
}

// decade returns the greatest e with 10^e <= magnitude, for 1e-128 <= magnitude < 1e128.
func decade(magnitude float64) int {
	binary := int(math.Float64bits(magnitude)>>52) - 1023
	// 78913 / 2^18 is log10(2) less 2e-7: the estimate is the decade of 2^binary, or one below.
	estimate := max((binary*78913)>>18, -128)
	if magnitude >= power(estimate+1) {
		estimate++
	}
	return estimate
}

// BinOfInteger returns the bin of value * 10^scale, in integers throughout: digits below the second are cut off. A duration
// in nanoseconds is (ns, -9). The least int64 counts as the negative of the greatest.
func BinOfInteger(value int64, scale int) Bin {
	digits := uint64(value)
	if value < 0 {
		digits = min(-uint64(value), math.MaxInt64)
	}
	if digits == 0 {
		return ZeroBin
	}
	exponent := int64(scale) + 1
	if digits < 10 {
		digits *= 10
		exponent--
	}
	for digits >= 100 {
		digits /= 10
		exponent++
	}
	switch {
	case exponent < -128:
		return ZeroBin
	case exponent > 127:
		return NaNBin
	}
	return signed(int(digits), int(exponent), value < 0)
}

func signed(mantissa, exponent int, negative bool) Bin {
	if negative {
		mantissa = -mantissa
	}
	return Bin{Val: int8(mantissa), Exp: int8(exponent)}
}

// Valid reports whether the format knows the bin. (0, exp) with an exponent is valid and means the zero bin.
func (b Bin) Valid() bool {
	return b.Val == 0 || b == NaNBin || (b.Val >= 10 && b.Val <= 99) || (b.Val <= -10 && b.Val >= -99)
}

// key orders bins: NaN, then ascending on the real axis, with zero at 0.
type key int16

const nanKey key = math.MinInt16

func (b Bin) key() key {
	switch {
	case b.Val >= 10:
		return key((int(b.Exp)+128)*90 + int(b.Val) - 9)
	case b.Val <= -10:
		return key(-((int(b.Exp)+128)*90 - int(b.Val) - 9))
	case b == NaNBin:
		return nanKey
	}
	return 0
}

func (k key) bin() Bin {
	switch {
	case k == nanKey:
		return NaNBin
	case k == 0:
		return ZeroBin
	}
	index := int(k)
	if k < 0 {
		index = -index
	}
	index--
	return signed(index%90+10, index/90-128, k < 0)
}

// index returns the bin's place within its sign, for k other than zero and NaN: what the native batch calls its index.
func (k key) index() int {
	if k < 0 {
		return -int(k) - 1
	}
	return int(k) - 1
}

// Bounds returns the edges of the bin on the real axis: the doubles nearest to the decimal numbers. Those of the zero bin
// are both 0, those of the NaN bin NaN.
func (b Bin) Bounds() (lo, hi float64) {
	switch {
	case b == NaNBin:
		return math.NaN(), math.NaN()
	case b.Val == 0:
		return 0, 0
	case b.Val > 0:
		return decimal(int(b.Val), int(b.Exp)-1), decimal(int(b.Val)+1, int(b.Exp)-1)
	}
	return -decimal(1-int(b.Val), int(b.Exp)-1), -decimal(-int(b.Val), int(b.Exp)-1)
}

// decimal returns the double nearest to digits * 10^exponent.
func decimal(digits, exponent int) float64 {
	// 10^0 up to 10^22 are exact doubles, so that one rounding remains.
	switch {
	case exponent >= 0 && exponent <= 22:
		return float64(digits) * power(exponent)
	case exponent < 0 && exponent >= -22:
		return float64(digits) / power(-exponent)
	}
	value, _ := strconv.ParseFloat(strconv.Itoa(digits)+"e"+strconv.Itoa(exponent), 64)
	return value
}

// Midpoint returns the harmonic mean of the edges, the value with the least greatest relative error; 0 for the zero bin.
func (b Bin) Midpoint() float64 {
	lo, hi := b.Bounds()
	if lo == hi {
		return 0
	}
	return lo * (2 * hi / (lo + hi))
}

// String returns the bin's label, its edge nearer zero: 1.2e-3, -5.0e-1, 0, NaN.
func (b Bin) String() string {
	switch {
	case b == NaNBin:
		return "NaN"
	case b.Val == 0:
		return "0"
	}
	sign, digits := "", int(b.Val)
	if digits < 0 {
		sign, digits = "-", -digits
	}
	return fmt.Sprintf("%s%d.%de%d", sign, digits/10, digits%10, b.Exp)
}

// ErrLabel is returned for a text that names no bin.
var ErrLabel = errors.New("hist: not a decimal number below 1e128, nor NaN")

// ParseBin reads a label: a decimal number, which is binned, or NaN. 0.0012 and +12e-004 are the same bin.
func ParseBin(label string) (Bin, error) {
	if label == "NaN" {
		return NaNBin, nil
	}
	if strings.Trim(label, "0123456789+-.eE") != "" {
		return Bin{}, fmt.Errorf("%w: %q", ErrLabel, label)
	}
	value, err := strconv.ParseFloat(label, 64)
	bin := BinOf(value)
	if err != nil && !errors.Is(err, strconv.ErrRange) || bin == NaNBin {
		return Bin{}, fmt.Errorf("%w: %q", ErrLabel, label)
	}
	return bin, nil
}
