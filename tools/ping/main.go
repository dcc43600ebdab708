// Command ping stands in for the program of that name from iputils, for tests and the demo on machines without it. It
// sends nothing: what becomes of the packets is a matter of the address. 127.0.0.1 answers all of them, and of those to
// 192.0.2.N, a network that is kept free for documentation, N are lost.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
)

const usage = "Usage: ping -c COUNT [-W SECONDS] [-q] ADDRESS"

var (
	localhost = netip.MustParseAddr("127.0.0.1")
	testNet   = netip.MustParsePrefix("192.0.2.0/24")
)

// Exit statuses as iputils has them.
const (
	someCameBack = 0
	noneCameBack = 1
	otherError   = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ping", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	count := flags.Int("c", 0, "")
	flags.Float64("W", 10, "")
	quiet := flags.Bool("q", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 || *count < 1 {
		fmt.Fprintln(stderr, usage)
		return otherError
	}
	address := flags.Arg(0)
	lost, problem := fate(address, *count)
	if problem != "" {
		fmt.Fprintf(stderr, "ping: %s: %s\n", address, problem)
		return otherError
	}
	received := *count - lost
	fmt.Fprintf(stdout, "PING %s (%s) 56(84) bytes of data.\n", address, address)
	if !*quiet {
		for i := range received {
			fmt.Fprintf(stdout, "64 bytes from %s: icmp_seq=%d ttl=64 time=0.030 ms\n", address, i+1)
		}
	}
	fmt.Fprintf(stdout, "\n--- %s ping statistics ---\n", address)
	fmt.Fprintf(stdout, "%d packets transmitted, %d received, %.6g%% packet loss, time %dms\n",
		*count, received, 100*float64(lost)/float64(*count), 1000*(*count-1))
	if received == 0 {
		fmt.Fprintln(stdout)
		return noneCameBack
	}
	fmt.Fprint(stdout, "rtt min/avg/max/mdev = 0.030/0.030/0.030/0.000 ms\n\n")
	return someCameBack
}

// fate returns how many packets to an address are lost, or why none can be sent.
func fate(address string, count int) (lost int, problem string) {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return 0, "Name or service not known"
	case ip == localhost:
		return 0, ""
	case testNet.Contains(ip):
		return min(int(ip.As4()[3]), count), ""
	}
	return 0, "Network is unreachable"
}
