module github.com/ogive-monitoring/ogive/sdk/go/ogivesql/postgres

go 1.26

require (
	github.com/lib/pq v1.10.9
	github.com/ogive-monitoring/ogive/sdk/go v0.0.0
)

require github.com/google/flatbuffers v25.12.19+incompatible // indirect

replace github.com/ogive-monitoring/ogive/sdk/go => ../../
