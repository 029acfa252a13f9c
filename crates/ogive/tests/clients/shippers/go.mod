module ogive/tests/shippers

go 1.26

require gopkg.in/Graylog2/go-gelf.v2 v2.0.0-20191017102106-1550ee647df0

require (
	github.com/fluent/fluent-logger-golang v1.10.2
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.3.0 // indirect
)

require (
	github.com/elastic/go-lumber v0.1.0
	github.com/klauspost/compress v1.20.4 // indirect
)
