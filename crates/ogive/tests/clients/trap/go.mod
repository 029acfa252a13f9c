module ogive/tests/trap

go 1.26

require (
	github.com/circonus-labs/circonus-gometrics/v3 v3.4.7
	github.com/circonus-labs/go-apiclient v0.7.24
	github.com/circonus-labs/go-trapcheck v0.0.9
	github.com/circonus-labs/go-trapmetrics v0.0.9
)

require (
	github.com/google/uuid v1.3.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.5 // indirect
	github.com/openhistogram/circonusllhist v0.3.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/tv42/httpunix v0.0.0-20191220191345-2ba4b9c3382c // indirect
)
