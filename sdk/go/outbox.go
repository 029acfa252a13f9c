package ogive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// seriesMax is the most series of one batch that a server takes.
const seriesMax = 100_000

// answerBytesMax bounds what is read of an answer.
const answerBytesMax = 64 << 20

// outbox holds encoded batches, oldest first, until the server has them. One goroutine sends.
type outbox struct {
	url     string
	source  [16]byte
	options Options
	client  http.Client
	wake    chan struct{}
	limit   context.Context // ends when a shutdown may not take longer
	end     context.CancelFunc

	mutex    sync.Mutex
	next     uint64 // number of the next batch
	waiting  []batch
	bytes    int
	inFlight bool // the first of waiting is on its way: the server may have it
	finished bool // no batch comes any more
	counts   Status
	reported string
}

type batch struct {
	frame   []byte
	samples uint64
}

func newOutbox(url string, source [16]byte, options Options) *outbox {
	limit, end := context.WithCancel(context.Background())
	return &outbox{limit: limit, end: end, url: url, source: source, options: options, wake: make(chan struct{}, 1), next: 1,
		client: http.Client{Timeout: 30 * time.Second},
		counts: Status{Dropped: map[string]uint64{}, Rejected: map[string]uint64{}}}
}

// push numbers samples as batches and keeps them. The oldest batch that is not on its way makes room.
func (o *outbox) push(end time.Time, samples []sample) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for len(samples) > 0 {
		part := samples[:min(len(samples), seriesMax)]
		frame := encodeBatch(o.source, o.next, end.UnixNano(), uint32(o.options.Interval.Milliseconds()), part)
		for len(frame) > frameBytesMax && len(part) > 1 {
			part = part[:len(part)/2]
			frame = encodeBatch(o.source, o.next, end.UnixNano(), uint32(o.options.Interval.Milliseconds()), part)
		}
		samples = samples[len(part):]
		o.next++
		o.counts.Taken += uint64(len(part))
		o.waiting, o.bytes = append(o.waiting, batch{frame, uint64(len(part))}), o.bytes+len(frame)
	}
	for first := o.first(); o.bytes > o.options.KeepBytes && len(o.waiting) > first; {
		o.drop(first, "full")
	}
	o.signal()
}

// first returns the place of the first batch that may be dropped.
func (o *outbox) first() int {
	if o.inFlight {
		return 1
	}
	return 0
}

func (o *outbox) drop(at int, reason string) {
	o.counts.Dropped[reason] += o.waiting[at].samples
	o.bytes -= len(o.waiting[at].frame)
	o.waiting = append(o.waiting[:at], o.waiting[at+1:]...)
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// closeWith ends what is on its way, and every attempt after it, when ctx ends.
func (o *outbox) closeWith(ctx context.Context) { context.AfterFunc(ctx, o.end) }

func (o *outbox) finish() {
	o.mutex.Lock()
	o.finished = true
	o.mutex.Unlock()
	o.signal()
}

func (o *outbox) dropRest() (samples uint64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for len(o.waiting) > 0 {
		samples += o.waiting[0].samples
		o.drop(0, "shutdown")
	}
	return samples
}

func (o *outbox) status() Status {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	status := o.counts
	status.Dropped, status.Rejected = maps.Clone(status.Dropped), maps.Clone(status.Rejected)
	status.WaitingBytes = o.bytes
	for _, b := range o.waiting {
		status.Waiting += b.samples
	}
	return status
}

// send brings the oldest batch to the server, again and again under its number, then the next.
func (o *outbox) send() {
	failures := 0
	for {
		frame, over := o.begin()
		switch {
		case over:
			return
		case frame == nil:
			select {
			case <-o.wake:
			case <-o.limit.Done():
				return
			}
			continue
		}
		after, err := o.try(frame)
		o.report(err)
		if after < 0 {
			failures = 0
			continue
		}
		failures++
		wait := min(100*time.Millisecond<<min(failures-1, 7), 10*time.Second)
		wait = max(after, wait/2+rand.N(wait/2))
		select {
		case <-time.After(wait):
		case <-o.limit.Done():
			return
		}
	}
}

// begin returns the batch to send, or that nothing is left to do.
func (o *outbox) begin() (frame []byte, over bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.waiting) == 0 {
		return nil, o.finished
	}
	o.inFlight = true
	return o.waiting[0].frame, o.limit.Err() != nil
}

// try sends once. It returns a negative wait when the batch is done with, else the least time before the next attempt.
func (o *outbox) try(frame []byte) (after time.Duration, err error) {
	request, err := http.NewRequestWithContext(o.limit, http.MethodPost, o.url, bytes.NewReader(frame))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-ogive-batch-flatbuffer")
	if o.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+o.options.Token)
	}
	if o.options.Tenant != "" {
		request.Header.Set("X-Scope-OrgID", o.options.Tenant)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return 0, err
	}
	var verdict answer
	isObject := json.Unmarshal(body, &verdict) == nil
	switch response.StatusCode {
	case http.StatusOK:
		return o.acknowledge(verdict, isObject)
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		// Without the object somebody else answers at that address.
		if !isObject || verdict.Error == "" {
			break
		}
		return o.refused(response.Status, verdict.Error)
	case http.StatusRequestEntityTooLarge:
		return o.refused(response.Status, verdict.Error)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second, fmt.Errorf("ogive: the server answers %s: %s", response.Status, verdict.Error)
}

type answer struct {
	Accepted  *uint64 `json:"accepted"`
	Duplicate *uint64 `json:"duplicate"`
	Rejected  []struct {
		Reason string `json:"reason"`
	} `json:"rejected"`
	Error string `json:"error"`
}

var errNoVerdict = errors.New("ogive: the answer does not speak of every sample of the batch: is this an Ogive server?")

func (o *outbox) acknowledge(verdict answer, isObject bool) (time.Duration, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	samples := o.waiting[0].samples
	if !isObject || verdict.Accepted == nil || verdict.Duplicate == nil ||
		*verdict.Accepted+*verdict.Duplicate+uint64(len(verdict.Rejected)) != samples {
		return 0, errNoVerdict
	}
	for _, rejected := range verdict.Rejected {
		o.counts.Rejected[rejected.Reason]++
	}
	o.counts.Acknowledged += samples - uint64(len(verdict.Rejected))
	o.bytes -= len(o.waiting[0].frame)
	o.waiting, o.inFlight = o.waiting[1:], false
	return -1, nil
}

// refused gives a batch up that the server would never take.
func (o *outbox) refused(status, why string) (time.Duration, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.drop(0, "refused")
	o.inFlight = false
	return -1, fmt.Errorf("ogive: a batch was refused with %s: %s", status, why)
}

// report notifies the program of a failure, once until something else happens.
func (o *outbox) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != o.reported && err != nil && o.options.OnError != nil {
		o.options.OnError(err)
	}
	o.reported = text
}
