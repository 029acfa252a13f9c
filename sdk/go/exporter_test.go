package ogive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"
)

// server is a real one; OGIVE_BIN names the binary.
type server struct {
	t       *testing.T
	binary  string
	data    string
	address string
	process *exec.Cmd
}

func startServer(t *testing.T) *server {
	binary := os.Getenv("OGIVE_BIN")
	if binary == "" {
		t.Skip("NOT TESTED against a server: OGIVE_BIN names no ogive binary")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: binary, data: t.TempDir(), address: listener.Addr().String()}
	_ = listener.Close()
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.process = exec.Command(s.binary, "serve", "--data", s.data, "--listen", s.address)
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for {
		if answer, err := http.Get("http://" + s.address + "/-/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// query returns the one number that an expression gives.
func (s *server) query(expression string) float64 {
	s.t.Helper()
	// The last cell ends after its shutdown: at the end of its interval.
	at := strconv.FormatInt(time.Now().Add(2*time.Second).Unix(), 10)
	answer, err := http.Get("http://" + s.address + "/api/v1/query?time=" + at + "&query=" + url.QueryEscape(expression))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body bytes.Buffer
	_, _ = body.ReadFrom(answer.Body)
	var result struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body.Bytes(), &result); err != nil || len(result.Data.Result) != 1 {
		s.t.Fatalf("%s: %s", expression, body.String())
	}
	value, err := strconv.ParseFloat(result.Data.Result[0].Value[1].(string), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

func TestEverySampleIsStoredOnceAcrossAKill(t *testing.T) {
	s := startServer(t)
	exporter, err := Start("http://"+s.address, Options{Labels: map[string]string{"service": "orders"}, Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	logins, err := exporter.Recorder("login_seconds", "route", "/login")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exporter.Recorder("login_seconds", "route", "/login"); !errors.Is(err, ErrExists) {
		t.Fatalf("a series exists once: %v", err)
	}
	if err := exporter.Gauge("queue_length", func() float64 { return 17 }); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	const each, goroutines = 40_000, 4
	for range goroutines {
		writers.Go(func() {
			for n := range each {
				logins.RecordNanoseconds(uint64(n + 1))
				if n%100 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for exporter.Status().Acknowledged < 2 {
		time.Sleep(time.Millisecond)
	}
	s.kill()
	writers.Wait()
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := exporter.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	status := exporter.Status()
	if status.Waiting != 0 || len(status.Dropped) != 0 || status.Taken != status.Acknowledged {
		t.Fatalf("%+v", status)
	}
	if count := s.query(`histogram_count(sum_over_time(login_seconds{service="orders",route="/login"}[10m]))`); count != each*goroutines {
		t.Fatalf("%v of %d samples are stored", count, each*goroutines)
	}
	sum := s.query(`histogram_sum(sum_over_time(login_seconds[10m]))`)
	if expected := float64(goroutines) * each * (each + 1) / 2 * 1e-9; sum < expected*0.999999999 || sum > expected*1.000000001 {
		t.Fatalf("the sum is %v, expected %v", sum, expected)
	}
	if length := s.query(`queue_length`); length != 17 {
		t.Fatal(length)
	}
}

// A server that is away costs bounded memory, and what had to go is counted.
func TestWhatWaitsIsBoundedAndCounted(t *testing.T) {
	var once sync.Once
	failed := make(chan error)
	exporter, err := Start("http://127.0.0.1:1", Options{Interval: 100 * time.Millisecond, KeepBytes: 2000,
		OnError: func(err error) { once.Do(func() { failed <- err }) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Counter("served_total", func() float64 { return 1 }); err != nil {
		t.Fatal(err)
	}
	<-failed
	for exporter.Status().Dropped["full"] == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exporter.Shutdown(ctx); err == nil {
		t.Fatal("a shutdown that leaves samples behind says so")
	}
	status := exporter.Status()
	if status.Taken != status.Dropped["full"]+status.Dropped["shutdown"] || status.WaitingBytes != 0 {
		t.Fatal(fmt.Sprintf("%+v", status))
	}
}
