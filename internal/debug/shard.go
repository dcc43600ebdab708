package debug

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ShardStatus is the share of a replica in the work of several.
type ShardStatus struct {
	// Shard is the shard of this replica; nil for a standby.
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
	since, own := ago(now.Sub(s.Since)), s.role()
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

// role is what the replica is: its shard, or a standby.
func (s *ShardStatus) role() string {
	if s.Shard == nil {
		return "standby"
	}
	return fmt.Sprintf("shard %d/%d", *s.Shard, s.Shards)
}

// here is what this replica is to commands, which act on one.
func (s *ShardStatus) here() string {
	if s.Shard == nil {
		return fmt.Sprintf("this replica is a standby of %d shards", s.Shards)
	}
	return "this replica has " + s.role()
}

// here is what this replica is to the commands of a route; empty without shards, and for finalizers and sets, which are in the cluster.
func (a *API) here(rt *Route) string {
	if a.o.Shard == nil || strings.HasPrefix(rt.Path, "/sets") || strings.HasPrefix(rt.Path, "/finalizers") {
		return ""
	}
	if s := a.o.Shard(); s != nil {
		return s.here()
	}
	return ""
}

// elsewhere adds to an error that what is missing may be there on another replica.
func (a *API) elsewhere(rt *Route, r *Problem) {
	switch here := a.here(rt); {
	case here == "":
	case r.Code == unknownQueue, r.Code == codes[http.StatusNotFound], r.Code == codes[http.StatusConflict]:
		r.Next = strings.TrimPrefix(r.Next+"; ", "; ") + here + ", kubectl exec in another Pod asks another one"
	}
}
