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
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
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

// writers measures what a record costs by the wall clock when two goroutines record at once, into one recorder and into one each.
func writers(ns []uint64, rounds int) {
	fmt.Printf("\nwriters at once: %d rounds, ns of wall time a record of each\n%-38s %9s %9s %9s\n", rounds, "", "median", "least", "greatest")
	for _, c := range []struct {
		name    string
		writers int
		shared  bool
	}{{"Recorder, 1 writer", 1, true}, {"Recorder, 2 writers of one", 2, true}, {"Local, 1 writer", 1, false}, {"Local, 2 writers of one each", 2, false}} {
		costs := make([]float64, 0, rounds)
		recorder := hist.NewRecorder()
		for range rounds {
			var all sync.WaitGroup
			begin := time.Now()
			for range c.writers {
				local := hist.NewLocal()
				all.Go(func() {
					for range 8 {
						for _, v := range ns {
							if c.shared {
								recorder.RecordNanoseconds(v)
							} else {
								local.RecordNanoseconds(v)
							}
						}
					}
				})
			}
			all.Wait()
			costs = append(costs, float64(time.Since(begin).Nanoseconds())/float64(8*len(ns)))
		}
		slices.Sort(costs)
		fmt.Printf("%-38s %9.2f %9.2f %9.2f\n", c.name, costs[rounds/2], costs[0], costs[rounds-1])
	}
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
