// Sends metrics to an HTTPTrap address with the clients that Circonus published, and prints what each heard.
//
// Usage: trap URL
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	cgm "github.com/circonus-labs/circonus-gometrics/v3"
	"github.com/circonus-labs/go-apiclient"
	"github.com/circonus-labs/go-trapcheck"
	"github.com/circonus-labs/go-trapmetrics"
)

func main() {
	url := os.Args[1]
	gometrics(url)
	trap, err := trapcheck.New(&trapcheck.Config{
		Client:        &apiclient.API{},
		CheckConfig:   &apiclient.CheckBundle{CheckUUIDs: []string{"unused"}},
		SubmissionURL: url,
	})
	must(err)
	check(trap)
	metrics(trap)
	more(url, trap)
}

// circonus-gometrics: counters, gauges, texts and histograms in one JSON map without times.
func gometrics(url string) {
	config := &cgm.Config{Interval: "0"}
	config.CheckManager.Check.SubmissionURL = url
	sender, err := cgm.New(config)
	must(err)
	for range 7 {
		sender.Increment("gometrics_requests")
	}
	sender.Gauge("gometrics_depth", 12.5)
	sender.SetText("gometrics_state", "all is \"well\"")
	for value := range 100 {
		sender.RecordValue("gometrics_seconds", float64(value+1)/1000)
	}
	sender.IncrementWithTags("gometrics_tagged", cgm.Tags{{Category: "host", Value: "a:b"}, {Category: "dc", Value: "1"}})
	sender.Flush()
	// A second flush has what was measured since, and nothing else.
	sender.RecordValue("gometrics_seconds", 0.5)
	sender.Flush()
	fmt.Println("gometrics sent")
}

// go-trapcheck: a body of several documents' worth of metrics, compressed as it is long.
func check(trap *trapcheck.TrapCheck) {
	body := bytes.NewBufferString("{")
	for metric := range 200 {
		fmt.Fprintf(body, `"check_%03d": {"_type": "n", "_value": %d},`, metric, metric)
	}
	body.WriteString(`"check_levels": {"a": [1, {"b": 2}]}}`)
	result, err := trap.SendMetrics(context.Background(), *body)
	must(err)
	fmt.Printf("trapcheck stats=%d filtered=%d error=%q\n", result.Stats, result.Filtered, result.Error)
}

// go-trapmetrics: every metric with its time, so that one name stands in a body several times.
func metrics(trap *trapcheck.TrapCheck) {
	sender, err := trapmetrics.New(&trapmetrics.Config{Trap: trap})
	must(err)
	tags := trapmetrics.Tags{{Category: "route", Value: "/login"}}
	now := time.Now().Truncate(time.Second)
	for second := range 3 {
		at := now.Add(time.Duration(second-3) * time.Second)
		must(sender.GaugeSet("trapmetrics_depth", tags, float64(second), &at))
	}
	must(sender.CounterIncrementByValue("trapmetrics_requests", tags, 41))
	must(sender.TextSet("trapmetrics_state", nil, "fine", nil))
	for range 50 {
		must(sender.HistogramRecordValue("trapmetrics_seconds", tags, 0.012))
	}
	must(sender.CumulativeHistogramRecordCountForValue("trapmetrics_all_seconds", tags, 9, 0.25))
	result, err := sender.Flush(context.Background())
	must(err)
	fmt.Printf("trapmetrics stats=%d filtered=%d error=%q\n", result.Stats, result.Filtered, result.Error)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
