// Reads a clock page as a Go program does, by docs/formats/clock-page.md alone; the output is that of reader.c.
package main

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

func ticks() uint64

type page struct{ words *[512]uint64 }

func open(path string) (page, error) {
	file, err := os.Open(path)
	if err != nil {
		return page{}, err
	}
	defer file.Close()
	bytes, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return page{}, err
	}
	if string(bytes[:8]) != "OGIVECLK" || bytes[8] != 1 {
		return page{}, fmt.Errorf("%s is not a clock page", path)
	}
	return page{(*[512]uint64)(unsafe.Pointer(&bytes[0]))}, nil
}

// The slot in force, and the counter while it was. Go's atomic loads are sequentially consistent.
func (p page) load() (slot [8]uint64, now uint64) {
	for {
		index := atomic.LoadUint64(&p.words[8])
		for at := range slot {
			slot[at] = atomic.LoadUint64(&p.words[16+8*(index&1)+uint64(at)])
		}
		now = ticks()
		if atomic.LoadUint64(&p.words[8]) == index {
			return slot, now
		}
	}
}

// The line at some ticks.
func line(slot [8]uint64, shift, at uint64) (uint64, bool) {
	age := at - slot[0]
	if age >= slot[5] {
		return 0, false
	}
	slewed := min64(age, slot[4])
	high1, low1 := bits.Mul64(slewed<<shift, slot[3])
	high2, low2 := bits.Mul64((age-slewed)<<shift, slot[2])
	_, carry := bits.Add64(low1, low2, 0)
	return slot[1] + high1 + high2 + carry, true
}

func min64(a, b uint64) uint64 {
	if a < b {
		return a
	}
	return b
}

func systemNs() uint64 {
	var time syscall.Timespec
	const monotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&time)), 0)
	return uint64(time.Nano())
}

func live(p page, count int) {
	var first, last, fell, beyond, mode uint64
	shift := p.words[9]
	for at := 0; at < count; at++ {
		before := systemNs()
		slot, now := p.load()
		ns, valid := line(slot, shift, now)
		after := systemNs()
		if !valid {
			ns, mode = after, 0
		} else {
			packed := slot[7]
			err := packed&0xffffff + ((ns-slot[1])*(packed>>24&0xffff)+999_999_999)/1_000_000_000 + 1
			if ns+err < before || ns > after+err {
				beyond++
			}
			mode = packed >> 56 & 1
		}
		if ns < last {
			fell++
		}
		if at == 0 {
			first = ns
		}
		last = ns
	}
	fmt.Println(first, last, fell, beyond, mode, p.words[2]>>32)
}

func main() {
	p, err := open(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[1] == "live" {
		count, _ := strconv.Atoi(os.Args[3])
		live(p, count)
		return
	}
	slot, _ := p.load()
	for _, word := range os.Args[3:] {
		at, _ := strconv.ParseUint(word, 10, 64)
		if ns, valid := line(slot, p.words[9], at); valid {
			fmt.Println(ns, int64(ns+slot[6]))
		} else {
			fmt.Println("none")
		}
	}
}
