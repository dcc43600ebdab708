package examples

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestNodePing(t *testing.T) {
	testenv.Needs(t, "programs: ping")
	nodePing(prepare(t, "node-ping"))
}

func nodePing(e *example) {
	t := e.t
	// Of five packets to 192.0.2.N, the fake ping loses N. 10.0.0.1 is unreachable.
	addresses := map[string]string{"good": "127.0.0.1", "fair": "192.0.2.1", "poor": "192.0.2.4", "dead": "192.0.2.99",
		"away": "10.0.0.1", "new": ""}
	perRound := map[string]int{"good": 0, "fair": 1, "poor": 4, "dead": 5, "away": 5}
	var nodes strings.Builder
	for name := range addresses {
		fmt.Fprintf(&nodes, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %s}\n", e.node(name))
	}
	t.Cleanup(func() {
		for name := range addresses {
			e.kubectl("delete", "node", e.node(name), "--ignore-not-found", "--wait=false")
		}
	})
	e.input(nodes.String(), "create", "-f", "-")
	for name, address := range addresses {
		if address != "" {
			e.address(name, address)
		}
	}

	const everySecond = "PING_CRONTAB=* * * * * *"
	e.start(everySecond)
	e.until("two rounds", func() bool { return e.rounds() >= 2 })
	e.checkLost(perRound)

	// A node that gets an address is added, a deleted one is removed, and the others continue.
	e.address("new", "192.0.2.2")
	e.kubectl("delete", "node", e.node("poor"))
	e.until("a new node and one less", func() bool {
		lost := e.lost()
		_, poor := lost["poor"]
		return lost["new"] >= 4 && !poor
	})
	rounds := e.rounds()
	delete(perRound, "poor")
	lost := e.lost()
	delete(lost, "new")
	if lost["dead"] < 5*rounds {
		t.Errorf("the counter of an old node was reset: %d packets in %d rounds", lost["dead"], rounds)
	}
	perRound["new"] = 2
	if e.failures() != 0 {
		t.Errorf("%d runs have failed", e.failures())
	}

	// After a second start, without workers, all nodes are counted from the beginning.
	e.restart(everySecond, "SHELL_OPERATOR_WORKERS=false")
	e.until("two rounds after the second start", func() bool { return e.rounds() >= 2 })
	e.checkLost(perRound)

	// A round that was killed half-way is not counted.
	e.restart(everySecond, killedOnce(t, "jq", "ping"), retryMinDelay, retryMaxDelay)
	e.until("two rounds after two that were killed", func() bool { return e.rounds() >= 2 })
	e.checkLost(perRound)
	if e.failures() != 2 {
		t.Errorf("%d runs have failed, not 2", e.failures())
	}
}

// node is the name of a node that no other test has.
func (e *example) node(name string) string { return e.namespace + "-" + name }

func (e *example) address(name, address string) {
	e.t.Helper()
	e.kubectl("patch", "node", e.node(name), "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"addresses":[{"type":"Hostname","address":"%s"},{"type":"InternalIP","address":"%s"}]}}`, name, address))
}

// rounds is the number of rounds that have ended well.
func (e *example) rounds() int {
	return e.operator.Count("Hook executed successfully", "event", "schedule")
}

// lost reads the counters as Prometheus does, by the name of the node.
func (e *example) lost() map[string]int {
	e.t.Helper()
	text := e.operator.Page("/metrics/hooks")
	if rounds := e.rounds(); rounds > 0 && !strings.Contains(text, "# TYPE node_packets_lost counter\n") {
		e.t.Errorf("there is no counter after %d rounds: %s", rounds, text)
	}
	lost := map[string]int{}
	series := regexp.MustCompile(`(?m)^node_packets_lost\{hook="node-ping.sh",node="` + e.namespace + `-(.*)"\} (\d+)$`)
	for _, match := range series.FindAllStringSubmatch(text, -1) {
		lost[match[1]], _ = strconv.Atoi(match[2])
	}
	return lost
}

// checkLost reports whether each counter is the losses of one round times the number of rounds.
func (e *example) checkLost(perRound map[string]int) {
	e.t.Helper()
	least := e.rounds()
	lost := e.lost()
	most := e.rounds() + 1 // the metrics are there a moment before the log says so
	for n := least; n <= most; n++ {
		want := map[string]int{}
		for name, packets := range perRound {
			want[name] = packets * n
		}
		if maps.Equal(lost, want) {
			return
		}
	}
	e.t.Errorf("after %d rounds these packets are lost: %v, of %v in one", least, lost, perRound)
}
