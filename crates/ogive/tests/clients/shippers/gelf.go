package main

import (
	"fmt"
	"math/rand"
	"time"

	"gopkg.in/Graylog2/go-gelf.v2/gelf"
)

// Letters that no compression makes a single datagram of.
func letters(seed int64, count int) string {
	random := rand.New(rand.NewSource(seed))
	out := make([]byte, count)
	for at := range out {
		out[at] = byte('!' + random.Intn(94))
	}
	return string(out)
}

func gelfMessage(kind string, at int, text string) *gelf.Message {
	seconds := time.Now().Unix() - int64(at%7)
	return &gelf.Message{
		Version: "1.1", Host: "edge-1", Short: text, TimeUnix: float64(seconds) + 0.5, Level: int32(at % 8),
		Facility: kind, Extra: map[string]interface{}{"_at": at, "_sent": seconds, "_user": "ä \"b\""},
	}
}

// Sends by the addresses of UDP and TCP.
func gelfMessages(args []string) {
	for kind, compression := range map[string]gelf.CompressType{
		"gzip": gelf.CompressGzip, "zlib": gelf.CompressZlib, "none": gelf.CompressNone,
	} {
		writer, err := gelf.NewUDPWriter(args[0])
		fail(err)
		writer.CompressionType = compression
		for at := 0; at < 50; at++ {
			fail(writer.WriteMessage(gelfMessage(kind, at, fmt.Sprintf("line %d", at))))
		}
		// 60 chunks, fewer than the smallest receive buffer takes.
		fail(writer.WriteMessage(gelfMessage(kind, 50, letters(50, 80_000))))
		say(kind)
	}
	writer, err := gelf.NewTCPWriter(args[1])
	fail(err)
	for at := 0; at < 500; at++ {
		fail(writer.WriteMessage(gelfMessage("tcp", at, fmt.Sprintf("line %d", at))))
	}
	fail(writer.WriteMessage(gelfMessage("tcp", 500, letters(500, 800_000))))
	say("tcp")
}
