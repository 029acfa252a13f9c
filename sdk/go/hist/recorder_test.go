package hist

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func TestFlatBinsAreThoseOfTheRule(t *testing.T) {
	check := func(nanoseconds uint64) {
		t.Helper()
		expected := ZeroBin
		if nanoseconds > math.MaxInt64 {
			expected = BinOfInteger(int64(nanoseconds/1000), -6)
		} else {
			expected = BinOfInteger(int64(nanoseconds), -9)
		}
		if found := keyOfFlat(int(flatIndex(nanoseconds))).bin(); found != expected {
			t.Fatalf("%d ns: found %v, expected %v", nanoseconds, found, expected)
		}
	}
	for n := range uint64(100_000) {
		check(n)
	}
	for edge := uint64(1); edge < math.MaxUint64/10; edge *= 10 {
		for digits := uint64(10); digits < 100; digits++ {
			at := edge / 10 * digits
			check(at)
			check(at + 1)
			check(max(at, 1) - 1)
		}
	}
	for range 1_000_000 {
		check(rand.Uint64() >> rand.UintN(64))
	}
	check(math.MaxUint64)
}

// What a recorder takes while others record is everything that they recorded, each once.
func TestTakesAddUpToWhatWasRecorded(t *testing.T) {
	recorder, done := NewRecorder(), make(chan struct{})
	var writers sync.WaitGroup
	const each, goroutines = 200_000, 4
	for w := range goroutines {
		writers.Go(func() {
			for n := range uint64(each) {
				recorder.RecordNanoseconds(n*uint64(w+1) + 1)
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	total := &Histogram{}
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
		}
		total.Merge(recorder.Take())
	}
	total.Merge(recorder.Take())
	expected := &Histogram{}
	for w := range goroutines {
		for n := range uint64(each) {
			expected.add(keyOfFlat(flatOf(n*uint64(w+1)+1)), 1)
		}
	}
	if !total.Equal(expected) {
		t.Fatalf("took %d of %d samples", total.Count(), expected.Count())
	}
}

func TestLocalKnowsSumAndExtremes(t *testing.T) {
	local := NewLocal()
	for n := range uint64(1000) {
		local.RecordNanoseconds(n + 1)
	}
	taken := local.Take()
	sum, known := taken.ExactSum()
	least, most, _ := taken.Extremes()
	if !known || math.Abs(sum-500500e-9) > 1e-15 || least != 1e-9 || most != 1000e-9 || taken.Count() != 1000 {
		t.Fatalf("%v %v %v %v", sum, least, most, taken.Count())
	}
	if local.Take().Count() != 0 {
		t.Fatal("a take leaves nothing")
	}
}

// One comparison decides whether an extreme changes, or a number needs the longer way.
func TestLocalKnowsExtremesInEveryOrder(t *testing.T) {
	for _, values := range [][]uint64{
		{0}, {math.MaxUint64}, {math.MaxUint64, 0}, {0, math.MaxUint64}, {math.MaxUint64, math.MaxUint64, 7}, {5, 3, 9, 4}, {9, 9, 1},
		{1 << 53, 1<<53 - 1}, {math.MaxUint64, math.MaxUint64 - 1, 1},
	} {
		local := NewLocal()
		for range 2 {
			over, total := uint64(0), uint64(0)
			for _, value := range values {
				local.RecordNanoseconds(value)
				var carry uint64
				total, carry = bits.Add64(total, value, 0)
				over += carry
			}
			taken := local.Take()
			sum, _ := taken.ExactSum()
			least, most, known := taken.Extremes()
			if !known || least != seconds(0, slices.Min(values)) || most != seconds(0, slices.Max(values)) || sum != seconds(over, total) {
				t.Fatalf("%d: %v %v %v", values, sum, least, most)
			}
		}
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	local, recorder := NewLocal(), NewRecorder()
	if n := testing.AllocsPerRun(1000, func() { local.Record(1234); recorder.Record(1234) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func durations() []uint64 {
	source := rand.New(rand.NewPCG(1, 2))
	values := make([]uint64, 1<<16)
	for at := range values {
		values[at] = uint64(math.Exp(source.NormFloat64()*1.5 + 11))
	}
	return values
}

func BenchmarkLocal(b *testing.B) {
	local, values := NewLocal(), durations()
	for n := 0; b.Loop(); n++ {
		local.RecordNanoseconds(values[n&(1<<16-1)])
	}
}

func BenchmarkRecorder(b *testing.B) {
	recorder, values := NewRecorder(), durations()
	for n := 0; b.Loop(); n++ {
		recorder.RecordNanoseconds(values[n&(1<<16-1)])
	}
}

func BenchmarkRecorderParallel(b *testing.B) {
	recorder, values := NewRecorder(), durations()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			recorder.RecordNanoseconds(values[n&(1<<16-1)])
		}
	})
}

// Merging adds in place and inserts what is missing: every mixture of bins must be what a map of counts says.
func TestMergesAreThoseOfAMap(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4))
	for round := range 2000 {
		total, model := &Histogram{}, map[key]uint64{}
		for range 4 {
			part := &Histogram{}
			for range source.IntN(12) {
				bin, n := keyOfFlat(source.IntN(30)), uint64(source.IntN(5)+1)
				part.add(bin, n)
				model[bin] += n
			}
			if source.IntN(4) == 0 {
				part.Record(math.NaN())
				model[nanKey]++
			}
			total.Merge(part)
		}
		total.Merge(total)
		for at, e := range total.entries {
			if e.count != 2*model[e.key] || at > 0 && total.entries[at-1].key >= e.key {
				t.Fatalf("round %d: %v of %v", round, total.entries, model)
			}
		}
		if len(total.entries) != len(model) {
			t.Fatalf("round %d: %d bins of %d", round, len(total.entries), len(model))
		}
	}
}
