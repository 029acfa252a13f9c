//go:build !linux

package clock

import "errors"

// A page is on the line of Linux' CLOCK_MONOTONIC.
func mapPage(string) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapPage([]byte) error { return nil }

func wordsOf([]byte) *[pageBytes / 8]uint64 { return nil }
