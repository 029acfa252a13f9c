package main

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/fluent/fluent-logger-golang/fluent"
)

// Sends 300 messages, each until it is acknowledged, over whatever server is there.
func fluentRetries(args []string) {
	host, port, err := net.SplitHostPort(args[0])
	fail(err)
	number, err := strconv.Atoi(port)
	fail(err)
	client, err := fluent.New(fluent.Config{
		FluentHost: host, FluentPort: number, RequestAck: true, SubSecondPrecision: args[1] == "nanoseconds",
		Timeout: 5 * time.Second, WriteTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second,
		RetryWait: 10, MaxRetryWait: 300, MaxRetry: 100,
	})
	fail(err)
	for at := 0; at < 300; at++ {
		record := map[string]interface{}{"log": fmt.Sprintf("%s line %d", args[1], at), "host": "edge-1", "at": at}
		fail(client.Post(args[1], record))
		if at%50 == 49 {
			fmt.Println("on")
		}
	}
	fail(client.Close())
	fmt.Println("all are acknowledged")
}
