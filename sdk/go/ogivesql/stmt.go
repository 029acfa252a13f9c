package ogivesql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"time"
)

// Errors of drivers that know no contexts, as database/sql words them.
var (
	errTxOptions = errors.New("ogivesql: the driver does not support isolation levels or read-only transactions")
	errNamed     = errors.New("ogivesql: the driver does not support the use of named parameters")
)

type stmt struct {
	driver.Stmt
	conn *conn
}

func (s *stmt) ExecContext(ctx context.Context, values []driver.NamedValue) (driver.Result, error) {
	start := time.Now()
	result, err := s.exec(ctx, values)
	s.conn.m.since(exec, start, err)
	return result, err
}

func (s *stmt) exec(ctx context.Context, values []driver.NamedValue) (driver.Result, error) {
	if with, ok := s.Stmt.(driver.StmtExecContext); ok {
		return with.ExecContext(ctx, values)
	}
	plain, err := plainValues(ctx, values)
	if err != nil {
		return nil, err
	}
	return s.Stmt.Exec(plain) //nolint:staticcheck // what drivers without contexts have
}

func (s *stmt) QueryContext(ctx context.Context, values []driver.NamedValue) (driver.Rows, error) {
	start := time.Now()
	inner, err := s.query(ctx, values)
	s.conn.m.since(query, start, err)
	return wrapRows(inner, s.conn.m, err)
}

func (s *stmt) query(ctx context.Context, values []driver.NamedValue) (driver.Rows, error) {
	if with, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return with.QueryContext(ctx, values)
	}
	plain, err := plainValues(ctx, values)
	if err != nil {
		return nil, err
	}
	return s.Stmt.Query(plain) //nolint:staticcheck // what drivers without contexts have
}

func plainValues(ctx context.Context, values []driver.NamedValue) ([]driver.Value, error) {
	plain := make([]driver.Value, len(values))
	for at, value := range values {
		if value.Name != "" {
			return nil, errNamed
		}
		plain[at] = value.Value
	}
	return plain, ctx.Err()
}

// CheckNamedValue asks the statement, then its connection, as database/sql does.
func (s *stmt) CheckNamedValue(value *driver.NamedValue) error {
	if with, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return with.CheckNamedValue(value)
	}
	return s.conn.CheckNamedValue(value)
}

// convertingStmt is of drivers whose statements convert their arguments; the others must not look as if they did.
type convertingStmt struct {
	*stmt
	driver.ColumnConverter //nolint:staticcheck // drivers have it
}

func wrapStmt(inner driver.Stmt, conn *conn) driver.Stmt {
	wrapped := &stmt{inner, conn}
	if with, ok := inner.(driver.ColumnConverter); ok { //nolint:staticcheck // drivers have it
		return convertingStmt{wrapped, with}
	}
	return wrapped
}

// rows measures from the answer to the last row, or to the close.
type rows struct {
	driver.Rows
	m       *measures
	start   time.Time
	counted bool
}

// wrapRows keeps the drivers' further result sets and column types reachable.
func wrapRows(inner driver.Rows, m *measures, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	return &rows{Rows: inner, m: m, start: time.Now()}, nil
}

func (r *rows) Next(into []driver.Value) error {
	err := r.Rows.Next(into)
	if err != nil {
		failure := err
		if errors.Is(err, io.EOF) {
			failure = nil
		}
		r.count(failure)
	}
	return err
}

func (r *rows) Close() error {
	err := r.Rows.Close()
	r.count(err)
	return err
}

func (r *rows) count(err error) {
	if !r.counted {
		r.counted = true
		r.m.since(fetch, r.start, err)
	}
}

func (r *rows) HasNextResultSet() bool {
	with, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && with.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if with, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return with.NextResultSet()
	}
	return io.EOF
}

func (r *rows) ColumnTypeDatabaseTypeName(column int) string {
	if with, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return with.ColumnTypeDatabaseTypeName(column)
	}
	return ""
}

func (r *rows) ColumnTypeLength(column int) (int64, bool) {
	if with, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return with.ColumnTypeLength(column)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(column int) (nullable, known bool) {
	if with, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return with.ColumnTypeNullable(column)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(column int) (precision, scale int64, known bool) {
	if with, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return with.ColumnTypePrecisionScale(column)
	}
	return 0, 0, false
}

func (r *rows) ColumnTypeScanType(column int) reflect.Type {
	if with, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return with.ColumnTypeScanType(column)
	}
	return reflect.TypeFor[any]()
}
