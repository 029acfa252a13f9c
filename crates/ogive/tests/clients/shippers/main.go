// Log shippers of other makers, driven by tests: what to send in the arguments, and a line on standard input between its parts.
package main

import (
	"bufio"
	"fmt"
	"os"
)

var input = bufio.NewScanner(os.Stdin)

// Says a line, and waits until the test says one.
func say(line string) {
	fmt.Println(line)
	if !input.Scan() {
		fail(fmt.Errorf("the test ended after %q", line))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	kinds := map[string]func([]string){
		"gelf": gelfMessages, "beats": beatsWindows, "beats-retries": beatsRetries, "fluent-retries": fluentRetries,
	}
	kinds[os.Args[1]](os.Args[2:])
}
