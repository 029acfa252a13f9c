package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
)

// ErrHdr is another form than HdrHistogram's version 2, or one that breaks its rules; errors that wrap it say which. One that ends
// too early is [ErrTruncated].
var ErrHdr = errors.New("hist: no HdrHistogram of version 2 that can be read")

// First bytes, without the word size, which has no meaning in version 2.
const (
	hdrPlain      = 0x1c849303
	hdrCompressed = 0x1c849304
	hdrCookieMask = 0xffffff0f
)

const hdrHeaderBytes = 40

// 16 MiB: all 835,584 counts that five digits can have, at nine bytes, twice.
const hdrPlainBytesMax = 16 << 20

// Bins a power of two, as a binary logarithm, by significant decimal digits: 2 * 10^digits steps, rounded up to a power of
// two, half of them.
var hdrGroupings = [...]int{0, 4, 7, 10, 14, 17}

// DecodeHdr reads HdrHistogram's encoding of version 2, plain or compressed, as its libraries in all languages write it
// (docs/formats/hdrhistogram.md). The unit is the value of one recorded unit: 1e-9 makes nanoseconds seconds. Each count
// goes to the bin that holds the middle of its own. Sum, minimum and maximum are not known. A compressed form unfolds to at
// most 16 MiB.
func DecodeHdr(data []byte, unit float64) (*Histogram, error) {
	if hdrCookie(data) == hdrCompressed {
		plain, err := inflateHdr(data)
		if err != nil {
			return nil, err
		}
		data = plain
	}
	grid, err := parseHdrHeader(data, unit)
	if err != nil {
		return nil, err
	}
	payload, rest := binary.BigEndian.Uint32(data[4:]), data[hdrHeaderBytes:]
	if uint64(payload) > uint64(len(rest)) {
		return nil, fmt.Errorf("%w: the counts, %d bytes of %d", ErrTruncated, len(rest), payload)
	}
	return grid.counts(rest[:payload])
}

// DecodeHdrBase64 reads the base64 of what [DecodeHdr] reads: a line of an interval log has it.
func DecodeHdrBase64(text string, unit float64) (*Histogram, error) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBase64, err)
	}
	return DecodeHdr(data, unit)
}

func hdrCookie(data []byte) uint32 {
	if len(data) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(data) & hdrCookieMask
}

// hdrStranger says why a form with these first bytes is not read.
func hdrStranger(data []byte) string {
	switch hdrCookie(data) {
	case 0x1c849301, 0x1c849302, 0x1c849308, 0x1c849309:
		return "the form is of version 0 or 1: encode it with a current HdrHistogram, or import its log with ogive import hdr-log"
	case 0x0c72124e & hdrCookieMask, 0x0c72124f & hdrCookieMask:
		return "the form is a histogram of doubles, and only those of integers are read: import its log with ogive import hdr-log"
	}
	return "the first bytes are others"
}

func inflateHdr(data []byte) ([]byte, error) {
	if len(data) < 8 || uint64(binary.BigEndian.Uint32(data[4:])) > uint64(len(data)-8) {
		return nil, fmt.Errorf("%w: the compressed form, at byte 8 of %d", ErrTruncated, len(data))
	}
	reader, err := zlib.NewReader(bytes.NewReader(data[8 : 8+binary.BigEndian.Uint32(data[4:])]))
	if err != nil {
		return nil, fmt.Errorf("%w: the compressed form: %w", ErrHdr, err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, hdrPlainBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("%w: the compressed form: %w", ErrHdr, err)
	}
	if len(plain) > hdrPlainBytesMax {
		return nil, fmt.Errorf("%w: the compressed form unfolds to more than 16 MiB", ErrHdr)
	}
	return plain, nil
}

// hdrGrid is the bins of a form.
type hdrGrid struct {
	grouping, shift int
	unit            float64
}

func parseHdrHeader(data []byte, unit float64) (hdrGrid, error) {
	if hdrCookie(data) != hdrPlain {
		return hdrGrid{}, fmt.Errorf("%w: %s", ErrHdr, hdrStranger(data))
	}
	if len(data) < hdrHeaderBytes {
		return hdrGrid{}, fmt.Errorf("%w: the header, %d bytes of %d", ErrTruncated, len(data), hdrHeaderBytes)
	}
	digits, least := binary.BigEndian.Uint32(data[12:]), binary.BigEndian.Uint64(data[16:])
	switch {
	case digits >= uint32(len(hdrGroupings)):
		return hdrGrid{}, fmt.Errorf("%w: %d significant digits, and 5 are the most", ErrHdr, digits)
	case least == 0 || least >= 1<<41:
		return hdrGrid{}, fmt.Errorf("%w: the least discernible value is outside 1..2^41", ErrHdr)
	case !(unit >= 1e-100 && unit <= 1e100):
		return hdrGrid{}, fmt.Errorf("%w: the unit %v is outside 1e-100..1e100", ErrHdr, unit)
	}
	return hdrGrid{hdrGroupings[digits], bits.Len64(least) - 1, unit}, nil
}

func (g hdrGrid) counts(payload []byte) (*Histogram, error) {
	histogram, index := new(Histogram), uint64(0)
	last := uint64(63-g.shift-g.grouping)<<g.grouping + 2<<g.grouping - 1
	for at := 0; at < len(payload); {
		count, length := hdrNumber(payload[at:])
		if length == 0 {
			return nil, fmt.Errorf("%w: a count, at byte %d of %d", ErrTruncated, hdrHeaderBytes+at, hdrHeaderBytes+len(payload))
		}
		switch {
		case count < 0:
			index = saturating(index, -uint64(count))
		case count > 0 && index > last:
			return nil, fmt.Errorf("%w: there are more counts than bins, at byte %d", ErrHdr, hdrHeaderBytes+at)
		default:
			if count > 0 {
				histogram.add(g.bin(index).key(), uint64(count))
			}
			index = saturating(index, 1)
		}
		at += length
	}
	return histogram, nil
}

// bin returns the bin of the middle of one of the form, rounded down to a whole unit, as HdrHistogram has it.
func (g hdrGrid) bin(index uint64) Bin {
	if index == 0 {
		return ZeroBin
	}
	exponent := max(int(index>>g.grouping)-1, 0)
	width := math.Ldexp(1, exponent+g.shift)
	units := float64(index-uint64(exponent)<<g.grouping)*width + math.Floor(width/2)
	// Of a unit that is one n-th: 5 units of 1e-3 are 0.005.
	if parts := math.Round(1 / g.unit); parts > 1 && 1/parts == g.unit {
		return BinOf(units / parts)
	}
	return BinOf(units * g.unit)
}

// hdrNumber reads a zig-zag LEB128 number of at most nine bytes, the ninth with eight bits; its length is 0 where it is cut.
func hdrNumber(data []byte) (number int64, length int) {
	var value uint64
	for at, b := range data[:min(len(data), 9)] {
		if at == 8 {
			value |= uint64(b) << 56
		} else {
			value |= uint64(b&0x7f) << (7 * at)
		}
		if at == 8 || b < 0x80 {
			return int64(value>>1) ^ -int64(value&1), at + 1
		}
	}
	return 0, 0
}
