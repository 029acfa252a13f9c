module ogive/tests/shippers

go 1.26

require gopkg.in/Graylog2/go-gelf.v2 v2.0.0-20191017102106-1550ee647df0
