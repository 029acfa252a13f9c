package hist

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// hdrFile is vectors/hdrhistogram/read.json, also when OGIVE_VECTORS_DIR names a directory that has none.
func hdrFile(given string) string {
	if path := filepath.Join(given, "hdrhistogram/read.json"); isFile(path) {
		return path
	}
	return "../../../vectors/hdrhistogram/read.json"
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

type hdrRecord struct {
	Name, Hdr, OpenHistogram, Says string
	Unit                           float64
}

// checkHdr reads every record of HdrHistogram's forms: how many are right, and what is wrong with others.
func checkHdr(path string) (passed int, failures []error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, []error{err}
	}
	var file struct{ Records, Refused []hdrRecord }
	if err := json.Unmarshal(text, &file); err != nil {
		return 0, []error{err}
	}
	judge := func(r hdrRecord, err error) {
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", r.Name, err))
			return
		}
		passed++
	}
	for _, r := range file.Records {
		judge(r, readsHdr(r))
	}
	for _, r := range file.Refused {
		_, err := DecodeHdrBase64(r.Hdr, r.Unit)
		switch {
		case err == nil:
			judge(r, errors.New("it was read"))
		case !strings.Contains(err.Error(), r.Says):
			judge(r, fmt.Errorf("the error does not name %q: %w", r.Says, err))
		default:
			judge(r, nil)
		}
	}
	return passed, failures
}

func readsHdr(r hdrRecord) error {
	h, err := DecodeHdrBase64(r.Hdr, r.Unit)
	if err != nil {
		return err
	}
	text, err := h.MarshalText()
	if err != nil {
		return err
	}
	if _, known := h.ExactSum(); known {
		return fmt.Errorf("the form has no sum")
	}
	return same("form", string(text), r.OpenHistogram)
}
