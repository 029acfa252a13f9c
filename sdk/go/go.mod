module github.com/ogive-monitoring/ogive/sdk/go

go 1.26

require github.com/google/flatbuffers v25.12.19+incompatible
