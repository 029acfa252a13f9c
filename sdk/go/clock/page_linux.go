package clock

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func mapPage(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < pageBytes {
		return nil, fmt.Errorf("%s is not a clock page: %d bytes", path, info.Size())
	}
	mapped, err := syscall.Mmap(int(file.Fd()), 0, pageBytes, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	return mapped, nil
}

func unmapPage(mapped []byte) error { return syscall.Munmap(mapped) }

func wordsOf(mapped []byte) *[pageBytes / 8]uint64 {
	return (*[pageBytes / 8]uint64)(unsafe.Pointer(&mapped[0]))
}
