// Reads a clock page as a Go program does, for tests beside readers in other languages; what it prints is said in
// crates/probe/tests/shared/reader.c.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/ogive-monitoring/ogive/sdk/go/clock"
)

// systemNs asks the kernel itself, so that the clock is not compared with a part of itself.
func systemNs() int64 {
	var time syscall.Timespec
	const monotonic = 1
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&time)), 0)
	return time.Nano()
}

func live(c *clock.Clock, count int) {
	first := c.Now()
	last, fell, beyond := first, 0, 0
	from, outer := c.TicksOrdered(), systemNs()
	for range count {
		before := systemNs()
		r := c.Bounded()
		after := systemNs()
		if r.Nanoseconds+r.Error < before || r.Nanoseconds > after+r.Error {
			beyond++
		}
		if r.Nanoseconds < last {
			fell++
		}
		last = r.Nanoseconds
	}
	to := c.TicksOrdered()
	outer = systemNs() - outer
	// The stamps enclose the loop: ticks must say what the system's clock says, give or take a thousandth and a microsecond.
	if c.Between(from, to).Nanoseconds()+outer/1000+1000 < outer || c.Between(to, from) != 0 || c.NowUnordered()+1000 < last || c.Ticks() < from {
		beyond += count
	}
	state := c.State()
	fmt.Println(first, last, fell, beyond, mode(state.Reading), state.Process)
}

func mode(r clock.Reading) int {
	if r.Counter {
		return 1
	}
	return 0
}

func convert(c *clock.Clock, word string) string {
	at, err := strconv.ParseUint(word, 10, 64)
	if ns, wall, ok := c.At(at); ok && err == nil {
		return fmt.Sprint(ns, wall)
	}
	return "none"
}

func turns(c *clock.Clock) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if stamp, isStamp := strings.CutPrefix(lines.Text(), "at "); isStamp {
			fmt.Println(convert(c, stamp))
			continue
		}
		r := c.Bounded()
		fmt.Println(r.Nanoseconds, r.Error, mode(r), r.Epoch, c.Wall(), c.TicksOrdered())
	}
}

func main() {
	c, err := clock.Open(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if os.Args[1] == "convert" {
			os.Exit(1)
		}
	}
	switch os.Args[1] {
	case "live":
		count, _ := strconv.Atoi(os.Args[3])
		live(c, count)
	case "turns":
		turns(c)
	default:
		for _, word := range os.Args[3:] {
			fmt.Println(convert(c, word))
		}
	}
}
