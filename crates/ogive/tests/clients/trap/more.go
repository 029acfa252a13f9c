// Steps beyond the first program's: every other method by which the clients send, and what the server then answers.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	cgm "github.com/circonus-labs/circonus-gometrics/v3"
	"github.com/circonus-labs/go-trapcheck"
	"github.com/circonus-labs/go-trapmetrics"
)

var passed, failed int

// asked returns the value of a PromQL expression with one result, as its text; empty without one.
func asked(trap, query string) string {
	address, err := url.Parse(trap)
	must(err)
	answer, err := http.Get("http://" + address.Host + "/api/v1/query?query=" + url.QueryEscape(query))
	must(err)
	defer answer.Body.Close()
	var body struct {
		Data struct {
			Result []struct {
				Value [2]interface{} `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	must(json.NewDecoder(answer.Body).Decode(&body))
	if len(body.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(body.Data.Result[0].Value[1])
}

// expect compares what the server has.
func expect(trap, query, expected string) {
	found := asked(trap, query)
	if found == expected {
		passed++
		return
	}
	failed++
	fmt.Printf("step %s: found %q, expected %q\n", query, found, expected)
}

func is(name string, holds bool) {
	if holds {
		passed++
		return
	}
	failed++
	fmt.Println("step", name)
}

func moreGometrics(trap string) {
	config := &cgm.Config{Interval: "0", ResetCounters: "false", ResetGauges: "false", ResetHistograms: "true", ResetText: "false"}
	config.CheckManager.Check.SubmissionURL = trap
	sender, err := cgm.New(config)
	must(err)
	tags := cgm.Tags{{Category: "Zone", Value: "EU West"}, {Category: "k", Value: "ü\"\\"}}
	is("ready", sender.Ready())
	sender.IncrementByValue("mg_count", 5)
	sender.Add("mg_count", 6)
	sender.Set("mg_set", 77)
	sender.SetWithTags("mg_set_tagged", tags, 78)
	sender.IncrementByValueWithTags("mg_tagged", cgm.Tags{{Category: "host", Value: "a"}}, 3)
	sender.AddWithTags("mg_tagged", cgm.Tags{{Category: "host", Value: "a"}}, 4)
	sender.Set("mg_removed", 1)
	sender.RemoveCounter("mg_removed")
	sender.SetCounterFunc("mg_counter_func", func() uint64 { return 1 << 40 })
	sender.SetCounterFuncWithTags("mg_counter_func_tagged", cgm.Tags{{Category: "a", Value: "b"}}, func() uint64 { return 9 })
	sender.Gauge("mg_gauge_int", -4)
	sender.Gauge("mg_gauge_uint", uint64(math.MaxUint32))
	sender.SetGauge("mg_gauge_text", "12.25")
	sender.AddGauge("mg_gauge_added", 1.5)
	sender.AddGauge("mg_gauge_added", 2.25)
	sender.GaugeWithTags("mg_gauge_tagged", cgm.Tags{{Category: "host", Value: "b"}}, 1e-9)
	sender.SetGaugeFunc("mg_gauge_func", func() int64 { return -7 })
	sender.Gauge("mg_gone", 1)
	sender.RemoveGauge("mg_gone")
	sender.Timing("mg_timing", 12.5)
	sender.RecordDuration("mg_duration", 250*time.Millisecond)
	sender.RecordCountForValue("mg_counted", 0.125, 1000)
	sender.RecordValueWithTags("mg_values", cgm.Tags{{Category: "host", Value: "a"}}, -3)
	sender.RecordValueWithTags("mg_values", cgm.Tags{{Category: "host", Value: "a"}}, 0)
	sender.SetHistogramValue("mg_set_histogram", 2)
	sender.NewHistogram("mg_new").RecordValue(4)
	sender.SetText("mg_text", "tabs\tand\nlines ☃")
	sender.SetTextFunc("mg_text_func", func() string { return "made" })
	must(sender.Custom("mg_custom", cgm.Metric{Type: "I", Value: -12}))
	recorder := httptest.NewRecorder()
	sender.TrackHTTPLatency("/items", func(http.ResponseWriter, *http.Request) {})(recorder, httptest.NewRequest("GET", "/items", nil))
	sender.SetSubmitTimestamp(time.Now().Add(-time.Minute))
	sender.Flush()
	for query, expected := range map[string]string{
		"mg_count": "11", "mg_set": "77", `mg_set_tagged{zone="EU West"}`: "78", `mg_tagged{host="a"}`: "7", "count(mg_removed)": "",
		"mg_counter_func": "1099511627776", `mg_counter_func_tagged{a="b"}`: "9", "mg_gauge_int": "-4", "mg_gauge_uint": "4294967295",
		"mg_gauge_text": "12.25", "mg_gauge_added": "3.75", `mg_gauge_tagged{host="b"}`: "1e-09", "mg_gauge_func": "-7", "count(mg_gone)": "",
		"histogram_count(sum_over_time(mg_timing[5m]))": "1", "histogram_count(sum_over_time(mg_duration[5m]))": "1",
		"histogram_count(sum_over_time(mg_counted[5m]))": "1000", "histogram_count(sum_over_time(mg_values[5m]))": "2",
		"histogram_count(sum_over_time(mg_set_histogram[5m]))": "1", "histogram_count(sum_over_time(mg_new[5m]))": "1", "mg_custom": "-12",
		"histogram_count(sum_over_time(go_HTTP_GET__items_latency[5m]))": "1",
	} {
		expect(trap, query, expected)
	}
	// What is not reset is sent again, and a histogram that is has what came since.
	sender.Increment("mg_count")
	sender.RecordCountForValue("mg_counted", 0.125, 24)
	sender.SetSubmitTimestamp(time.Now())
	sender.Flush()
	expect(trap, "mg_count", "12")
	expect(trap, "histogram_count(sum_over_time(mg_counted[5m]))", "1024")
	output, err := sender.PromOutput()
	must(err)
	is("prom output", strings.Contains(output.String(), "mg_gauge_int -4"))
}

func moreTrapmetrics(trap string, check *trapcheck.TrapCheck) {
	sender, err := trapmetrics.New(&trapmetrics.Config{Trap: check, BufferSize: 64})
	must(err)
	tags := trapmetrics.Tags{{Category: "b", Value: "x:y"}, {Category: "a", Value: "1,2"}}
	must(sender.CounterIncrement("mt_count", tags))
	must(sender.CounterAdjustByValue("mt_count", tags, 9))
	must(sender.CounterAdjustByValue("mt_count", tags, -3))
	must(sender.GaugeSet("mt_int", nil, -5, nil))
	must(sender.GaugeSet("mt_uint", nil, uint64(1)<<53, nil))
	must(sender.GaugeSet("mt_float", nil, 2.5e-300, nil))
	must(sender.GaugeSet("mt_added", nil, 1.0, nil))
	must(sender.GaugeAdd("mt_added", nil, 2.0, nil))
	must(sender.TextSet("mt_text", tags, strings.Repeat("long ", 400), nil))
	must(sender.HistogramRecordTiming("mt_timing", nil, 0.002))
	must(sender.HistogramRecordDuration("mt_duration", nil, 3*time.Millisecond))
	must(sender.HistogramRecordCountForValue("mt_counted", tags, 300, 7))
	must(sender.CumulativeHistogramRecordCountForValue("mt_cumulative", nil, 10, 1.5))
	must(sender.CumulativeHistogramRecordCountForValue("mt_cumulative", nil, 20, 2.5))
	_, err = sender.CounterFetch("mt_count", tags)
	must(err)
	_, err = sender.HistogramFetch("mt_timing", nil)
	must(err)
	body, err := sender.JSONMetrics()
	must(err)
	result, err := sender.FlushRawJSON(context.Background(), body)
	must(err)
	is("raw json", result.Error == "none" || result.Error == "")
	// The same bytes again count once.
	_, err = sender.FlushRawJSON(context.Background(), body)
	must(err)
	var buffer bytes.Buffer
	must(sender.GaugeSet("mt_buffered", nil, 1, nil))
	_, err = sender.FlushWithBuffer(context.Background(), buffer)
	must(err)
	for query, expected := range map[string]string{
		`mt_count{a="1,2", b="x:y"}`: "7", "mt_int": "-5", "mt_uint": "9007199254740992", "mt_float * 1e300": "2.5", "mt_added": "3",
		"histogram_count(sum_over_time(mt_timing[5m]))": "1", "histogram_count(sum_over_time(mt_duration[5m]))": "1",
		"histogram_count(sum_over_time(mt_counted[5m]))": "300", "histogram_count(mt_cumulative)": "30", "mt_buffered": "1",
	} {
		expect(trap, query, expected)
	}
}

// What a check refuses, and what stands beside it.
func moreBodies(trap string, check *trapcheck.TrapCheck) {
	for body, stats := range map[string]uint64{
		`{"mb_a": {"_type": "n", "_value": "12.5"}, "mb_a2": null}`:                   1,
		`{"mb_list": [1, 2, 3]}`:                                                      3,
		`{"mb_nested": {"x": {"y": {"_type": "L", "_value": 18446744073709551615}}}}`: 1,
		`{"mb_h": {"_type": "h", "_value": ["H[1.2e-03]=5", "H[2]=1", 4]}}`:           1,
		`{"mb_flag": {"_type": "s", "_value": "on", "_fl": 2}}{"mb_second": 4}`:       2,
		`{"mb_bool": true, "mb_text": "x", "mb_number": 1.25e3}`:                      3,
	} {
		result, err := check.SendMetrics(context.Background(), *bytes.NewBufferString(body))
		if err != nil || result.Stats != stats {
			fmt.Println("body", body, result, err)
		}
		is(body, err == nil && result.Stats == stats)
	}
	expect(trap, "mb_a", "12.5")
	expect(trap, "histogram_count(sum_over_time(mb_h[5m]))", "7")
	expect(trap, "mb_second", "4")
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	for _, body := range []string{deep, `{"x": `, "nonsense"} {
		answer, err := http.Post(trap, "application/json", strings.NewReader(body))
		must(err)
		answer.Body.Close()
		is(body[:min(len(body), 20)], answer.StatusCode == 406)
	}
	answer, err := http.Post(trap+"wrong", "application/json", strings.NewReader("{}"))
	must(err)
	answer.Body.Close()
	is("a wrong secret", answer.StatusCode == 403)
}

func more(trap string, check *trapcheck.TrapCheck) {
	moreGometrics(trap)
	moreTrapmetrics(trap, check)
	moreBodies(trap, check)
	fmt.Println("more", passed, "passed", failed, "failed")
}
