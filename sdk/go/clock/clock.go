// Package clock reads Ogive's clock: the page of memory that `ogive serve --clock-page FILE` or a program with ogive_probe publishes.
// C, Java and Rust read the same page, so that a stamp of one process can be compared with that of another.
//
//	c, err := clock.Open("/dev/shm/ogive-clock") // the clock works either way
//	start := c.Ticks()
//	work()
//	took := c.Between(start, c.Ticks())
//
// Every method may be called from any number of goroutines, and none blocks or allocates but Open and Close. Where no page could be opened, on
// other processors than amd64 and arm64, and after the publisher has gone, the operating system's clock answers; so does the zero
// value. A clock whose publisher was started anew is to be opened anew. The bytes are in docs/formats/clock-page.md.
package clock

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// Source says what ticks are ticks of.
type Source uint32

// What [Clock.Source] may say.
const (
	TSCLfence Source = 1 // an ordered read is lfence; rdtsc
	TSCRdtscp Source = 2 // an ordered read is rdtscp
	CNTVCT    Source = 3 // an ordered read is isb; mrs cntvct_el0
	OS        Source = 4 // ticks are nanoseconds of the operating system's monotonic clock
)

// Clock is a page of another process, or the operating system's clock.
type Clock struct {
	words  *[pageBytes / 8]uint64 // nil without a page
	source Source                 // how this process reads the counter; 0 or OS when it does not
	mapped []byte
}

// Reading is a time with a bound on its error.
type Reading struct {
	Nanoseconds int64 // on the line of CLOCK_MONOTONIC
	Error       int64 // CLOCK_MONOTONIC was within so many nanoseconds of it
	Epoch       uint16
	Counter     bool // from the processor's counter, not from the operating system's clock
}

// State is the state of a clock and of its publisher.
type State struct {
	Reading
	Source       Source
	Process      int    // the publisher's; 0 without a page
	FrequencyHz  uint64 // of ticks; 0 before it is known
	QuantumTicks uint64 // the counter's step
	Published    uint64
	Age          time.Duration // since the publisher's last calibration
	Calibrations uint64
	Fallbacks    uint64
	Backsteps    uint64
	CPUOffset    time.Duration // the largest offset between the counters of two CPUs
}

const (
	pageBytes = 4096
	usedBytes = 320
	magic     = 0x4b4c43455649474f // "OGIVECLK"
	version   = 1
	// Ticks by which another CPU's counter may be behind the one that began a segment.
	behindMax = 4096
	// How far below the end of a segment the system's clock may be and still be held up: more is a step of the system's clock.
	floorMax = 100_000
)

// Words of the page, and of a slot.
const (
	wordMagic, wordForm, wordWho, wordMade           = 0, 1, 2, 3
	wordIndex, wordShift, wordSlots                  = 8, 9, 16
	wordTickRate, wordFrequency, wordQuantum         = 32, 33, 34
	wordCalibrations, wordFallbacks, wordBacksteps   = 35, 36, 37
	wordCPUOffset, wordCalibratedAt                  = 38, 39
	slotBaseTicks, slotBaseNs, slotRate, slotSlewed  = 0, 1, 2, 3
	slotSlewTicks, slotMaxAge, slotWall, slotPacked  = 4, 5, 6, 7
	packedCounter, packedEpoch, packedDrift, errMask = 56, 40, 24, 1<<24 - 1
)

// Open maps the page at path. With an error it returns the operating system's clock, never nil.
func Open(path string) (*Clock, error) {
	mapped, err := mapPage(path)
	if err != nil {
		return new(Clock), err
	}
	words := wordsOf(mapped)
	form := atomic.LoadUint64(&words[wordForm])
	if atomic.LoadUint64(&words[wordMagic]) != magic || uint32(form) != version || form>>32 < usedBytes {
		_ = unmapPage(mapped)
		return new(Clock), fmt.Errorf("%s is not a clock page of version %d", path, version)
	}
	source := Source(atomic.LoadUint64(&words[wordWho]))
	if !isReadable(source) {
		source = OS
	}
	return &Clock{words: words, source: source, mapped: mapped}, nil
}

// Close unmaps the page; no goroutine may read the clock any more.
func (c *Clock) Close() error {
	mapped := c.mapped
	*c = Clock{}
	if mapped == nil {
		return nil
	}
	return unmapPage(mapped)
}

// Ticks is the cheapest stamp: not ordered with the instructions around it. For intervals above 200 ns of one goroutine.
func (c *Clock) Ticks() uint64 {
	if c.hasCounter() {
		return counter()
	}
	return system()
}

// TicksOrdered is a stamp that is taken after every earlier instruction is done.
func (c *Clock) TicksOrdered() uint64 {
	if c.hasCounter() {
		return ordered(c.source)
	}
	return system()
}

// Between returns the time from one stamp to a later one; 0 when it is earlier.
func (c *Clock) Between(from, to uint64) time.Duration {
	if to <= from {
		return 0
	}
	if !c.hasCounter() {
		return time.Duration(to - from)
	}
	high, low := bits.Mul64(to-from, c.word(wordTickRate))
	return time.Duration(high<<32 | low>>32)
}

// Now returns nanoseconds on the line of CLOCK_MONOTONIC, read after every earlier instruction is done.
func (c *Clock) Now() int64 { return int64(c.now(true)) }

// NowUnordered is cheaper than Now, and up to some 150 ns early as another thread sees it.
func (c *Clock) NowUnordered() int64 { return int64(c.now(false)) }

// Wall returns nanoseconds since the Unix epoch. It steps when somebody sets the wall clock, at most 100 ms after that.
func (c *Clock) Wall() int64 {
	if c.hasCounter() {
		s := c.load(true)
		if ns, ok := s.line(s.ticks); ok {
			return int64(ns + s.words[slotWall])
		}
	}
	return time.Now().UnixNano()
}

// Bounded is a reading with a bound on its error.
func (c *Clock) Bounded() Reading {
	var r Reading
	if c.hasCounter() {
		s := c.load(true)
		packed := s.words[slotPacked]
		r.Epoch = uint16(packed >> packedEpoch)
		if ns, ok := s.line(s.ticks); ok {
			r.Nanoseconds, r.Counter = int64(ns), true
			age, drift := ns-s.words[slotBaseNs], packed>>packedDrift&0xffff
			r.Error = int64(packed&errMask + (age*drift+999_999_999)/1_000_000_000 + 1)
			return r
		}
	}
	now := c.now(true)
	after := system()
	r.Nanoseconds, r.Error = int64(now), int64(max(now, after)-min(now, after))
	return r
}

// At returns the time of a stamp that any process took from the counter of this machine, in nanoseconds on the line of CLOCK_MONOTONIC and
// since the Unix epoch; false when it is outside of the segment in force, which begins some 100 ms ago.
func (c *Clock) At(ticks uint64) (monotonic, wall int64, ok bool) {
	if c.words == nil {
		return 0, 0, false
	}
	s := c.load(false)
	ns, ok := s.line(ticks)
	return int64(ns), int64(ns + s.words[slotWall]), ok
}

// State returns the state of the clock and of its publisher.
func (c *Clock) State() State {
	state := State{Reading: c.Bounded(), Source: OS, FrequencyHz: 1_000_000_000, QuantumTicks: 1}
	if c.words == nil {
		return state
	}
	if c.hasCounter() {
		state.Source = c.source
	}
	state.Process = int(c.word(wordWho) >> 32)
	state.FrequencyHz, state.QuantumTicks = c.word(wordFrequency), c.word(wordQuantum)
	state.Published, state.Calibrations = c.word(wordIndex), c.word(wordCalibrations)
	state.Fallbacks, state.Backsteps = c.word(wordFallbacks), c.word(wordBacksteps)
	state.CPUOffset = time.Duration(c.word(wordCPUOffset))
	last := int64(max(c.word(wordMade), c.word(wordCalibratedAt)))
	state.Age = time.Duration(max(state.Nanoseconds-last, 0))
	return state
}

func (c *Clock) hasCounter() bool { return c.source >= TSCLfence && c.source <= CNTVCT }

// word reads one of the page. Go's atomic loads are sequentially consistent; on amd64 they are plain ones.
func (c *Clock) word(at int) uint64 { return atomic.LoadUint64(&c.words[at]) }

func (c *Clock) now(isOrdered bool) uint64 {
	if !c.hasCounter() {
		return system()
	}
	if ns, ok := c.quick(isOrdered); ok {
		return ns
	}
	var ns uint64
	for range 8 { // each turn means that a publication came in between
		s := c.load(isOrdered)
		line, ok := s.line(s.ticks)
		if ok {
			return line
		}
		ns = s.systemFloored()
		if c.word(wordIndex) == s.index {
			break
		}
	}
	return ns
}

// system reads the operating system's monotonic clock: on Linux CLOCK_MONOTONIC, through the vDSO. The package time shows it only
// relative to the start of the process; syscall.ClockGettime makes a system call. The runtime keeps this name for others.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

func system() uint64 { return uint64(nanotime()) }
