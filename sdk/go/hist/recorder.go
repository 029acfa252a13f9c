package hist

import (
	"math"
	"sync/atomic"
	"time"
)

// Local records durations for one goroutine: no lock, no atomic operation, no allocation. Whoever records also takes.
type Local struct {
	// Numbers of which from..from+width change no extreme and are doubles: one comparison finds all others.
	from, width uint64
	sum         uint64
	over        uint64 // what sum carried beyond 2^64
	least       uint64
	greatest    uint64
	counts      [flatBins]uint64
}

// NewLocal returns an empty recorder.
func NewLocal() *Local {
	l := new(Local)
	l.clear()
	return l
}

func (l *Local) clear() {
	l.from, l.width, l.sum, l.over, l.least, l.greatest = 0, 0, 0, 0, math.MaxUint64, 0
}

// Record counts a duration. One below zero counts as zero.
func (l *Local) Record(duration time.Duration) { l.RecordNanoseconds(uint64(max(duration, 0))) }

// RecordNanoseconds counts a number of nanoseconds. It calls nothing, so that the compiler gives it no stack frame.
func (l *Local) RecordNanoseconds(nanoseconds uint64) {
	if nanoseconds-l.from < l.width {
		l.add(nearIndex(nanoseconds), nanoseconds)
		return
	}
	l.least, l.greatest = min(l.least, nanoseconds), max(l.greatest, nanoseconds)
	if l.least < exactEnd {
		l.from, l.width = l.least, min(l.greatest, exactEnd-1)-l.least+1
	}
	if nanoseconds < exactEnd {
		l.add(nearIndex(nanoseconds), nanoseconds)
	} else {
		l.add(nearIndex(nanoseconds/1_000_000)+6*90, nanoseconds) // as flatIndex
	}
}

func (l *Local) add(bin, nanoseconds uint64) {
	l.counts[bin%flatBins]++
	sum := l.sum + nanoseconds
	if sum < nanoseconds {
		l.over++
	}
	l.sum = sum
}

// Take returns what was recorded since the last call, in seconds, and begins anew.
func (l *Local) Take() *Histogram {
	taken := &Histogram{}
	for bin, count := range l.counts {
		if count > 0 {
			taken.entries = append(taken.entries, entry{keyOfFlat(bin), count})
			l.counts[bin] = 0
		}
	}
	if len(taken.entries) > 0 {
		taken.sum, taken.min, taken.max = seconds(l.over, l.sum), seconds(0, l.least), seconds(0, l.greatest)
		taken.sumKnown, taken.endsKnown = true, true
	}
	l.clear()
	return taken
}

func seconds(high, low uint64) float64 { return (float64(high)*0x1p64 + float64(low)) / 1e9 }

// Recorder records durations of any number of goroutines: no lock, no allocation. A sample is taken once, in the cell of the
// second in which it was counted or in the one behind it.
type Recorder struct {
	counts [flatBins]atomic.Uint64
	sum    atomic.Uint64
	least  atomic.Uint64
	most   atomic.Uint64
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	r := new(Recorder)
	r.least.Store(math.MaxUint64)
	return r
}

// Record counts a duration. One below zero counts as zero.
func (r *Recorder) Record(duration time.Duration) { r.RecordNanoseconds(uint64(max(duration, 0))) }

// RecordNanoseconds counts a number of nanoseconds.
func (r *Recorder) RecordNanoseconds(nanoseconds uint64) {
	r.sum.Add(nanoseconds)
	for least := r.least.Load(); nanoseconds < least; least = r.least.Load() {
		if r.least.CompareAndSwap(least, nanoseconds) {
			break
		}
	}
	for most := r.most.Load(); nanoseconds > most; most = r.most.Load() {
		if r.most.CompareAndSwap(most, nanoseconds) {
			break
		}
	}
	// Last, so that a take never counts a sample that is not in the sum.
	r.counts[flatIndex(nanoseconds)].Add(1)
}

// Since counts the time that has passed since start: defer recorder.Since(time.Now()).
func (r *Recorder) Since(start time.Time) { r.Record(time.Since(start)) }

// Take returns what was recorded since the last call, in seconds, and begins anew. Samples recorded meanwhile are in this
// histogram or in the next, never in both. The sum may hold a sample that is counted in a later one: over all takes it is
// exact. Minimum and maximum are left out where they are not of the outermost bins. Only one goroutine may take.
func (r *Recorder) Take() *Histogram {
	taken := &Histogram{}
	for bin := range r.counts {
		if r.counts[bin].Load() == 0 {
			continue
		}
		if count := r.counts[bin].Swap(0); count > 0 {
			taken.entries = append(taken.entries, entry{keyOfFlat(bin), count})
		}
	}
	if len(taken.entries) == 0 {
		return taken
	}
	sum, least, most := r.sum.Swap(0), r.least.Swap(math.MaxUint64), r.most.Swap(0)
	first, last := taken.entries[0].key, taken.entries[len(taken.entries)-1].key
	taken.sum, taken.min, taken.max, taken.sumKnown = seconds(0, sum), seconds(0, least), seconds(0, most), true
	taken.endsKnown = keyOfFlat(int(flatIndex(least))) == first && keyOfFlat(int(flatIndex(most))) == last
	return taken
}
