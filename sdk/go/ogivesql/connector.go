// Package ogivesql measures what a program does with database/sql: every statement, preparation, transaction and connection of any
// driver, as NAME{operation,outcome} in seconds.
//
//	connector, err := pq.NewConnector(dsn)
//	...
//	db := sql.OpenDB(ogivesql.Wrap(connector, exporter, "sql_seconds"))
package ogivesql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"time"

	ogive "github.com/ogive-monitoring/ogive/sdk/go"
	"github.com/ogive-monitoring/ogive/sdk/go/hist"
)

// Operations and outcomes are all labels that there are: 9 by 2 series.
const (
	connect = iota
	ping
	prepare
	exec
	query
	fetch // from the first row to the last, or to the close
	begin
	commit
	rollback
	operations
)

var operationNames = [operations]string{"connect", "ping", "prepare", "exec", "query", "fetch", "begin", "commit", "rollback"}

type measures struct {
	exporter  *ogive.Exporter
	name      string
	mutex     sync.Mutex
	recorders [operations][2]*hist.Recorder
}

// since counts an operation. What a driver answers with ErrSkip did not happen: database/sql tries another way.
func (m *measures) since(operation int, start time.Time, err error) {
	if errors.Is(err, driver.ErrSkip) {
		return
	}
	elapsed, outcome := time.Since(start), 0
	if err != nil {
		outcome = 1
	}
	m.mutex.Lock()
	recorder := m.recorders[operation][outcome]
	if recorder == nil {
		// Only a series of the same name could be in the way; then the recorder counts for nobody.
		recorder, _ = m.exporter.Recorder(m.name, "operation", operationNames[operation], "outcome", [2]string{"ok", "error"}[outcome])
		m.recorders[operation][outcome] = recorder
	}
	m.mutex.Unlock()
	recorder.Record(elapsed)
}

type connector struct {
	inner driver.Connector
	m     *measures
}

// Wrap returns a connector that measures what is done through its connections. Name the metric ..._seconds.
func Wrap(inner driver.Connector, exporter *ogive.Exporter, name string) driver.Connector {
	return &connector{inner, &measures{exporter: exporter, name: name}}
}

// WrapDriver is Wrap for a driver that has no connectors of its own.
func WrapDriver(inner driver.Driver, dsn string, exporter *ogive.Exporter, name string) (driver.Connector, error) {
	if with, ok := inner.(driver.DriverContext); ok {
		made, err := with.OpenConnector(dsn)
		if err != nil {
			return nil, err
		}
		return Wrap(made, exporter, name), nil
	}
	return Wrap(plain{inner, dsn}, exporter, name), nil
}

type plain struct {
	driver driver.Driver
	dsn    string
}

func (p plain) Connect(context.Context) (driver.Conn, error) { return p.driver.Open(p.dsn) }
func (p plain) Driver() driver.Driver                        { return p.driver }

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	start := time.Now()
	inner, err := c.inner.Connect(ctx)
	c.m.since(connect, start, err)
	if err != nil {
		return nil, err
	}
	return &conn{inner, c.m}, nil
}

// Close closes the inner connector, where it can be closed.
func (c *connector) Close() error {
	if closer, ok := c.inner.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
