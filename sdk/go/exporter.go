// Package ogive measures a Go program and sends what it measured to an Ogive server: one histogram cell a second for each
// recorder, numbered and kept until it is acknowledged, so that each counts exactly once.
package ogive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ogive-monitoring/ogive/sdk/go/hist"
	"github.com/ogive-monitoring/ogive/sdk/go/internal/wire"
)

// Options of an exporter. The zero value is what most programs want.
type Options struct {
	// Labels are on every series: the service, the instance.
	Labels map[string]string
	// Token says who sends, to a server with a web configuration.
	Token string
	// Tenant is whose data it is; the server's default when empty.
	Tenant string
	// Interval is the width of a cell: one second when zero, and at least 100 ms.
	Interval time.Duration
	// KeepBytes bounds what waits for a server that is away: 16 MiB when zero. The oldest batches then make room, counted.
	KeepBytes int
	// OnError hears of each kind of failure once until the server takes a batch again. It may be nil.
	OnError func(error)
}

// Status is what an exporter did: Taken is always Acknowledged + Waiting + the sums of Dropped and Rejected, in samples.
type Status struct {
	Taken        uint64
	Acknowledged uint64
	Waiting      uint64
	WaitingBytes int
	Dropped      map[string]uint64 // by reason: "full", "refused", "shutdown"
	Rejected     map[string]uint64 // by the server's reason
}

// Exporter takes a cell of each series at the end of every interval and sends them. It is safe for concurrent use.
type Exporter struct {
	options Options
	outbox  *outbox
	stop    context.CancelFunc
	done    sync.WaitGroup

	mutex  sync.Mutex
	series []*series
}

// series is something that gives a sample at the end of an interval.
type series struct {
	labels      []string // name, value, name, value ...
	unit        string
	kind        wire.Kind
	temporality wire.Temporality
	take        func() (sample, bool)
}

// Errors of adding a series and of starting.
var (
	ErrLabels = errors.New("ogive: labels are pairs of a name and a value, each name once")
	ErrExists = errors.New("ogive: the series exists already")
	ErrServer = errors.New("ogive: the server's address is http://HOST:PORT or https://HOST:PORT")
)

// Start begins to export to a server such as http://127.0.0.1:6448. Call [Exporter.Shutdown] at the end, so that the last
// cells are sent too.
func Start(server string, options Options) (*Exporter, error) {
	address, err := url.Parse(server)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, fmt.Errorf("%w: %q", ErrServer, server)
	}
	if options.Interval == 0 {
		options.Interval = time.Second
	}
	options.Interval = max(options.Interval, 100*time.Millisecond)
	if options.KeepBytes == 0 {
		options.KeepBytes = 16 << 20
	}
	var source [16]byte
	_, _ = rand.Read(source[:]) // never fails
	ctx, stop := context.WithCancel(context.Background())
	e := &Exporter{options: options, stop: stop, outbox: newOutbox(address.JoinPath("v1/batch").String(), source, options)}
	e.done.Go(func() { e.takeCells(ctx) })
	e.done.Go(e.outbox.send)
	return e, nil
}

// Recorder adds a histogram of durations, in seconds, and returns what records it. Name it ..._seconds; labels are pairs.
func (e *Exporter) Recorder(name string, labels ...string) (*hist.Recorder, error) {
	recorder := hist.NewRecorder()
	return recorder, e.Cells(name, "s", recorder.Take, labels...)
}

// Cells adds a histogram that take gives and empties each interval: what a hist.Local or code of your own recorded.
func (e *Exporter) Cells(name, unit string, take func() *hist.Histogram, labels ...string) error {
	return e.add(name, labels, &series{unit: unit, kind: wire.KindHistogram, temporality: wire.TemporalityDelta,
		take: func() (sample, bool) {
			cell := take()
			return sample{cell: cell}, cell != nil && cell.Count() > 0
		}})
}

// Gauge adds a number that read gives at the end of each interval.
func (e *Exporter) Gauge(name string, read func() float64, labels ...string) error {
	return e.add(name, labels, &series{kind: wire.KindFloat, temporality: wire.TemporalityGauge,
		take: func() (sample, bool) { return sample{float: read()}, true }})
}

// Counter adds a number that only grows, as read gives it. Name it ..._total.
func (e *Exporter) Counter(name string, read func() float64, labels ...string) error {
	return e.add(name, labels, &series{kind: wire.KindFloat, temporality: wire.TemporalityCumulative,
		take: func() (sample, bool) { return sample{float: read()}, true }})
}

func (e *Exporter) add(name string, labels []string, s *series) error {
	all := maps.Clone(e.options.Labels)
	if all == nil {
		all = map[string]string{}
	}
	if len(labels)%2 != 0 {
		return fmt.Errorf("%w: %q", ErrLabels, labels)
	}
	seen := map[string]bool{}
	for at := 0; at < len(labels); at += 2 {
		if seen[labels[at]] || labels[at] == "__name__" {
			return fmt.Errorf("%w: %q", ErrLabels, labels)
		}
		seen[labels[at]], all[labels[at]] = true, labels[at+1]
	}
	all["__name__"] = name
	for _, label := range slices.Sorted(maps.Keys(all)) {
		s.labels = append(s.labels, label, all[label])
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, other := range e.series {
		if slices.Equal(other.labels, s.labels) {
			return fmt.Errorf("%w: %s", ErrExists, strings.Join(s.labels, " "))
		}
	}
	e.series = append(e.series, s)
	return nil
}

// Status returns what was taken, acknowledged, dropped, and what waits.
func (e *Exporter) Status() Status { return e.outbox.status() }

// Shutdown takes the cell that has begun, and sends what waits until ctx ends. What the server cannot have by then is
// counted as dropped, and named in the error.
func (e *Exporter) Shutdown(ctx context.Context) error {
	e.outbox.closeWith(ctx)
	e.stop()
	e.done.Wait()
	e.outbox.end()
	if left := e.outbox.dropRest(); left > 0 {
		return fmt.Errorf("ogive: %d samples were not acknowledged before the shutdown ended: %w", left, context.Cause(ctx))
	}
	return nil
}

// takeCells takes a cell at the end of each interval of the wall clock, and one more when it ends.
func (e *Exporter) takeCells(ctx context.Context) {
	defer e.outbox.finish()
	for {
		end := time.Now().Truncate(e.options.Interval).Add(e.options.Interval)
		timer := time.NewTimer(time.Until(end))
		select {
		case <-ctx.Done():
			timer.Stop()
			e.takeAll(end)
			return
		case <-timer.C:
			e.takeAll(end)
		}
	}
}

func (e *Exporter) takeAll(end time.Time) {
	e.mutex.Lock()
	all := slices.Clone(e.series)
	e.mutex.Unlock()
	samples := make([]sample, 0, len(all))
	for _, s := range all {
		if taken, some := s.take(); some {
			taken.series = s
			samples = append(samples, taken)
		}
	}
	e.outbox.push(end, samples)
}
