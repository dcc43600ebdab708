package debug

import (
	"fmt"
	"strings"
	"time"
)

// ShardStatus is the share of a replica in the work of several.
type ShardStatus struct {
	// Shard is that of this replica; nil for a standby.
	Shard    *int   `json:"shard"`
	Shards   int    `json:"shards"`
	Division string `json:"division"`
	// Serving reports that it serves the shard. Waits is what it waits for otherwise.
	Serving bool   `json:"serving"`
	Waits   string `json:"waits,omitempty"`
	// Since is the time of the last change.
	Since time.Time `json:"since"`
	// Holders are the Pods that have the shards, as far as this replica knows; empty for none.
	Holders []string `json:"holders"`
}

func (s *ShardStatus) String() string { return s.Text(time.Now()) }

// Text is a line, without its end.
func (s *ShardStatus) Text(now time.Time) string {
	since := ago(now.Sub(s.Since))
	own := "standby"
	if s.Shard != nil {
		own = fmt.Sprintf("shard %d/%d", *s.Shard, s.Shards)
	}
	if s.Serving {
		return fmt.Sprintf("%s of division %s, for %s", own, s.Division, since)
	}
	var holders []string
	for i, pod := range s.Holders {
		if pod == "" {
			pod = "none"
		}
		holders = append(holders, fmt.Sprintf("%d %s", i, pod))
	}
	return fmt.Sprintf("%s of division %s, waits for %s, for %s; owners of shards: %s", own, s.Division, s.Waits, since,
		strings.Join(holders, ", "))
}
