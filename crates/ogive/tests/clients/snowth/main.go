// Drives an IRONdb node with the client that Circonus published, and prints what each call gave.
//
// Usage: snowth URL SECONDS, where SECONDS is a multiple of 3,600 that lies in the past.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/circonus-labs/gosnowth"
	"github.com/circonus-labs/gosnowth/fb/fetch"
	"github.com/circonus-labs/gosnowth/fb/noit"
	"github.com/openhistogram/circonusllhist"
)

const check = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e"

var (
	client *gosnowth.SnowthClient
	base   time.Time
)

func main() {
	seconds, err := strconv.ParseInt(os.Args[2], 10, 64)
	must(err)
	base = time.Unix(seconds, 0)
	client, err = gosnowth.NewClient(context.Background(), gosnowth.NewConfig(os.Args[1]))
	must(err)
	node()
	writes()
	reads()
	finds()
	tags()
	fetches()
	queries()
	graphite()
	rest()
	refusals()
	more()
}

// What the client asks of a node before it uses it.
func node() {
	state, err := client.GetNodeState()
	must(err)
	gossip, err := client.GetGossipInfo()
	must(err)
	topology, err := client.GetTopologyInfo()
	must(err)
	first := topology.Nodes[0]
	fmt.Println("state", (*gossip)[0].ID == state.Identity, first.ID == state.Identity, topology.Hash == state.Current)
	located, err := client.LocateMetric(check, "a`b c|ST[d:e/f]")
	must(err)
	remote, err := client.LocateMetricRemote(check, "a`b c|ST[d:e/f]", nil)
	must(err)
	fmt.Println("located", len(located), located[0].ID == state.Identity, remote[0].ID == state.Identity)
	fmt.Println("activated", client.ActivateTopology(topology.Hash, client.ListActiveNodes()[0]))
	stats, err := client.GetStats()
	must(err)
	fmt.Println("stats", stats.Identity() == state.Identity, stats.CurrentTopology() == state.Current)
}

func at(seconds int) time.Time { return base.Add(time.Duration(seconds) * time.Second) }

// A list of numbers a minute, a histogram and texts, in FlatBuffers and in lines; each twice, as a client that heard nothing sends it.
func writes() {
	list := &noit.MetricListT{}
	add := func(seconds int, name string, tags []string, kind noit.MetricValueUnion, value interface{}) {
		list.Metrics = append(list.Metrics, &noit.MetricT{
			Timestamp: uint64(at(seconds).UnixMilli()), CheckName: "test", CheckUuid: check, AccountId: 1,
			Value: &noit.MetricValueT{Name: name, StreamTags: tags, Value: &noit.MetricValueUnionT{Type: kind, Value: value}},
		})
	}
	for minute := range 10 {
		add(60*minute, "load", []string{"host:a", "dc:eu"}, noit.MetricValueUnionDoubleValue, &noit.DoubleValueT{Value: float64(minute)})
		add(60*minute, "load", []string{"host:b", "dc:eu"}, noit.MetricValueUnionIntValue, &noit.IntValueT{Value: int32(-minute)})
		buckets := []*noit.HistogramBucketT{{Val: 23, Exp: -3, Count: 2}, {Val: 10, Exp: 0, Count: uint64(minute + 1)}}
		add(60*minute, "latency`seconds", []string{"host:a"}, noit.MetricValueUnionHistogram, &noit.HistogramT{Buckets: buckets})
	}
	add(0, "big", nil, noit.MetricValueUnionUlongValue, &noit.UlongValueT{Value: 1 << 40})
	add(0, "state", nil, noit.MetricValueUnionStringValue, &noit.StringValueT{Value: "on"})
	add(90, "state", nil, noit.MetricValueUnionStringValue, &noit.StringValueT{Value: "on"})
	add(120, "state", nil, noit.MetricValueUnionStringValue, &noit.StringValueT{Value: "off"})
	add(60, "big", nil, noit.MetricValueUnionAbsentNumericValue, &noit.AbsentNumericValueT{})
	for range 2 {
		answer, err := client.WriteRawMetricList(list, nil)
		must(err)
		fmt.Println("raw", *answer)
	}
	id := "example.com`http`c_1_987654::http`" + check
	lines := fmt.Sprintf("M\t%d.250\t%s\tline a+b\tn\t1.5\nH1\t%d.000\t%s\tline_histogram\tAAFQ/gAB\n", at(0).Unix(), id, at(0).Unix(), id)
	for range 2 {
		answer, err := client.WriteRaw(strings.NewReader(lines), false, 2)
		must(err)
		fmt.Println("lines", *answer)
	}
	must(client.WriteText([]gosnowth.TextData{{Metric: "old_text", ID: check, Offset: fmt.Sprint(at(0).Unix()), Value: "hello"}}))
	must(client.WriteNNT([]gosnowth.NNTData{{Metric: "old_nnt", ID: check, Offset: at(0).Unix(), Count: 5, Value: 100, Counter: 3}}))
	must(client.WriteNumeric([]gosnowth.NumericWrite{{Metric: "old_numeric", ID: check, Offset: at(0).Unix(), Count: 2, Value: 7,
		Parts: gosnowth.NumericParts{Period: 30, Data: []gosnowth.NumericPartsData{{Count: 1, Value: 6}, {Count: 1, Value: 8}}}}}))
	histogram := circonusllhist.New()
	must(histogram.RecordValues(1.25, 3))
	data := []gosnowth.HistogramData{{AccountID: 1, Metric: "old_histogram", ID: check, Offset: at(60).Unix(), Period: 60, Histogram: histogram}}
	must(client.WriteHistogram(data))
	must(client.WriteHistogram(data))
	fmt.Println("written")
}

func reads() {
	raw, err := client.ReadRawNumericValues(at(0), at(179), check, "load|ST[dc:eu,host:a]")
	must(err)
	fmt.Print("raw values")
	for _, value := range raw {
		fmt.Print(" ", value.Time.Unix()-base.Unix(), "=", value.Value)
	}
	fmt.Println()
	rollups, err := client.ReadRollupValues(check, "load|ST[host:b,dc:eu]", 5*time.Minute, at(0), at(900), "average")
	must(err)
	fmt.Print("rollups")
	for _, value := range rollups {
		if value.Value == nil {
			fmt.Print(" none")
		} else {
			fmt.Print(" ", value.Time.Unix()-base.Unix(), "=", *value.Value)
		}
	}
	fmt.Println()
	all, err := client.ReadRollupAllValues(check, "load|ST[host:a,dc:eu]", 5*time.Minute, at(0), at(299))
	must(err)
	fmt.Printf("all %d %+v\n", len(all), *all[0].Data)
	plus, err := client.ReadRollupValues(check, "line a+b", time.Minute, at(0), at(30), "")
	must(err)
	fmt.Println("plus", *plus[0].Value)
	histograms, err := client.ReadHistogramValues(check, "latency`seconds|ST[host:a]", 5*time.Minute, at(0), at(599))
	must(err)
	fmt.Println("histograms", shown(histograms))
	old, err := client.ReadHistogramValues(check, "old_histogram", time.Minute, at(0), at(119))
	must(err)
	fmt.Println("old histogram", len(old), old[0].Time.Unix()-base.Unix(), old[0].Data)
	texts, err := client.ReadTextValues(check, "state", at(100), at(600))
	must(err)
	for _, text := range texts {
		fmt.Print("text ", text.Time.Unix()-base.Unix(), "=", *text.Value, " ")
	}
	fmt.Println()
	numbers, err := client.ReadNNTValues(at(0), at(60), 60, "count", check, "old_nnt")
	must(err)
	allNNT, err := client.ReadNNTAllValues(at(0), at(60), 60, check, "old_nnt")
	must(err)
	fmt.Println("nnt", numbers[0].Value, allNNT[0].Count, allNNT[0].Value, allNNT[0].Counter)
	numeric, err := client.ReadNumericValues(at(0), at(60), 60, "average", check, "old_numeric")
	must(err)
	fmt.Println("numeric", len(numeric), numeric[0].Value)
}

func finds() {
	options := &gosnowth.FindTagsOptions{Activity: 1, Latest: 1}
	found, err := client.FindTags(1, "and(__name:load,host:*)", options)
	must(err)
	for _, item := range found.Items {
		activity := fmt.Sprint(item.Activity[0][0]-base.Unix(), " ", item.Activity[0][1]-base.Unix())
		fmt.Println("found", item.MetricName, item.Type, item.AccountID, activity, *item.Latest.Numeric[0].Value)
	}
	options = &gosnowth.FindTagsOptions{CountOnly: 1}
	found, err = client.FindTags(1, "or(host:a,__name:/^old_/)", options)
	must(err)
	fmt.Println("count", found.Count)
	found, err = client.FindTags(2, "and(host:*)", &gosnowth.FindTagsOptions{})
	must(err)
	fmt.Println("of another account", found.Count)
	found, err = client.FindTags(1, "and(dc:eu)", &gosnowth.FindTagsOptions{Limit: 1, Start: at(0), End: at(600)})
	must(err)
	fmt.Println("limited", len(found.Items), found.Count)
	categories, err := client.FindTagCats(1, "and(__name:load)")
	must(err)
	values, err := client.FindTagVals(1, "and(__name:load)", "host")
	must(err)
	fmt.Println("categories", categories, "values", values)
	_, err = client.FindTags(1, "and(host:a", &gosnowth.FindTagsOptions{})
	fmt.Println("wrong query", strings.Contains(err.Error(), "[400]"), strings.Contains(err.Error(), "closing parenthesis"))
}

func tags() {
	changed, err := client.UpdateCheckTags(check, []string{"team:storage", "tier:one two"})
	must(err)
	before, err := client.GetCheckTags(check)
	must(err)
	found, err := client.FindTags(1, "and(team:storage,__name:load)", &gosnowth.FindTagsOptions{})
	must(err)
	fmt.Println("check tags", changed, before[check], found.Count, found.Items[0].CheckTags)
	_, err = client.UpdateCheckTags(check, []string{"team:network"})
	must(err)
	after, err := client.GetCheckTags(check)
	must(err)
	must(client.DeleteCheckTags(check))
	none, err := client.GetCheckTags(check)
	must(err)
	fmt.Println("check tags", after[check], none[check])
}

// Columns in JSON and in FlatBuffers.
func fetches() {
	answer, err := client.FetchValues(&gosnowth.FetchQuery{Start: at(0), Period: 5 * time.Minute, Count: 3,
		Streams: []gosnowth.FetchStream{
			{UUID: check, Name: "load|ST[host:a,dc:eu]", Kind: "numeric", Label: "a", Transform: "average"},
			{UUID: check, Name: "load|ST[host:b,dc:eu]", Kind: "numeric", Label: "b", Transform: "average"}},
		Reduce: []gosnowth.FetchReduce{{Label: "all", Method: "sum"}}})
	must(err)
	fmt.Print("fetch ", answer.Ver, " ", answer.Head.Count, " ", answer.Head.Period, " ", answer.Meta[0].Label, answer.Meta[0].Tags)
	for _, value := range answer.Data[0].Numeric() {
		if value == nil {
			fmt.Print(" none")
		} else {
			fmt.Print(" ", *value)
		}
	}
	fmt.Println()
	answer, err = client.FetchValues(&gosnowth.FetchQuery{Start: at(0), Period: 5 * time.Minute, Count: 1,
		Streams: []gosnowth.FetchStream{
			{UUID: check, Name: "latency`seconds|ST[host:a]", Kind: "histogram", Transform: "none"},
			{UUID: check, Name: "state", Kind: "text", Transform: "none"}},
		Reduce: []gosnowth.FetchReduce{{Label: "all", Method: "pass"}}})
	must(err)
	fmt.Println("fetch", *answer.Data[0].Histogram()[0], *answer.Data[1].Text()[0], answer.Meta[0].Kind)
	uuid, err := hex.DecodeString(strings.ReplaceAll(check, "-", ""))
	must(err)
	flat, err := client.FetchValuesFb(client.ListActiveNodes()[0], &fetch.FetchT{StartMs: uint64(at(0).UnixMilli()), PeriodMs: 300_000, Count: 2,
		Streams: []*fetch.StreamRequestT{
			{CheckUuid: uuid, Name: "latency`seconds|ST[host:a]", Kind: fetch.KindHIST, Transform: "count", Label: "n"},
			{CheckUuid: uuid, Name: "latency`seconds|ST[host:a]", Kind: fetch.KindHIST, Transform: "none"},
			{CheckUuid: uuid, Name: "state", Kind: fetch.KindTEXT, Transform: "none"}},
		Reduce: []*fetch.ReduceRequestT{{Label: "all", Method: "pass"}}})
	must(err)
	numbers := flat.Columns[0].Data.Value.(*fetch.NumericSeriesT).Values
	histogram := flat.Columns[1].Data.Value.(*fetch.HistSeriesT).Values[0].Buckets
	text := flat.Columns[2].Data.Value.(*fetch.TextSeriesT).Values[0].Entries[2]
	fmt.Println("flat", flat.Head.Count, flat.Meta[0].Label, numbers, len(histogram), *histogram[0], *text)
	_, err = client.FetchValues(&gosnowth.FetchQuery{Start: at(0), Period: time.Minute, Count: 1,
		Streams: []gosnowth.FetchStream{{UUID: check, Name: "load", Kind: "numeric", Transform: "what"}}})
	fmt.Println("fetch refused", strings.Contains(err.Error(), "[400]"))
}

// CAQL, and PromQL through its extension.
func queries() {
	caql := func(text string) string {
		answer, err := client.GetCAQLQuery(&gosnowth.CAQLQuery{Query: text, Start: at(0).Unix(), End: at(600).Unix(), Period: 300, AccountID: 1})
		if err != nil {
			return err.Error()
		}
		shown, err := json.Marshal(answer.Data)
		must(err)
		return fmt.Sprint(len(answer.Meta), " ", string(shown))
	}
	fmt.Println("caql", caql("find('load', 'and(dc:eu)') | stats:max()"))
	fmt.Println("caql", caql("find:histogram('latency*') | histogram:count()"))
	fmt.Println("caql", caql("find:histogram('latency*') | histogram:percentile(1,99) | each:round()"))
	fmt.Println("caql", caql("find('load') | top(1) | label('top')"))
	fmt.Println("caql refused", strings.Contains(caql("find('load') | histograms()"), "there is no such function"))
	extensions, err := client.GetLuaExtensions()
	must(err)
	fmt.Println("extensions", extensions["public/caql_v1"].Method)
	instant, err := client.PromQLInstantQuery(&gosnowth.PromQLInstantQuery{Query: "sum(load)", Time: fmt.Sprint(at(540).Unix())})
	must(err)
	fmt.Println("promql", instant.Status, shown(instant.Data))
	window, err := client.PromQLRangeQuery(&gosnowth.PromQLRangeQuery{Query: `load{host="b"}`, Start: fmt.Sprint(at(0).Unix()), End: fmt.Sprint(at(120).Unix()), Step: "60"})
	must(err)
	fmt.Println("promql", window.Status, shown(window.Data))
	_, err = client.PromQLInstantQuery(&gosnowth.PromQLInstantQuery{Query: "sum(", Time: "1"})
	fmt.Println("promql refused", strings.Contains(err.Error(), "caql"))
	series, err := client.PromQLSeriesQuery(&gosnowth.PromQLSeriesQuery{Match: []string{`load{host=~"a|x"}`}, AccountID: "1"})
	must(err)
	labels, err := client.PromQLLabelQuery(&gosnowth.PromQLLabelQuery{Match: []string{"load"}, AccountID: "1"})
	must(err)
	values, err := client.PromQLLabelValuesQuery("host", &gosnowth.PromQLLabelQuery{Match: []string{"load"}, AccountID: "1"})
	must(err)
	fmt.Println("series", shown(series.Data), "labels", shown(labels.Data), "values", shown(values.Data))
}

func shown(value interface{}) string {
	text, err := json.Marshal(value)
	must(err)
	out := string(text)
	for _, seconds := range []int{0, 60, 120, 300, 540} {
		out = strings.ReplaceAll(out, fmt.Sprint(at(seconds).Unix()), fmt.Sprintf("BASE+%d", seconds))
	}
	return out
}

// What is wrong is refused with 400 and counts, and spoils nothing beside it.
func refusals() {
	var complaints []string
	for _, body := range []string{"\x08\x00\x00\x00CIML\x00\x00\x00\x00", "no flatbuffer at all"} {
		_, err := client.WriteRaw(bytes.NewBufferString(body), true, 1)
		complaints = append(complaints, fmt.Sprint(strings.Contains(err.Error(), "[400]")))
	}
	_, err := client.WriteRaw(strings.NewReader("M\tsoon\tnobody\tx\tn\t1\n"), false, 1)
	complaints = append(complaints, fmt.Sprint(strings.Contains(err.Error(), `"errors":1`)))
	lines := fmt.Sprintf("M\tsoon\tx\ty\tn\t1\nM\t%d.000\t%s\tgood\tn\t4\n", at(0).Unix(), check)
	answer, err := client.WriteRaw(strings.NewReader(lines), false, 2)
	must(err)
	sort.Strings(complaints)
	fmt.Println("refused", complaints, *answer)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
