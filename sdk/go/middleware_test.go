package ogive

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestMiddlewareMeasuresEachRequestByItsPattern(t *testing.T) {
	s := startServer(t)
	exporter, err := Start("http://"+s.address, Options{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "7" {
			http.Error(w, "gone", http.StatusGone)
		}
	})
	site := httptest.NewServer(exporter.Middleware("http_seconds", mux))
	defer site.Close()
	for _, path := range []string{"/users/1", "/users/2", "/users/7", "/elsewhere"} {
		answer, err := http.Get(site.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	if err := exporter.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for labels, expected := range map[string]float64{
		`route="GET /users/{id}",method="GET",code="2xx"`: 2,
		`route="GET /users/{id}",method="GET",code="4xx"`: 1,
		`route="other",method="GET",code="4xx"`:           1,
	} {
		if found := s.query(`sum(histogram_count(sum_over_time(http_seconds{` + labels + `}[10m])))`); found != expected {
			t.Errorf("%s: %v requests, expected %v", labels, found, expected)
		}
	}
}
