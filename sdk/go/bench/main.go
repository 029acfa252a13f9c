// What do a record, a merge and four quantiles cost beside hdrhistogram-go and circonusllhist, and what does a second writer add?
//
// All contenders run in turn, round after round, on one locked thread, by the CPU time of that thread. A ratio is taken within a
// round and is how many times our time another takes. ROUNDS=n for more rounds.
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/ogive-monitoring/ogive/sdk/go/clock"
	"github.com/ogive-monitoring/ogive/sdk/go/hist"
	circllhist "github.com/openhistogram/circonusllhist"
	"golang.org/x/sys/unix"
)

// values a round of records takes.
const values = 1 << 17

const hourNs = 3_600_000_000_000

type contender struct {
	name       string
	operations int
	run        func()
}

func main() {
	runtime.LockOSThread()
	rounds := 15
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil {
		rounds = n
	}
	fmt.Printf("%s, %d CPUs, %s\n", runtime.Version(), runtime.NumCPU(), processor())
	logNormal, mixed := streams()
	record("log-normal around 250 us", logNormal, rounds)
	record("mixed: 2 us, 300 us, 40 ms, tiny", mixed, rounds)
	merge(mixed, rounds)
	writers(mixed, rounds)
	clocks(rounds)
	memory()
}

// streams returns latencies of one regime, and of three that take turns with every eighth value tiny.
func streams() (logNormal, mixed []uint64) {
	source := rand.New(rand.NewPCG(1, 2))
	logNormal, mixed = make([]uint64, values), make([]uint64, values)
	centre := 2_000.0
	for at := range values {
		logNormal[at] = uint64(250_000 * math.Exp(source.NormFloat64()))
		if source.IntN(64) == 0 {
			centre = []float64{2_000, 300_000, 40_000_000}[source.IntN(3)]
		}
		mixed[at] = uint64(centre * math.Exp(0.3*source.NormFloat64()))
		if at%8 == 0 {
			mixed[at] = source.Uint64N(100)
		}
	}
	return logNormal, mixed
}

func record(stream string, ns []uint64, rounds int) {
	local, recorder, histogram := hist.NewLocal(), hist.NewRecorder(), &hist.Histogram{}
	two, three := hdr.New(1, hourNs, 2), hdr.New(1, hourNs, 3)
	locked, unlocked := circllhist.New(), circllhist.New(circllhist.NoLocks())
	times("record, "+stream, rounds, []contender{
		{"hist.Local", len(ns), func() {
			for _, v := range ns {
				local.RecordNanoseconds(v)
			}
		}},
		{"hist.Recorder, any goroutine", len(ns), func() {
			for _, v := range ns {
				recorder.RecordNanoseconds(v)
			}
		}},
		{"hist.Histogram, a double", len(ns), func() {
			for _, v := range ns {
				histogram.Record(float64(v) / 1e9)
			}
		}},
		{"hdrhistogram-go, 2 digits", len(ns), func() {
			for _, v := range ns {
				_ = two.RecordValue(int64(v))
			}
		}},
		{"hdrhistogram-go, 3 digits", len(ns), func() {
			for _, v := range ns {
				_ = three.RecordValue(int64(v))
			}
		}},
		{"circonusllhist, integers, no locks", len(ns), func() {
			for _, v := range ns {
				_ = unlocked.RecordIntScale(int64(v), -9)
			}
		}},
		{"circonusllhist, integers", len(ns), func() {
			for _, v := range ns {
				_ = locked.RecordIntScale(int64(v), -9)
			}
		}},
	})
	for name, run := range map[string]func(){
		"Local": func() { local.RecordNanoseconds(1234) }, "Recorder": func() { recorder.RecordNanoseconds(1234) },
	} {
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			panic(fmt.Sprintf("%s allocates %v times a record", name, n))
		}
	}
}

func merge(ns []uint64, rounds int) {
	left, right := of(ns[:values/2]), of(ns[values/2:])
	hdrLeft, hdrRight := hdr.New(1, hourNs, 3), hdr.New(1, hourNs, 3)
	openLeft, openRight := circllhist.New(), circllhist.New()
	for at, v := range ns {
		h, o := hdrLeft, openLeft
		if at >= values/2 {
			h, o = hdrRight, openRight
		}
		_ = h.RecordValue(int64(v))
		_ = o.RecordIntScale(int64(v), -9)
	}
	const many, few = 1000, 20
	times("merge of a histogram of mixed values", rounds, []contender{
		{"Histogram.Merge", many, func() { repeat(many, func() { left.Merge(right) }) }},
		{"hdrhistogram-go Merge, 3 digits", few, func() { repeat(few, func() { hdrLeft.Merge(hdrRight) }) }},
		{"circonusllhist Merge", many, func() { repeat(many, func() { openLeft.Merge(openRight) }) }},
	})
	quantiles := []float64{0.5, 0.9, 0.99, 0.999}
	times("four quantiles", rounds, []contender{
		{"Histogram.Quantile", many, func() {
			repeat(many, func() {
				for _, q := range quantiles {
					_, _ = right.Quantile(q)
				}
			})
		}},
		{"hdrhistogram-go, 3 digits", few, func() {
			repeat(few, func() {
				for _, q := range quantiles {
					_ = hdrRight.ValueAtQuantile(100 * q)
				}
			})
		}},
		{"circonusllhist ApproxQuantile", many, func() { repeat(many, func() { _, _ = openRight.ApproxQuantile(quantiles) }) }},
	})
}

func repeat(times int, run func()) {
	for range times {
		run()
	}
}

func of(ns []uint64) *hist.Histogram {
	local := hist.NewLocal()
	for _, v := range ns {
		local.RecordNanoseconds(v)
	}
	return local.Take()
}

// writers measures what a record costs of CPU time when two threads record at once, into one recorder and into one each. On a machine that
// does more the two do not always run at once.
func writers(ns []uint64, rounds int) {
	kinds := []struct {
		name    string
		writers int
		record  func() func(uint64)
	}{
		{"Local, 1 writer", 1, func() func(uint64) { return hist.NewLocal().RecordNanoseconds }},
		{"Local, 2 writers of one each", 2, func() func(uint64) { return hist.NewLocal().RecordNanoseconds }},
		{"Recorder, 1 writer", 1, func() func(uint64) { return hist.NewRecorder().RecordNanoseconds }},
		{"Recorder, 2 writers of one", 2, shared(func() func(uint64) { return hist.NewRecorder().RecordNanoseconds })},
		{"circonusllhist, 1 writer", 1, locked},
		{"circonusllhist, 2 writers of one", 2, shared(locked)},
	}
	costs := make([][]float64, len(kinds))
	for range rounds {
		for at, kind := range kinds {
			costs[at] = append(costs[at], together(kind.writers, kind.record, ns))
		}
	}
	fmt.Printf("\nwriters at once: %d rounds, CPU time a record of each, through a function value\n%-38s %9s %9s %9s\n", rounds, "", "median ns", "least", "greatest")
	for at, kind := range kinds {
		slices.Sort(costs[at])
		fmt.Printf("%-38s %9.2f %9.2f %9.2f\n", kind.name, costs[at][rounds/2], costs[at][0], costs[at][rounds-1])
	}
}

// shared gives one of a kind to every two who ask.
func shared(make func() func(uint64)) func() func(uint64) {
	asked, one := 0, make()
	return func() func(uint64) {
		if asked++; asked%2 == 1 {
			one = make()
		}
		return one
	}
}

func locked() func(uint64) {
	h := circllhist.New()
	return func(v uint64) { _ = h.RecordIntScale(int64(v), -9) }
}

// together returns the CPU time of a record of each of so many writers at once.
func together(writers int, make func() func(uint64), ns []uint64) float64 {
	const turns = 8
	var all sync.WaitGroup
	var spent atomic.Int64
	for range writers {
		record := make()
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begin := threadNs()
			for range turns {
				for _, v := range ns {
					record(v)
				}
			}
			spent.Add(threadNs() - begin)
		})
	}
	all.Wait()
	return float64(spent.Load()) / float64(writers*turns*len(ns))
}

// clocks reads the page that OGIVE_CLOCK_PAGE names, or the operating system's clock without one.
func clocks(rounds int) {
	c, err := clock.Open(os.Getenv("OGIVE_CLOCK_PAGE"))
	if err != nil {
		fmt.Println("\nclock: without a page,", err)
	}
	const many = 20_000
	var sum int64
	began := time.Now()
	times("clock", rounds, []contender{
		{"time.Since", many, func() { repeat(many, func() { sum += int64(time.Since(began)) }) }},
		{"time.Now", many, func() { repeat(many, func() { sum += int64(time.Now().Nanosecond()) }) }},
		{"Clock.Ticks", many, func() { repeat(many, func() { sum += int64(c.Ticks()) }) }},
		{"Clock.TicksOrdered", many, func() { repeat(many, func() { sum += int64(c.TicksOrdered()) }) }},
		{"Clock.NowUnordered", many, func() { repeat(many, func() { sum += c.NowUnordered() }) }},
		{"Clock.Now", many, func() { repeat(many, func() { sum += c.Now() }) }},
		{"Clock.Wall", many, func() { repeat(many, func() { sum += c.Wall() }) }},
		{"Clock.Bounded", many, func() { repeat(many, func() { sum += c.Bounded().Error }) }},
	})
	runtime.KeepAlive(sum)
}

// memory prints what the garbage collector holds for each of a hundred.
func memory() {
	const many = 100
	fmt.Printf("\nmemory, each of %d\n", many)
	for _, c := range []struct {
		name string
		make func() any
	}{
		{"hist.Local", func() any { return hist.NewLocal() }},
		{"hist.Recorder", func() any { return hist.NewRecorder() }},
		{"hdrhistogram-go, 2 digits", func() any { return hdr.New(1, hourNs, 2) }},
		{"hdrhistogram-go, 3 digits", func() any { return hdr.New(1, hourNs, 3) }},
		{"circonusllhist", func() any { return circllhist.New() }},
	} {
		kept := make([]any, many)
		before := held()
		for at := range kept {
			kept[at] = c.make()
		}
		fmt.Printf("%-38s %9d bytes\n", c.name, (held()-before)/many)
		runtime.KeepAlive(kept)
	}
}

func held() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func times(group string, rounds int, contenders []contender) {
	costs := make([][]float64, len(contenders))
	for round := range rounds + 1 {
		for at, c := range contenders {
			begin := threadNs()
			c.run()
			cost := float64(threadNs()-begin) / float64(c.operations)
			if round > 0 { // the first warms up
				costs[at] = append(costs[at], cost)
			}
		}
	}
	fmt.Printf("\n%s: %d rounds\n%-38s %9s %9s %9s %8s\n", group, rounds, "", "median ns", "least", "greatest", "ratio")
	for at, c := range contenders {
		ratios := make([]float64, rounds)
		for round := range ratios {
			ratios[round] = costs[at][round] / costs[0][round]
		}
		sorted := slices.Sorted(slices.Values(costs[at]))
		slices.Sort(ratios)
		fmt.Printf("%-38s %9.2f %9.2f %9.2f %8.2f\n", c.name, sorted[rounds/2], sorted[0], sorted[rounds-1], ratios[rounds/2])
	}
}

// threadNs returns the CPU time of this thread.
func threadNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, found := strings.CutPrefix(line, "model name\t: "); found {
			return strings.TrimSpace(name)
		}
	}
	return "?"
}
