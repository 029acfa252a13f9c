package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	lumber "github.com/elastic/go-lumber/client/v2"
)

// As Filebeat names things; a time of its own unless the kind is untimed.
func beatsEvent(kind string, at int) interface{} {
	event := map[string]interface{}{
		"message": fmt.Sprintf("%s line %d", kind, at), "service": map[string]interface{}{"name": kind},
		"host":      map[string]interface{}{"name": "edge-1"},
		"log":       map[string]interface{}{"level": "warn", "offset": at, "file": map[string]interface{}{"path": "/var/log/ä"}},
		"@metadata": map[string]interface{}{"beat": "filebeat", "version": "8.0.0"},
	}
	if kind != "untimed" {
		event["@timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return event
}

func beatsWindow(kind string, from, count int) []interface{} {
	window := make([]interface{}, count)
	for at := range window {
		window[at] = beatsEvent(kind, from+at)
	}
	return window
}

// Sends by the addresses of TCP and of TLS, whose authority is in a file: 20 windows by each of the two clients.
func beatsWindows(args []string) {
	pem, err := os.ReadFile(args[2])
	fail(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	secure := func(network, address string) (net.Conn, error) {
		return tls.Dial(network, address, &tls.Config{RootCAs: roots, ServerName: "server"})
	}
	for kind, level := range map[string]int{"plain": 0, "packed": 3} {
		client, err := lumber.SyncDial(args[0], lumber.CompressionLevel(level))
		fail(err)
		for at := 0; at < 20; at++ {
			acknowledged, err := client.Send(beatsWindow(kind, at*50, 50))
			fail(err)
			if acknowledged != 50 {
				fail(fmt.Errorf("%d of 50 are acknowledged", acknowledged))
			}
		}
		fail(client.Close())
		say(kind)
	}
	client, err := lumber.AsyncDialWith(secure, args[1], 8, lumber.CompressionLevel(3))
	fail(err)
	var all sync.WaitGroup
	for at := 0; at < 20; at++ {
		all.Add(1)
		fail(client.Send(func(sequence uint32, err error) {
			fail(err)
			if sequence != 50 {
				fail(fmt.Errorf("%d of 50 are acknowledged", sequence))
			}
			all.Done()
		}, beatsWindow("async", at*50, 50)))
	}
	all.Wait()
	say("async")
}

// Sends 300 windows of 10 events, each until it is acknowledged, over whatever server is there.
func beatsRetries(args []string) {
	var client *lumber.SyncClient
	for window := 0; window < 300; window++ {
		events := beatsWindow(args[1], window*10, 10)
		for acknowledged := false; !acknowledged; {
			var err error
			if client == nil {
				client, err = lumber.SyncDial(args[0], lumber.CompressionLevel(3), lumber.Timeout(5*time.Second))
			}
			if err == nil {
				_, err = client.Send(events)
			}
			acknowledged = err == nil
			if err != nil {
				if client != nil {
					_ = client.Close()
				}
				client = nil
				time.Sleep(5 * time.Millisecond)
			}
		}
		if window%50 == 49 {
			fmt.Println("on")
		}
	}
	fmt.Println("all are acknowledged")
}
