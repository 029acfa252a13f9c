// Package prometheus shows Ogive's recorders to a registry of client_golang, for programs that Prometheus scrapes, and sends the
// same samples to an Ogive server if there is an exporter. It is a module of its own: only its users need client_golang.
package prometheus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	ogive "github.com/ogive-monitoring/ogive/sdk/go"
	"github.com/ogive-monitoring/ogive/sdk/go/hist"
	"github.com/prometheus/client_golang/prometheus"
)

// seriesMax bounds what a program's label values can make of the memory: each series is 18 KiB of counters.
const seriesMax = 10_000

// Errors of adding a recorder.
var (
	ErrLabels = errors.New("ogive/prometheus: one value for each label")
	ErrSeries = fmt.Errorf("ogive/prometheus: more than %d series", seriesMax)
)

// Options of a collector.
type Options struct {
	// Name of the metric, such as login_seconds, and its help text.
	Name, Help string
	// Labels are the names of the labels whose values a recorder gives.
	Labels []string
	// Bounds are the classic buckets' upper bounds, in seconds: 1, 2 and 5 of each decade from 1 µs to 100 s unless given. Numbers
	// of two decimal digits are edges of bins, so that counts are exact; with others the bin of the bound is above it.
	Bounds []float64
	// Exporter sends every sample to Ogive too, once, as NAME with the same labels. It may be nil.
	Exporter *ogive.Exporter
}

// Collector is a prometheus.Collector of recorders. It is safe for concurrent use.
type Collector struct {
	options Options
	desc    *prometheus.Desc
	mutex   sync.Mutex
	series  map[string]*series
}

type series struct {
	values   []string
	recorder *hist.Recorder
	mutex    sync.Mutex
	total    hist.Histogram // since the beginning, for Prometheus
	pending  *hist.Histogram
	exported bool
}

// NewCollector returns a collector to register.
func NewCollector(options Options) *Collector {
	options.Labels, options.Bounds = slices.Clone(options.Labels), slices.Sorted(slices.Values(options.Bounds))
	if len(options.Bounds) == 0 {
		for _, decade := range []string{"e-6", "e-5", "e-4", "e-3", "e-2", "e-1", "e0", "e1"} {
			for _, digit := range []string{"1", "2", "5"} {
				var bound float64
				_, _ = fmt.Sscan(digit+decade, &bound)
				options.Bounds = append(options.Bounds, bound)
			}
		}
		options.Bounds = append(options.Bounds, 100)
	}
	return &Collector{options: options, desc: prometheus.NewDesc(options.Name, options.Help, options.Labels, nil), series: map[string]*series{}}
}

// Recorder returns the recorder of these values of the labels, the same one for the same values.
func (c *Collector) Recorder(values ...string) (*hist.Recorder, error) {
	if len(values) != len(c.options.Labels) {
		return nil, fmt.Errorf("%w: %q for %q", ErrLabels, values, c.options.Labels)
	}
	key := strings.Join(values, "\xff")
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if s := c.series[key]; s != nil {
		return s.recorder, nil
	}
	if len(c.series) >= seriesMax {
		return nil, ErrSeries
	}
	s := &series{values: slices.Clone(values), recorder: hist.NewRecorder(), pending: &hist.Histogram{}, exported: c.options.Exporter != nil}
	if s.exported {
		var pairs []string
		for at, label := range c.options.Labels {
			pairs = append(pairs, label, values[at])
		}
		if err := c.options.Exporter.Cells(c.options.Name, "s", s.take, pairs...); err != nil {
			return nil, err
		}
	}
	c.series[key] = s
	return s.recorder, nil
}

// drain moves what was recorded to both who want it. The caller holds the mutex.
func (s *series) drain() {
	taken := s.recorder.Take()
	s.total.Merge(taken)
	if s.exported {
		s.pending.Merge(taken)
	}
}

// take gives the exporter what it has not had.
func (s *series) take() *hist.Histogram {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.drain()
	taken := s.pending
	s.pending = &hist.Histogram{}
	return taken
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.desc }

// Collect implements prometheus.Collector: a classic histogram of each series, cumulative since the beginning.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	c.mutex.Lock()
	all := slices.Collect(maps.Values(c.series))
	c.mutex.Unlock()
	for _, s := range all {
		s.mutex.Lock()
		s.drain()
		buckets := make(map[float64]uint64, len(c.options.Bounds))
		for _, bound := range c.options.Bounds {
			buckets[bound] = s.total.CountBelowExclusive(bound)
		}
		count := s.total.Count()
		sum, _ := s.total.ExactSum()
		s.mutex.Unlock()
		metrics <- prometheus.MustNewConstHistogram(c.desc, count, sum, buckets, s.values...)
	}
}
