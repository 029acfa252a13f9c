module github.com/ogive-monitoring/ogive/sdk/go/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/ogive-monitoring/ogive/sdk/go v0.0.0
	github.com/openhistogram/circonusllhist v0.3.0
	golang.org/x/sys v0.49.0
)

replace github.com/ogive-monitoring/ogive/sdk/go => ../
