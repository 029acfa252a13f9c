package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/ogive-monitoring/ogive/sdk/go/hist"
)

// written is a histogram of hdrhistogram-go, encoded, and what is to be read of it.
func written(t *testing.T, least int64, digits, values int) (string, *hist.Histogram) {
	t.Helper()
	theirs, expected := hdr.New(least, hourNs, digits), new(hist.Histogram)
	random := rand.New(rand.NewPCG(7, uint64(digits)))
	for range values {
		value := least + random.Int64N(hourNs>>random.IntN(40))/2
		if err := theirs.RecordValues(value, 3); err != nil {
			t.Fatal(err)
		}
	}
	for _, bar := range theirs.Distribution() {
		middle := bar.From + (bar.To-bar.From+1)/2
		expected.RecordN(float64(middle)/1e9, uint64(bar.Count))
	}
	text, err := theirs.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), expected
}

// What hdrhistogram-go writes is read: the same counts in the bins of the same middles.
func TestHdrOfTheLibrary(t *testing.T) {
	for digits := 1; digits <= 5; digits++ {
		for _, least := range []int64{1, 1000} {
			text, expected := written(t, least, digits, 2000)
			read, err := hist.DecodeHdrBase64(text, 1e-9)
			if err != nil {
				t.Fatalf("%d digits from %d: %v", digits, least, err)
			}
			found, _ := read.MarshalText()
			wanted, _ := expected.MarshalText()
			if read.Count() != 6000 || string(found) != string(wanted) {
				t.Errorf("%d digits from %d: found %d samples in %s, expected %s", digits, least, read.Count(), found, wanted)
			}
		}
	}
}

// A form that is cut anywhere is refused; one with any bit flipped is read or refused, and nothing worse.
func TestBrokenHdr(t *testing.T) {
	text, _ := written(t, 1, 2, 30)
	compressed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zlib.NewReader(bytes.NewReader(compressed[8:]))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range [][]byte{plain, compressed} {
		if _, err := hist.DecodeHdr(form, 1e-9); err != nil {
			t.Fatal(err)
		}
		for at := range form {
			if _, err := hist.DecodeHdr(form[:at], 1e-9); err == nil {
				t.Errorf("read, with %d bytes of %d", at, len(form))
			}
		}
		for bit := range 8 * len(form) {
			broken := bytes.Clone(form)
			broken[bit/8] ^= 1 << (bit % 8)
			if read, err := hist.DecodeHdr(broken, 1e-9); (read == nil) == (err == nil) {
				t.Errorf("bit %d: %v and %v", bit, read, err)
			}
		}
	}
}
