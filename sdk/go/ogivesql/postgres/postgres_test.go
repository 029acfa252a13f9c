// Package postgres tests ogivesql with a real PostgreSQL and a real Ogive. It is a module of its own: only the test needs a driver.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lib/pq"
	ogive "github.com/ogive-monitoring/ogive/sdk/go"
	"github.com/ogive-monitoring/ogive/sdk/go/ogivesql"
)

// startPostgres starts a server that listens on a socket in a directory of its own, and returns that directory.
func startPostgres(t *testing.T) string {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(programs) == 0 {
		t.Fatal("initdb is missing: apt-get install postgresql")
	}
	directory, err := os.MkdirTemp("", "ogivesql-") // a short path, as sockets need
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		account, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		if err := os.Chown(directory, uid, gid); err != nil {
			t.Fatal(err)
		}
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	run := func(name string, arguments ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(filepath.Dir(programs[0]), name), arguments...)
		command.SysProcAttr, command.Dir = attributes, directory
		return command
	}
	data := filepath.Join(directory, "data")
	if output, err := run("initdb", "--auth=trust", "--no-sync", "--username=ogive", "--pgdata="+data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	server := run("postgres", "-D", data, "-k", directory, "-h", "", "-F")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Signal(syscall.SIGINT); _ = server.Wait() })
	return directory
}

func startOgive(t *testing.T) string {
	binary := os.Getenv("OGIVE_BIN")
	if binary == "" {
		t.Skip("NOT TESTED against a server: OGIVE_BIN names no ogive binary")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	server := exec.Command(binary, "serve", "--data", t.TempDir(), "--listen", address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for {
		if answer, err := http.Get("http://" + address + "/-/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// counts returns the samples of each operation and outcome.
func counts(t *testing.T, address string) map[string]string {
	expression := `histogram_count(sum_over_time(sql_seconds[10m]))`
	at := strconv.FormatInt(time.Now().Add(2*time.Second).Unix(), 10) // the last cell ends after its shutdown
	answer, err := http.Get(address + "/api/v1/query?time=" + at + "&query=" + url.QueryEscape(expression))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, series := range body.Data.Result {
		found[series.Metric["operation"]+" "+series.Metric["outcome"]], _ = series.Value[1].(string)
	}
	return found
}

// untilSleeping returns once a statement sleeps: one that is canceled before it was sent is no call of the driver.
func untilSleeping(t *testing.T, connector driver.Connector) {
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		var sleeping int
		err := db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'").Scan(&sleeping)
		if err != nil {
			t.Error(err)
			return
		}
		if sleeping > 0 {
			return
		}
	}
	t.Error("nothing sleeps")
}

func TestEveryOperationIsCountedOnce(t *testing.T) {
	address, directory := startOgive(t), startPostgres(t)
	exporter, err := ogive.Start(address, ogive.Options{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	connector, err := pq.NewConnector("host=" + directory + " user=ogive dbname=postgres sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	for { // until the server takes connections, without the wrapper
		db := sql.OpenDB(connector)
		err := db.Ping()
		_ = db.Close()
		if err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	db := sql.OpenDB(ogivesql.Wrap(connector, exporter, "sql_seconds"))
	db.SetMaxOpenConns(1)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(nil, db.Ping())
	must(db.Exec("CREATE TABLE pets (name text, legs int, born timestamptz)"))
	insert, err := db.Prepare("INSERT INTO pets VALUES ($1, $2, $3)")
	must(insert, err)
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, name := range []string{"cat", "dog", "hen"} {
		must(insert.Exec(name, 4, born)) // an int: only a right CheckNamedValue makes it an int64
	}
	must(nil, insert.Close())
	rows, err := db.Query("SELECT name, legs, born FROM pets WHERE legs = $1 ORDER BY name", int32(4))
	must(rows, err)
	types, err := rows.ColumnTypes()
	must(types, err)
	if types[0].DatabaseTypeName() != "TEXT" || types[1].ScanType().Kind().String() != "int32" {
		t.Fatal(types[0].DatabaseTypeName(), types[1].ScanType())
	}
	var names []string
	for rows.Next() {
		var name string
		var legs int
		var at time.Time
		must(nil, rows.Scan(&name, &legs, &at))
		if legs != 4 || !at.Equal(born) {
			t.Fatal(name, legs, at)
		}
		names = append(names, name)
	}
	must(nil, rows.Err())
	if len(names) != 3 {
		t.Fatal(names)
	}
	if _, err := db.Exec("no statement"); err == nil {
		t.Fatal("it was executed")
	}
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
		must(tx, err)
		must(tx.Exec("DELETE FROM pets WHERE name = 'dog'"))
		must(nil, end(tx))
	}
	canceled, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		untilSleeping(t, connector)
	}()
	if _, err := db.ExecContext(canceled, "SELECT pg_sleep(100)"); err == nil || errors.Is(err, sql.ErrConnDone) {
		t.Fatal(err)
	}
	<-watched
	must(nil, db.Close())
	must(nil, exporter.Shutdown(context.Background()))
	found := counts(t, address)
	for series, count := range map[string]string{
		"ping ok": "1", "prepare ok": "1", "exec ok": "6", "exec error": "2", "query ok": "1", "fetch ok": "1",
		"begin ok": "2", "commit ok": "1", "rollback ok": "1",
	} {
		if found[series] != count {
			t.Errorf("%s: %q of %s; all: %v", series, found[series], count, found)
		}
	}
}
