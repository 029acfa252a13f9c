package clock

import (
	"math/bits"
	"sync/atomic"
)

// segment is a linear part of the clock as it was in force, and the counter at that moment.
type segment struct {
	words [8]uint64
	ticks uint64
	shift uint
	index uint64
}

// load copies the segment in force. It starts over only when it was delayed for a whole publication, of which there are ten a second.
func (c *Clock) load(isOrdered bool) (s segment) {
	for {
		s.index = c.word(wordIndex)
		slot := wordSlots + 8*int(s.index&1)
		for at := range s.words {
			s.words[at] = c.word(slot + at)
		}
		switch {
		case !c.hasCounter():
			s.ticks = system()
		case isOrdered:
			s.ticks = ordered(c.source)
		default:
			s.ticks = counter()
		}
		if c.word(wordIndex) == s.index {
			s.shift = uint(c.word(wordShift) & 31)
			return s
		}
	}
}

// quick reads the line of the segment in force without a copy of it; false outside of the segment, or when a publication came in between.
func (c *Clock) quick(isOrdered bool) (uint64, bool) {
	words := c.words
	index := atomic.LoadUint64(&words[wordIndex])
	slot := (*[8]uint64)(words[wordSlots+8*(index&1):])
	base, start := atomic.LoadUint64(&slot[slotBaseTicks]), atomic.LoadUint64(&slot[slotBaseNs])
	rate, rateSlewed := atomic.LoadUint64(&slot[slotRate]), atomic.LoadUint64(&slot[slotSlewed])
	slew, maxAge := atomic.LoadUint64(&slot[slotSlewTicks]), atomic.LoadUint64(&slot[slotMaxAge])
	shift := atomic.LoadUint64(&words[wordShift]) & 31
	var ticks uint64
	if isOrdered {
		ticks = ordered(c.source)
	} else {
		ticks = counter()
	}
	if atomic.LoadUint64(&words[wordIndex]) != index {
		return 0, false
	}
	age := ticks - base
	slewed := min(age, slew)
	high1, low1 := bits.Mul64(slewed<<shift, rateSlewed)
	high2, low2 := bits.Mul64((age-slewed)<<shift, rate)
	_, carry := bits.Add64(low1, low2, 0)
	return start + high1 + high2 + carry, age < maxAge
}

// product returns nanoseconds since the segment's start, 64.64 fixed point.
func (s *segment) product(age uint64) (high, low uint64) {
	slewed := min(age, s.words[slotSlewTicks])
	high1, low1 := bits.Mul64(slewed<<s.shift, s.words[slotSlewed])
	high2, low2 := bits.Mul64((age-slewed)<<s.shift, s.words[slotRate])
	low, carry := bits.Add64(low1, low2, 0)
	return high1 + high2 + carry, low
}

// line returns the time at ticks, or false outside of the segment.
func (s *segment) line(ticks uint64) (uint64, bool) {
	age := ticks - s.words[slotBaseTicks]
	if age >= s.words[slotMaxAge] {
		return 0, false
	}
	high, _ := s.product(age)
	return s.words[slotBaseNs] + high, true
}

// systemFloored returns the system's clock, not below what the segment can have shown before.
func (s *segment) systemFloored() uint64 {
	now, base := system(), s.words[slotBaseNs]
	if s.words[slotPacked]>>packedCounter&1 == 0 {
		return max(now, base)
	}
	age := s.words[slotMaxAge]
	if early := s.words[slotBaseTicks] - s.ticks; s.ticks < s.words[slotBaseTicks] {
		if early <= behindMax {
			return base // another CPU's counter, a little behind
		}
		age = 0
	}
	high, low := s.product(age)
	floor := base + high
	if low != 0 {
		floor++
	}
	if floor > now && floor-now < floorMax {
		return floor
	}
	return now
}
