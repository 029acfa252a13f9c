//go:build !amd64 && !arm64

package clock

func counter() uint64 { return system() }

func ordered(Source) uint64 { return system() }

func isReadable(Source) bool { return false }
