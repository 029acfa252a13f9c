package hist

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// BinsMax is the number of bins that there are.
const BinsMax = 2 + 2*90*256

// Errors of the byte form. Wrapped errors name the offset.
var (
	ErrTruncated   = errors.New("hist: the input ends inside a field")
	ErrTooManyBins = errors.New("hist: more than 46082 bins are declared")
	ErrCountWidth  = errors.New("hist: a count is wider than 8 bytes")
	ErrTrailing    = errors.New("hist: bytes are left behind the last bin")
	ErrBase64      = errors.New("hist: not base64")
)

// Repairs says what a reader had to mend: the format has writers that are not canonical.
type Repairs struct {
	InvalidBins    int
	InvalidSamples uint64
	EmptyBins      int
	OddZeroBins    int
	DuplicateBins  int
	UnsortedBins   int
	WideCounts     int
	MissingBins    int
	TrailingBytes  int
	LooseBase64    bool
}

// None reports whether nothing was mended.
func (r Repairs) None() bool { return r == Repairs{} }

// AppendBinary appends the OpenHistogram byte form: canonical, each count in the fewest bytes.
func (h *Histogram) AppendBinary(to []byte) ([]byte, error) {
	to = binary.BigEndian.AppendUint16(to, uint16(len(h.entries)))
	for _, e := range h.entries {
		bin := e.key.bin()
		width := (bits.Len64(e.count)+7)/8 - 1
		to = append(to, byte(bin.Val), byte(bin.Exp), byte(width))
		for at := range width + 1 {
			to = append(to, byte(e.count>>(8*at)))
		}
	}
	return to, nil
}

// MarshalBinary returns the OpenHistogram byte form.
func (h *Histogram) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// MarshalText returns the byte form in base64, with padding.
func (h *Histogram) MarshalText() ([]byte, error) {
	raw, err := h.AppendBinary(nil)
	return base64.StdEncoding.AppendEncode(nil, raw), err
}

// UnmarshalBinary reads the byte form; [Decode] says what it had to mend.
func (h *Histogram) UnmarshalBinary(data []byte) error {
	read, _, err := Decode(data)
	if err == nil {
		*h = *read
	}
	return err
}

// UnmarshalText reads the base64 form; [DecodeBase64] says what it had to mend.
func (h *Histogram) UnmarshalText(text []byte) error {
	read, _, err := DecodeBase64(string(text))
	if err == nil {
		*h = *read
	}
	return err
}

// Decode reads the byte form. Invalid and empty bins are dropped, duplicates added, and the order restored, all of which
// the repairs report. Fewer bins than declared are read as they are when the input ends between bins.
func Decode(data []byte) (*Histogram, Repairs, error) {
	var repairs Repairs
	if len(data) < 2 {
		return nil, repairs, fmt.Errorf("%w: the number of bins, at byte 0 of %d", ErrTruncated, len(data))
	}
	declared := int(binary.BigEndian.Uint16(data))
	if declared > BinsMax {
		return nil, repairs, fmt.Errorf("%w: %d", ErrTooManyBins, declared)
	}
	read, offset := make([]entry, 0, min(declared, len(data)/4)), 2
	for n := range declared {
		if offset == len(data) {
			repairs.MissingBins = declared - n
			break
		}
		if len(data)-offset < 3 {
			return nil, repairs, fmt.Errorf("%w: a bin, at byte %d of %d", ErrTruncated, offset, len(data))
		}
		bin := Bin{Val: int8(data[offset]), Exp: int8(data[offset+1])}
		width := int(data[offset+2]) + 1
		if width > 8 {
			return nil, repairs, fmt.Errorf("%w: width %d at byte %d", ErrCountWidth, width, offset+2)
		}
		if len(data)-offset-3 < width {
			return nil, repairs, fmt.Errorf("%w: a count, at byte %d of %d", ErrTruncated, offset+3, len(data))
		}
		var count uint64
		for at := range width {
			count |= uint64(data[offset+3+at]) << (8 * at)
		}
		offset += 3 + width
		switch {
		case count == 0:
			repairs.EmptyBins++
			continue
		case !bin.Valid():
			repairs.InvalidBins++
			repairs.InvalidSamples = saturating(repairs.InvalidSamples, count)
			continue
		case bin.Val == 0 && bin.Exp != 0:
			repairs.OddZeroBins++
		}
		if width > (bits.Len64(count)+7)/8 {
			repairs.WideCounts++
		}
		if len(read) > 0 && bin.key() < read[len(read)-1].key {
			repairs.UnsortedBins++
		}
		read = append(read, entry{bin.key(), count})
	}
	repairs.TrailingBytes = len(data) - offset
	slices.SortStableFunc(read, func(a, b entry) int { return int(a.key) - int(b.key) })
	merged := read[:0]
	for _, e := range read {
		if last := len(merged) - 1; last >= 0 && merged[last].key == e.key {
			merged[last].count = saturating(merged[last].count, e.count)
			repairs.DuplicateBins++
			continue
		}
		merged = append(merged, e)
	}
	return &Histogram{entries: merged}, repairs, nil
}

// DecodeBase64 reads the base64 form. White space and missing padding are accepted and reported; bytes behind the last bin
// are an error.
func DecodeBase64(text string) (*Histogram, Repairs, error) {
	raw, loose, err := base64Bytes(text)
	if err != nil {
		return nil, Repairs{}, err
	}
	read, repairs, err := Decode(raw)
	if err == nil && repairs.TrailingBytes > 0 {
		return nil, repairs, fmt.Errorf("%w: %d", ErrTrailing, repairs.TrailingBytes)
	}
	repairs.LooseBase64 = loose
	return read, repairs, err
}

func base64Bytes(text string) ([]byte, bool, error) {
	dense, padding, loose := make([]byte, 0, len(text)), 0, false
	for at := range len(text) {
		switch c := text[at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			loose = true
		case c == '=' && padding < 2 && len(dense)%4+padding >= 2:
			padding++
		case padding > 0 || c == '=':
			return nil, false, fmt.Errorf("%w: character %d", ErrBase64, at)
		default:
			dense = append(dense, c)
		}
	}
	needed := (4 - len(dense)%4) % 4
	if padding > needed {
		return nil, false, fmt.Errorf("%w: too much padding", ErrBase64)
	}
	raw := make([]byte, base64.RawStdEncoding.DecodedLen(len(dense)))
	n, err := base64.RawStdEncoding.Decode(raw, dense)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrBase64, err)
	}
	return raw[:n], loose || padding < needed, nil
}
