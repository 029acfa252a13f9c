package clock

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func vector(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join("../../../vectors/clock", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// page writes the vector's page to a file, with its words changed.
func page(t *testing.T, changed map[int]uint64) string {
	bytes, err := hex.DecodeString(strings.Join(strings.Fields(vector(t, "page.hex")), ""))
	if err != nil {
		t.Fatal(err)
	}
	bytes = append(bytes, make([]byte, pageBytes-len(bytes))...)
	for at, word := range changed {
		binary.LittleEndian.PutUint64(bytes[8*at:], word)
	}
	path := filepath.Join(t.TempDir(), "clock")
	if err := os.WriteFile(path, bytes, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t *testing.T, path string) *Clock {
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestStampsAreWhatTheVectorsSay(t *testing.T) {
	c := opened(t, page(t, nil))
	found := 0
	for line := range strings.Lines(vector(t, "conversions.txt")) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		stamp, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ns, wall, ok := c.At(stamp)
		got := []string{"none"}
		if ok {
			got = []string{strconv.FormatInt(ns, 10), strconv.FormatInt(wall, 10)}
		}
		if strings.Join(got, " ") != strings.Join(fields[1:], " ") {
			t.Errorf("%s: %v", strings.TrimSpace(line), got)
		}
		found++
	}
	if found < 8 {
		t.Errorf("%d conversions", found)
	}
	if _, _, ok := new(Clock).At(5_000_000_000_000); ok {
		t.Error("a clock without a page knows no stamps")
	}
}

func TestWhatIsNoPageIsRefusedAndTheClockWorks(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, make([]byte, pageBytes-1), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no file": "/nowhere/clock", "short": short, "a directory": t.TempDir(),
		"magic": page(t, map[int]uint64{wordMagic: 0}), "version": page(t, map[int]uint64{wordForm: 4096<<32 | 2}),
		"size": page(t, map[int]uint64{wordForm: (usedBytes-1)<<32 | 1}),
	} {
		c, err := Open(path)
		if err == nil {
			t.Errorf("%s: taken", name)
		}
		isTheSystems(t, c)
	}
	isTheSystems(t, new(Clock))
	// A source that this version does not know is the operating system's clock.
	isTheSystems(t, opened(t, page(t, map[int]uint64{wordWho: 99})))
}

// isTheSystems checks the clock against readings of the operating system's around it.
func isTheSystems(t *testing.T, c *Clock) {
	t.Helper()
	for range 100 {
		before := int64(system())
		r := c.Bounded()
		now, loose, after := c.Now(), c.NowUnordered(), int64(system())
		if r.Counter || r.Nanoseconds < before || now < r.Nanoseconds || loose < now || after < loose {
			t.Fatalf("%d %+v %d %d %d", before, r, now, loose, after)
		}
	}
	from, to := c.Ticks(), c.TicksOrdered()
	if !c.hasCounter() && c.Between(from, to) != time.Duration(to-from) || c.Between(to+1, from) != 0 {
		t.Errorf("from %d to %d: %v", from, to, c.Between(from, to))
	}
	before, wall, after := time.Now(), time.Unix(0, c.Wall()), time.Now()
	if wall.Before(before.Add(-time.Second)) || wall.After(after.Add(time.Second)) {
		t.Errorf("wall %v is not from %v to %v", wall, before, after)
	}
}

// A page whose segment has ended, because its publisher is gone: the operating system's clock answers, never below the page's line.
func TestAnEndedSegmentIsTheSystems(t *testing.T) {
	isTheSystems(t, opened(t, page(t, map[int]uint64{wordSlots + 8 + slotBaseTicks: counter() - 1<<60})))
	// Mode 0: the base is a floor.
	floor := system() + uint64(time.Hour)
	c := opened(t, page(t, map[int]uint64{wordSlots + 8 + slotBaseNs: floor, wordSlots + 8 + slotPacked: 0, wordSlots + 8 + slotMaxAge: 0}))
	if !c.hasCounter() {
		t.Skip("the vector's page is of x86-64")
	}
	if r := c.Bounded(); r.Nanoseconds != int64(floor) || r.Counter {
		t.Errorf("%+v below %d", r, floor)
	}
}

// A publisher that moves on a thousand times a second, each segment where the last one was, shows a line that never goes back.
func TestReadersSeeOneLine(t *testing.T) {
	path := page(t, nil)
	if c := opened(t, path); !c.hasCounter() {
		t.Skip("the vector's page is of x86-64")
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(at int, word uint64) {
		if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, word), int64(8*at)); err != nil {
			t.Error(err)
		}
	}
	// A tick is 1 ns: the line is the counter less a constant.
	begin, index := counter(), uint64(101)
	publish := func() {
		slot, at := wordSlots+8*int((index+1)&1), ordered(TSCRdtscp)
		for word, value := range []uint64{at, at - begin, 0, 0, 0, 1 << 40, 0, 1<<packedCounter | 5} {
			write(slot+word, value)
		}
		write(slot+slotRate, 1<<63)
		write(wordShift, 1) // so that 0.5 of a shifted tick is one of them
		index++
		write(wordIndex, index)
	}
	write(wordTickRate, 1<<32)
	publish()
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		all.Go(func() {
			c := opened(t, path)
			for last := int64(0); ; {
				select {
				case <-done:
					return
				default:
				}
				for range 100 {
					r := c.Bounded()
					if !r.Counter || r.Nanoseconds < last {
						t.Errorf("%+v after %d", r, last)
						return
					}
					last = r.Nanoseconds
				}
			}
		})
	}
	for range 1000 {
		publish()
	}
	close(done)
	all.Wait()
}

func TestReadingAllocatesNothing(t *testing.T) {
	for _, c := range []*Clock{new(Clock), opened(t, page(t, nil))} {
		n := testing.AllocsPerRun(1000, func() {
			c.Between(c.Ticks(), c.TicksOrdered())
			_, _, _ = c.Bounded(), c.Wall(), c.NowUnordered()
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
