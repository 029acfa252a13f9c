// Steps beyond the first program's: unusual names, tags, ranges, kinds and functions, each with what it must give.
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/circonus-labs/gosnowth"
	"github.com/circonus-labs/gosnowth/fb/noit"
	"github.com/openhistogram/circonusllhist"
)

const other = "0b0e0c7e-3f2a-4a55-9a4e-6d8a3e3c1b2a"

var failed, passed int

// step compares what a call gave, or its error, with what it must give.
func step(name, expected string, call func() (interface{}, error)) {
	value, err := call()
	found := ""
	if err != nil {
		found = "error: " + err.Error()
	} else if text, is := value.(string); is {
		found = text
	} else {
		found = shown(value)
	}
	if found == expected || strings.HasSuffix(expected, "...") && strings.HasPrefix(found, strings.TrimSuffix(expected, "...")) {
		passed++
		return
	}
	failed++
	fmt.Printf("step %s: found %s, expected %s\n", name, found, expected)
}

func raw(metrics ...*noit.MetricT) (*gosnowth.IRONdbPutResponse, error) {
	return client.WriteRawMetricList(&noit.MetricListT{Metrics: metrics}, nil)
}

func metric(seconds int, name string, tags []string, kind noit.MetricValueUnion, value interface{}) *noit.MetricT {
	return &noit.MetricT{Timestamp: uint64(at(seconds).UnixMilli()), CheckName: "more", CheckUuid: other, AccountId: 7,
		Value: &noit.MetricValueT{Name: name, StreamTags: tags, Value: &noit.MetricValueUnionT{Type: kind, Value: value}}}
}

func number(seconds int, name string, tags []string, value float64) *noit.MetricT {
	return metric(seconds, name, tags, noit.MetricValueUnionDoubleValue, &noit.DoubleValueT{Value: value})
}

func values(uuid, name string, from, to int) (interface{}, error) {
	found, err := client.ReadRawNumericValues(at(from), at(to), uuid, name)
	out := []float64{}
	for _, one := range found {
		out = append(out, one.Value)
	}
	return out, err
}

func rollup(name, kind string, period time.Duration, from, to int) (interface{}, error) {
	found, err := client.ReadRollupValues(other, name, period, at(from), at(to), kind)
	out := []interface{}{}
	for _, one := range found {
		out = append(out, one.Value)
	}
	return out, err
}

func bins(name string, period time.Duration, from, to int) (interface{}, error) {
	found, err := client.ReadHistogramValues(other, name, period, at(from), at(to))
	out := []map[string]int64{}
	for _, one := range found {
		out = append(out, one.Data)
	}
	return out, err
}

func names(query string) (interface{}, error) {
	found, err := client.FindTags(7, query, &gosnowth.FindTagsOptions{})
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, item := range found.Items {
		out = append(out, item.MetricName)
	}
	sort.Strings(out)
	return out, nil
}

func caql(query string, from, to, period int64) (interface{}, error) {
	answer, err := client.GetCAQLQuery(&gosnowth.CAQLQuery{Query: query, Start: base.Unix() + from, End: base.Unix() + to, Period: period,
		AccountID: 7, Format: "DF4", Method: "fetch", PrepareResults: "none", Expansion: []string{}, MinPrefill: 0, Timeout: 5000})
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}

func fetched(kind, transform string, params []string, name string, reduce ...gosnowth.FetchReduce) (interface{}, error) {
	if len(reduce) == 0 {
		reduce = []gosnowth.FetchReduce{{Label: "x", Method: "pass"}}
	}
	answer, err := client.FetchValues(&gosnowth.FetchQuery{Start: at(0), Period: time.Minute, Count: 3,
		Streams: []gosnowth.FetchStream{{UUID: other, Name: name, Kind: kind, Label: "x", Transform: transform, TransformParams: params}}, Reduce: reduce})
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}

func more() {
	moreWrites()
	moreReads()
	moreFinds()
	moreQueries()
	moreNodes()
	fmt.Println("more", passed, "passed", failed, "failed")
}

func moreWrites() {
	ok := `{"errors":0,"misdirected":0,"records":%d,"updated":%d}`
	put := func(name string, count int, metrics ...*noit.MetricT) {
		step(name, fmt.Sprintf(ok, count, count), func() (interface{}, error) { return raw(metrics...) })
	}
	put("unicode", 1, number(0, "größe °C", []string{"stadt:köln", "\u65e5\u672c:\u6771\u4eac"}, 21.5))
	put("odd names", 3, number(0, `a"b\c`, nil, 1), number(0, "with space", nil, 2), number(0, "pipe|in it", nil, 3))
	put("tags without values", 1, number(0, "flags", []string{"bare:", "two:a:b", "two:c"}, 4))
	put("small and large", 5, number(0, "range", nil, 5e-324), number(60, "range", nil, -1.7976931348623157e308), number(120, "range", nil, 0),
		number(130, "range", nil, -0.0), number(140, "range", nil, 1e21))
	put("integers", 4, metric(0, "ints", nil, noit.MetricValueUnionIntValue, &noit.IntValueT{Value: -2147483648}),
		metric(60, "ints", nil, noit.MetricValueUnionUintValue, &noit.UintValueT{Value: 4294967295}),
		metric(120, "ints", nil, noit.MetricValueUnionLongValue, &noit.LongValueT{Value: -9007199254740991}),
		metric(180, "ints", nil, noit.MetricValueUnionUlongValue, &noit.UlongValueT{Value: 9007199254740991}))
	for minute := range 6 {
		count := uint64(10 * (minute + 1))
		buckets := []*noit.HistogramBucketT{{Val: 10, Exp: -3, Count: count}, {Val: -25, Exp: 1, Count: 1}, {Val: 0, Exp: 0, Count: 2}}
		put("cumulative", 1, metric(60*minute, "grows", nil, noit.MetricValueUnionHistogram, &noit.HistogramT{Buckets: buckets, Cumulative: true}))
		put("counter", 1, number(60*minute, "counter", []string{"dc:eu"}, float64(60*minute*minute)))
	}
	put("absent", 3, metric(0, "absent", nil, noit.MetricValueUnionAbsentNumericValue, &noit.AbsentNumericValueT{}),
		metric(0, "absent text", nil, noit.MetricValueUnionAbsentStringValue, &noit.AbsentStringValueT{}),
		metric(0, "absent histogram", nil, noit.MetricValueUnionAbsentHistogramValue, &noit.AbsentHistogramValueT{}))
	put("long text", 1, metric(0, "text", []string{"k:v"}, noit.MetricValueUnionStringValue, &noit.StringValueT{Value: strings.Repeat("line\n\t\"x\" ", 50)}))

}

func moreReads() {
	step("read unicode", "[21.5]", func() (interface{}, error) { return values(other, "größe °C|ST[stadt:köln,日本:東京]", 0, 1) })
	step("read quotes", "[1]", func() (interface{}, error) { return values(other, `a"b\c`, 0, 1) })
	step("read space", "[2]", func() (interface{}, error) { return values(other, "with space", 0, 1) })
	step("read pipe", "[3]", func() (interface{}, error) { return values(other, "pipe|in it", 0, 1) })
	step("read odd tags", "[4]", func() (interface{}, error) { return values(other, "flags|ST[bare:,two:a:b,two:c]", 0, 1) })
	step("read tags in another order", "[4]", func() (interface{}, error) { return values(other, "flags|ST[two:c,two:a:b,bare:]", 0, 1) })
	step("read range", "[5e-324,-1.7976931348623157e+308,0,0,1e+21]", func() (interface{}, error) { return values(other, "range", 0, 150) })
	step("read integers", "[-2147483648,4294967295,-9007199254740991,9007199254740991]", func() (interface{}, error) { return values(other, "ints", 0, 180) })
	step("read nothing", "[]", func() (interface{}, error) { return values(other, "nothing", 0, 180) })
	step("read before", "[]", func() (interface{}, error) { return values(other, "ints", -600, -1) })
	step("read of another check", "[]", func() (interface{}, error) { return values(check, "ints", 0, 180) })
	step("upper case check", "[-2147483648]", func() (interface{}, error) { return values(strings.ToUpper(other), "ints", 0, 1) })

	for _, one := range [][2]string{{"count", "[1,1,1]"}, {"average", "[0,60,240]"}, {"derive", "[0,1,3]"}, {"counter", "[0,1,3]"}, {"average_stddev", "[0,0,0]"},
		{"derive2", "[0,0,0.03333333333333333]"}, {"counter2", "[0,0,0.03333333333333333]"}, {"derive_stddev", "[0,0,0]"}} {
		step("rollup "+one[0], one[1], func() (interface{}, error) { return rollup("counter|ST[dc:eu]", one[0], time.Minute, 0, 179) })
	}
	step("rollup of three minutes", "[100,1000]", func() (interface{}, error) { return rollup("counter|ST[dc:eu]", "average", 3*time.Minute, 0, 359) })
	step("rollup of no type", "error: ...", func() (interface{}, error) { return rollup("counter|ST[dc:eu]", "max", time.Minute, 0, 60) })

	step("cumulative histogram", `[{"+10e-004":10},{"+10e-004":10},{"+10e-004":10},{"+10e-004":10},{"+10e-004":10}]`, func() (interface{}, error) {
		return bins("grows", time.Minute, 0, 359)
	})
	histogram := circonusllhist.New()
	must(histogram.RecordIntScales(12, -4, 7))
	step("histogram write", "null", func() (interface{}, error) {
		return nil, client.WriteHistogram([]gosnowth.HistogramData{{AccountID: 7, Metric: "written|ST[a:b]", ID: other, Offset: at(0).Unix(), Period: 60, Histogram: histogram},
			{AccountID: 7, Metric: "written|ST[a:b]", ID: other, Offset: at(60).Unix(), Period: 60, Histogram: histogram}})
	})
	step("histogram of two", `[{"+12e-004":14}]`, func() (interface{}, error) { return bins("written|ST[a:b]", 2*time.Minute, 0, 119) })
}

func moreFinds() {
	for _, one := range [][2]string{
		{"and(__name:/^gr/)", `["grows","größe °C|ST[stadt:b\"a8O2bG4=\",b\"5pel5pys\":b\"5p2x5Lqs\"]"]`},
		{"and(not(__type:numeric),not(__name:absent*))", `["grows","old_text","text|ST[k:v]","written|ST[a:b]"]`},
		{"and(stadt:*)", `["größe °C|ST[stadt:b\"a8O2bG4=\",b\"5pel5pys\":b\"5p2x5Lqs\"]"]`},
		{`and(b"c3RhZHQ=":b"a8O2bG4=")`, `["größe °C|ST[stadt:b\"a8O2bG4=\",b\"5pel5pys\":b\"5p2x5Lqs\"]"]`},
		{"or(dc:eu,k:v)", `["counter|ST[dc:eu]","text|ST[k:v]"]`},
		{"and(two:c,two:a:b)", `["flags|ST[bare:,two:a:b,two:c]"]`},
		{"and(__check_uuid:" + other + ",dc:e*)", `["counter|ST[dc:eu]"]`},
		{"and(__type:histogram)", `["grows","written|ST[a:b]"]`},
		{"not(__name:*)", `[]`},
		{"and(__name:[exact]counter)", `["counter|ST[dc:eu]"]`},
		{"and(__name:b\"/^(ints|range)$/\")", `error: ...`},
		{"and(and(or(dc:eu,dc:us),not(dc:us)))", `["counter|ST[dc:eu]"]`},
		{"and(dc:/[/)", `error: ...`},
		{"xor(a:b)", `error: ...`},
		{strings.Repeat("and(", 40) + "a:b" + strings.Repeat(")", 40), `error: ...`},
	} {
		step("find "+one[0], one[1], func() (interface{}, error) { return names(one[0]) })
	}
	step("categories", `["a","b\"5pel5pys\"","bare","dc","k","stadt","two"]`, func() (interface{}, error) { return client.FindTagCats(7, "and(__check_uuid:"+other+")") })
	step("values of two", `["a:b","c"]`, func() (interface{}, error) { return client.FindTagVals(7, "and(__name:*)", "two") })
	step("values of a name", `["text"]`, func() (interface{}, error) { return client.FindTagVals(7, "and(k:v)", "__name") })
	step("latest of a text", `1`, func() (interface{}, error) {
		found, err := client.FindTags(7, "and(__name:text)", &gosnowth.FindTagsOptions{Latest: 1, Activity: 1})
		if err != nil {
			return nil, err
		}
		return len(found.Items[0].Latest.Text), nil
	})
	step("latest of a histogram", `2`, func() (interface{}, error) {
		found, err := client.FindTags(7, "and(__name:grows)", &gosnowth.FindTagsOptions{Latest: 1})
		if err != nil {
			return nil, err
		}
		return len(found.Items[0].Latest.Histogram), nil
	})
	step("activity from strings", `1`, func() (interface{}, error) {
		found, err := client.FindTags(7, "and(dc:eu)", &gosnowth.FindTagsOptions{StartStr: fmt.Sprint(at(0).Unix()), EndStr: fmt.Sprint(at(60).Unix())})
		if err != nil {
			return nil, err
		}
		return found.Count, nil
	})

}

func moreQueries() {
	for _, one := range [][2]string{
		{"find('counter') | rate()", `[[null,1,3]]`},
		{"find('counter') | diff() | stats:max()", `[[null,60,180]]`},
		{"find('counter') | integrate()", `[[0,3600,18000]]`},
		{"find:counter('counter') | each:mul(60)", `[[0,60,180]]`},
		{"find('ints') | each:sub(1) | each:abs()", `[[2147483649,4294967294,9007199254740992]]`},
		{"find('counter') | rolling:sum(3M)", `[[0,60,300]]`},
		{"{find('counter'); find('counter') | each:add(10)} | op:sub()", `[[-10,-10,-10]]`},
		{"find('*', 'and(dc:eu)') | group_by:sum('dc')", `[[0,60,240]]`},
		{"find:histogram('grows') | histogram:count()", `[[null,10,10]]`},
		{"find:histogram('written') | histogram:percentile(100) | each:round()", `[[0,0,null]]`},
		{"find:histogram('written') | histogram:inverse_percentile(0.001)", `[[0,0,null]]`},
		{"find('counter') | each:pow(1) | forecasting:ewma(1)", `[[0,60,240]]`},
		{"find('counter') | top(1) | label('best')", `[[0,60,240]]`},
		{"metric('" + other + "', 'counter|ST[dc:eu]') | fill(7)", `[[0,60,240]]`},
		{"search('and(dc:eu)') | bottom(1)", `[[0,60,240]]`},
		{"#min_period=60\nfind('counter')", `[[0,60,240]]`},
	} {
		step("caql "+one[0], one[1], func() (interface{}, error) { return caql(one[0], 0, 180, 60) })
	}
	for _, one := range []struct {
		kind, transform, name, expected string
		params                          []string
	}{
		{"numeric", "count", "counter|ST[dc:eu]", "[[1,1,1]]", nil},
		{"numeric", "derivative", "counter|ST[dc:eu]", "[[0,1,3]]", nil},
		{"numeric", "counter_stddev", "counter|ST[dc:eu]", "[[0,0,0]]", nil},
		{"histogram", "quantile", "written|ST[a:b]", "[[0.0012...", []string{"0.5"}},
		{"histogram", "count_below", "written|ST[a:b]", "[[7,7,null]]", []string{"0.01"}},
		{"histogram", "inverse_quantile", "written|ST[a:b]", "[[1,1,null]]", []string{"1"}},
		{"histogram", "rate", "written|ST[a:b]", "[[0.11666666666666667,0.11666666666666667,null]]", nil},
		{"text", "count", "text|ST[k:v]", "[[1,null,null]]", nil},
		{"text", "distinct", "text|ST[k:v]", "[[1,null,null]]", nil},
	} {
		step("fetch "+one.transform, one.expected, func() (interface{}, error) { return fetched(one.kind, one.transform, one.params, one.name) })
	}
	step("fetch reduced", "[[0,60,240]]", func() (interface{}, error) {
		return fetched("numeric", "average", nil, "counter|ST[dc:eu]", gosnowth.FetchReduce{Label: "g", Method: "groupby_mean", MethodParams: []string{"dc"}}, gosnowth.FetchReduce{Label: "k", Method: "topk", MethodParams: []string{"1", "max"}})
	})

	step("promql rate", "success", func() (interface{}, error) {
		found, err := client.PromQLInstantQuery(&gosnowth.PromQLInstantQuery{Query: `rate(counter{dc="eu"}[5m])`, Time: fmt.Sprint(at(300).Unix()), Timeout: "5s", AccountID: "7"})
		if err != nil {
			return nil, err
		}
		return found.Status, nil
	})
	step("promql range of a histogram", "success", func() (interface{}, error) {
		found, err := client.PromQLRangeQuery(&gosnowth.PromQLRangeQuery{Query: `histogram_quantile(0.9, sum(increase(grows[5m])))`, Start: fmt.Sprint(at(0).Unix()), End: fmt.Sprint(at(300).Unix()), Step: "1m", AccountID: "7"})
		if err != nil {
			return nil, err
		}
		return found.Status, nil
	})
	step("promql metadata", "success", func() (interface{}, error) {
		found, err := client.PromQLMetadataQuery(&gosnowth.PromQLMetadataQuery{Metric: "counter", Limit: "3", AccountID: "7"})
		if err != nil {
			return nil, err
		}
		return found.Status, nil
	})

}

func moreNodes() {
	node := client.GetActiveNode([]string{"nobody"}, []string{client.ListActiveNodes()[0].GetCurrentTopology()})
	step("active node", "true", func() (interface{}, error) { return fmt.Sprint(node != nil), nil })
	step("stats of a node", "true", func() (interface{}, error) {
		stats, err := client.GetStatsNodeContext(context.Background(), node)
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(stats.Identity() != ""), nil
	})
	client.DeactivateNodes(node)
	client.AddNodes(node)
	client.ActivateNodes(node)
	step("nodes", "1 0", func() (interface{}, error) {
		return fmt.Sprint(len(client.ListActiveNodes()), " ", len(client.ListInactiveNodes())), nil
	})
	client.SetRetries(2)
	client.SetConnectRetries(1)
	step("retries", "2 1", func() (interface{}, error) { return fmt.Sprint(client.Retries(), " ", client.ConnectRetries()), nil })
	step("a cancelled call", "error: ...", func() (interface{}, error) {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		return client.GetNodeStateContext(gone)
	})
	step("deleted tags", "null", func() (interface{}, error) { return nil, client.DeleteCheckTags(other) })
}
