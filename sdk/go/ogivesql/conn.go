package ogivesql

import (
	"context"
	"database/sql/driver"
	"time"
)

// conn forwards what a driver may implement beyond driver.Conn; where it does not, database/sql goes the way that it goes without us.
type conn struct {
	driver.Conn
	m *measures
}

func (c *conn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	start := time.Now()
	inner, err := c.prepare(ctx, text)
	c.m.since(prepare, start, err)
	if err != nil {
		return nil, err
	}
	return wrapStmt(inner, c), nil
}

func (c *conn) prepare(ctx context.Context, text string) (driver.Stmt, error) {
	if with, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return with.PrepareContext(ctx, text)
	}
	inner, err := c.Conn.Prepare(text)
	if err == nil && ctx.Err() != nil {
		_ = inner.Close()
		return nil, ctx.Err()
	}
	return inner, err
}

func (c *conn) ExecContext(ctx context.Context, text string, values []driver.NamedValue) (result driver.Result, err error) {
	start := time.Now()
	switch with := c.Conn.(type) {
	case driver.ExecerContext:
		result, err = with.ExecContext(ctx, text, values)
	default:
		err = driver.ErrSkip // prepared, executed and closed instead
	}
	c.m.since(exec, start, err)
	return result, err
}

func (c *conn) QueryContext(ctx context.Context, text string, values []driver.NamedValue) (driver.Rows, error) {
	with, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	start := time.Now()
	inner, err := with.QueryContext(ctx, text, values)
	c.m.since(query, start, err)
	return wrapRows(inner, c.m, err)
}

func (c *conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	start := time.Now()
	inner, err := c.begin(ctx, options)
	c.m.since(begin, start, err)
	if err != nil {
		return nil, err
	}
	return &tx{inner, c.m}, nil
}

func (c *conn) begin(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if with, ok := c.Conn.(driver.ConnBeginTx); ok {
		return with.BeginTx(ctx, options)
	}
	if options.Isolation != driver.IsolationLevel(0) || options.ReadOnly {
		return nil, errTxOptions
	}
	return c.Conn.Begin() //nolint:staticcheck // what drivers without contexts have
}

func (c *conn) Ping(ctx context.Context) error {
	with, ok := c.Conn.(driver.Pinger)
	if !ok {
		return nil
	}
	start := time.Now()
	err := with.Ping(ctx)
	c.m.since(ping, start, err)
	return err
}

func (c *conn) ResetSession(ctx context.Context) error {
	if with, ok := c.Conn.(driver.SessionResetter); ok {
		return with.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	with, ok := c.Conn.(driver.Validator)
	return !ok || with.IsValid()
}

func (c *conn) CheckNamedValue(value *driver.NamedValue) error {
	if with, ok := c.Conn.(driver.NamedValueChecker); ok {
		return with.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

type tx struct {
	inner driver.Tx
	m     *measures
}

func (t *tx) Commit() error {
	start := time.Now()
	err := t.inner.Commit()
	t.m.since(commit, start, err)
	return err
}

func (t *tx) Rollback() error {
	start := time.Now()
	err := t.inner.Rollback()
	t.m.since(rollback, start, err)
	return err
}
