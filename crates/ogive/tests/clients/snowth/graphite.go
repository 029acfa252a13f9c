package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/circonus-labs/gosnowth"
	"github.com/circonus-labs/gosnowth/fb/nntbs"
)

// Graphite's lines, names, tags and datapoints.
func graphite() {
	node := client.ListActiveNodes()[0]
	var lines strings.Builder
	for minute := range 5 {
		fmt.Fprintf(&lines, "web.load %d %d\n", minute, at(60*minute).Unix())
		fmt.Fprintf(&lines, "web.disk;host=a;dc=eu %d.5 %d.250\n", minute, at(60*minute).Unix())
	}
	lines.WriteString("web.load soon 1\n")
	for range 2 {
		body, _, err := client.DoRequest(node, "POST", "/graphite/1/"+check+"/dev", strings.NewReader(lines.String()), nil)
		must(err)
		var answer gosnowth.IRONdbPutResponse
		must(json.NewDecoder(body).Decode(&answer))
		fmt.Println("graphite", answer)
	}
	names := func(prefix, query string, options *gosnowth.GraphiteOptions) {
		found, err := client.GraphiteFindMetrics(1, prefix, query, options)
		must(err)
		for _, one := range found {
			fmt.Print(" ", one.Name, " ", one.Leaf, " ", one.Data["name"])
		}
		fmt.Println()
	}
	names("", "graphite.*", nil)
	names("graphite.dev.", "*.*", nil)
	names("graphite.dev.", "web.{load,disk}", &gosnowth.GraphiteOptions{Limit: 1})
	tags := func(query string) {
		found, err := client.GraphiteFindTags(1, "", query, nil)
		must(err)
		for _, one := range found {
			fmt.Print(" ", one.Name, " ", one.Leaf, " ", one.Data["uuid"] == check)
		}
		fmt.Println()
	}
	tags("host=a,dc=~e,name=~graphite")
	tags("and(host:a,__name:graphite.*)")
	points := func(prefix string, names ...string) {
		lookup := &gosnowth.GraphiteLookup{Start: at(0).Unix(), End: at(300).Unix(), Names: names}
		found, err := client.GraphiteGetDatapoints(1, prefix, lookup, nil)
		must(err)
		fmt.Print("points ", found.From-base.Unix(), " ", found.To-base.Unix(), " ", found.Step)
		for _, name := range names {
			for _, value := range found.Series[name] {
				if value == nil {
					fmt.Print(" none")
				} else {
					fmt.Print(" ", *value)
				}
			}
		}
		fmt.Println()
	}
	points("graphite.dev.", "web.load", "web.disk;dc=eu;host=a", "nothing")
	points("", check+".graphite.dev.web.load")
	_, err := client.GraphiteFindTags(1, "", "host", nil)
	fmt.Println("graphite refused", strings.Contains(err.Error(), "[400]"))
}

// What is left of the client: rollups in FlatBuffers, activity, topologies, extensions, nodes that come and go.
func rest() {
	node := client.ListActiveNodes()[0]
	datum := func(value float64) *nntbs.NNTDatumT {
		return &nntbs.NNTDatumT{Count: 2, Stddev: 1, Value: &nntbs.NumericValueT{Type: nntbs.NumericValueDoubleValue, Value: &nntbs.DoubleValueT{V: value}}}
	}
	metric := &nntbs.MetricInfoT{MetricLocator: &nntbs.MetricLocatorT{CheckUuid: []byte(check), MetricName: "flat_rollup"}, AccountId: 1, CheckName: "test"}
	block := &nntbs.NNTBlockT{BlockFloor: uint64(at(0).Unix()), Data: []*nntbs.NNTDatumT{datum(4), datum(64)}}
	must(client.WriteNNTBSFlatbuffer(&nntbs.NNTMergeT{Ops: []*nntbs.NNTMergeOpT{{Metric: metric,
		Nnt: []*nntbs.NNTT{{Epoch: uint64(at(0).Unix()), Apocalypse: uint64(at(120).Unix()), Period: 60, Blocks: []*nntbs.NNTBlockT{block}}}}}}, nil))
	all, err := client.ReadNumericAllValues(at(0), at(120), 60, check, "flat_rollup")
	must(err)
	fmt.Println("flat rollup", len(all), all[0].Count, all[0].Value, all[0].StdDev, all[1].Value)
	rebuilt, err := client.RebuildActivity(node, []gosnowth.RebuildActivityRequest{{UUID: check, Metric: "load"}})
	must(err)
	fmt.Println("rebuilt", *rebuilt)
	metadata, err := client.PromQLMetadataQuery(&gosnowth.PromQLMetadataQuery{Metric: "load", AccountID: "1", Limit: "5"})
	must(err)
	fmt.Println("metadata", metadata.Status, shown(metadata.Data))
	topology, err := client.Topology()
	must(err)
	fmt.Println("topology", client.LoadTopology(topology.Hash, topology), client.LoadTopology(strings.Repeat("0", 64), topology) != nil,
		len(client.FindMetricNodeIDs(check, "load")))
	answer, err := client.ExecLuaExtension("public/caql_v1", []gosnowth.ExtParam{
		{Name: "q", Value: "find('load', 'and(host:a)')"}, {Name: "start_time", Value: fmt.Sprint(at(0).Unix())},
		{Name: "end_time", Value: fmt.Sprint(at(300).Unix())}, {Name: "period", Value: "300"}, {Name: "account_id", Value: "1"}})
	must(err)
	fmt.Println("extension", answer["version"], answer["data"])
	search := func(query string) {
		found, err := client.FindTags(1, query, &gosnowth.FindTagsOptions{CountOnly: 1})
		must(err)
		fmt.Print(" ", found.Count)
	}
	fmt.Print("searches")
	search(`and(b"aG9zdA==":b"YQ==",__name:load)`)
	search(`and(not(host:b),__name:[graphite]lo{ad,st})`)
	search(`and(host:[exact]a,__type:numeric)`)
	search(fmt.Sprintf("and(__name:load,__activity:%d-%d)", at(0).Unix(), at(60).Unix()))
	search(fmt.Sprintf("and(__name:load,__activity:%d-%d)", at(-7200).Unix(), at(-3600).Unix()))
	search("and(__check_uuid:" + check + ",/^lo/:*)")
	fmt.Println()
	fetched, err := client.FetchValues(&gosnowth.FetchQuery{Start: at(0), Period: 10 * time.Minute, Count: 1,
		Streams: []gosnowth.FetchStream{
			{UUID: check, Name: "latency`seconds|ST[host:a]", Kind: "histogram", Label: "p50", Transform: "quantile", TransformParams: []string{"0.5"}},
			{UUID: check, Name: "latency`seconds|ST[host:a]", Kind: "histogram", Label: "below", Transform: "count_below", TransformParams: []string{"0.5"}}},
		Reduce: []gosnowth.FetchReduce{{Label: "", Method: "topk", MethodParams: []string{"1", "max"}}}})
	must(err)
	fmt.Println("top", len(fetched.Data), fetched.Meta[0].Label, *fetched.Data[0].Numeric()[0])
	client.DeactivateNodes(node)
	fmt.Print("nodes ", len(client.ListActiveNodes()), len(client.ListInactiveNodes()))
	ctx, cancel := context.WithCancel(context.Background())
	client.SetWatchInterval(20 * time.Millisecond)
	client.WatchAndUpdate(ctx)
	for len(client.ListActiveNodes()) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	fmt.Println(" ", len(client.ListActiveNodes()), len(client.ListInactiveNodes()))
	client.SetRequestFunc(func(request *http.Request) error {
		request.Header.Set("X-Scope-OrgID", "another")
		return nil
	})
	found, err := client.FindTags(1, "and(__name:load)", &gosnowth.FindTagsOptions{CountOnly: 1})
	must(err)
	client.SetRequestFunc(nil)
	fmt.Println("of another tenant", found.Count)
}
