package ogive

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ogive-monitoring/ogive/sdk/go/hist"
)

// Middleware measures each request of an http.Handler into NAME{route,method,code}, in seconds. The route is the pattern of
// http.ServeMux that served it, so that paths with identifiers do not make a series each; code is the class: 2xx, 4xx.
func (e *Exporter) Middleware(name string, next http.Handler) http.Handler {
	m := &middleware{exporter: e, name: name, recorders: map[[3]string]*hist.Recorder{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, answer := time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { m.recorder(r, answer.status).Since(begin) }()
		next.ServeHTTP(answer, r)
	})
}

type middleware struct {
	exporter  *Exporter
	name      string
	mutex     sync.RWMutex
	recorders map[[3]string]*hist.Recorder
}

func (m *middleware) recorder(r *http.Request, status int) *hist.Recorder {
	route := r.Pattern
	if route == "" {
		route = "other"
	}
	key := [3]string{route, methodOf(r.Method), strconv.Itoa(status/100) + "xx"}
	m.mutex.RLock()
	recorder := m.recorders[key]
	m.mutex.RUnlock()
	if recorder != nil {
		return recorder
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if recorder = m.recorders[key]; recorder == nil {
		// The labels are pairs with names of their own, so that only a series of the same name could be in the way; then
		// the recorder counts for nobody.
		recorder, _ = m.exporter.Recorder(m.name, "route", key[0], "method", key[1], "code", key[2])
		m.recorders[key] = recorder
	}
	return recorder
}

// methodOf bounds what a client can make of the label.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the writer below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
