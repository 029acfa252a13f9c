package prometheus

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ogive "github.com/ogive-monitoring/ogive/sdk/go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A registry of client_golang takes the collector, checks it, and serves exact counts at every bound.
func TestARegistryServesTheBuckets(t *testing.T) {
	collector := NewCollector(Options{Name: "login_seconds", Help: "How long a login takes.", Labels: []string{"route"}, Bounds: []float64{0.01, 0.002, 0.1}})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	login, err := collector.Recorder("/login")
	if err != nil {
		t.Fatal(err)
	}
	for _, ms := range []int{1, 1, 2, 9, 10, 99, 2000} {
		login.Record(time.Duration(ms) * time.Millisecond)
	}
	const expected = `
# HELP login_seconds How long a login takes.
# TYPE login_seconds histogram
login_seconds_bucket{route="/login",le="0.002"} 2
login_seconds_bucket{route="/login",le="0.01"} 4
login_seconds_bucket{route="/login",le="0.1"} 6
login_seconds_bucket{route="/login",le="+Inf"} 7
login_seconds_sum{route="/login"} 2.122
login_seconds_count{route="/login"} 7
`
	for range 2 { // scraping takes nothing away
		if err := testutil.GatherAndCompare(registry, strings.NewReader(expected)); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if _, err := collector.Recorder("/login", "GET"); !errors.Is(err, ErrLabels) {
		t.Fatal(err)
	}
	if again, _ := collector.Recorder("/login"); again != login {
		t.Fatal("the same values have another recorder")
	}
}

// Scrapes and goroutines that record at once: the counts only grow, and in the end every sample is there once.
func TestNothingIsLostBesideScrapes(t *testing.T) {
	collector := NewCollector(Options{Name: "work_seconds", Help: "Work."})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	site := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer site.Close()
	recorder, _ := collector.Recorder()
	var writers sync.WaitGroup
	const each, goroutines = 100_000, 3
	for range goroutines {
		writers.Go(func() {
			for n := range uint64(each) {
				recorder.RecordNanoseconds(n)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
		}
		response, err := http.Get(site.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	histogram := families[0].Metric[0].Histogram
	sum := float64(goroutines) * each * (each - 1) / 2 / 1e9
	if histogram.GetSampleCount() != goroutines*each || math.Abs(histogram.GetSampleSum()-sum) > sum*1e-12 {
		t.Fatal(histogram)
	}
	if len(histogram.Bucket) != 25 || histogram.Bucket[0].GetUpperBound() != 1e-6 || histogram.Bucket[24].GetUpperBound() != 100 {
		t.Fatal(histogram.Bucket)
	}
}

// What Prometheus scrapes and what the exporter takes are the same samples, each once for either.
func TestAnExporterHasEverySampleToo(t *testing.T) {
	exporter, err := ogive.Start("http://127.0.0.1:1", ogive.Options{Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	collector := NewCollector(Options{Name: "both_seconds", Help: "Both.", Exporter: exporter})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	recorder, err := collector.Recorder()
	if err != nil {
		t.Fatal(err)
	}
	taken := uint64(0)
	for round := range 3 {
		recorder.Record(time.Millisecond)
		families, err := registry.Gather()
		if err != nil || families[0].Metric[0].Histogram.GetSampleCount() != uint64(2*round+1) {
			t.Fatal(families, err)
		}
		recorder.Record(time.Second)
		taken += collector.series[""].take().Count()
	}
	if left := collector.series[""].take().Count(); taken != 6 || left != 0 {
		t.Fatalf("the exporter had %d samples, then %d", taken, left)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = exporter.Shutdown(ended)
	if _, err := collector.Recorder("x"); !errors.Is(err, ErrLabels) {
		t.Fatal(err)
	}
}
