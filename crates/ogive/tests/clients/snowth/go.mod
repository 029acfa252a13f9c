module ogive/tests/snowth

go 1.26

require (
	github.com/circonus-labs/gosnowth v1.14.0
	github.com/openhistogram/circonusllhist v0.3.0
)

require (
	github.com/google/flatbuffers v23.5.9+incompatible // indirect
	github.com/google/uuid v1.3.0 // indirect
)
