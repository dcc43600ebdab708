package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// ElectionOptions are about several replicas of which one runs hooks, or that share the objects of hooks.
type ElectionOptions struct {
	Enabled bool
	// Shards is the number of replicas that share the objects; 0 without shards. It excludes Enabled.
	Shards int
	// Lease is the name of the Lease, and the names of the Leases of shards begin with it. It is in the operator's own namespace.
	Lease    string
	Duration time.Duration
}

// replicas reports whether there may be others, with which this one agrees by Leases.
func (o ElectionOptions) replicas() bool { return o.Enabled || o.Shards > 0 }

// newElection returns nil when this replica runs hooks whatever others do.
func newElection(op *operator, cl *kube.Cluster, o Options) (*replica.Lease, error) {
	if !o.Election.replicas() {
		return nil, nil
	}
	namespace, err := cl.OwnNamespace(o.Webhooks.Namespace)
	if err != nil {
		flag := "--leader-election"
		if o.Election.Shards > 0 {
			flag = "--shards"
		}
		return nil, fmt.Errorf("%s needs the namespace of its Lease: %w", flag, err)
	}
	// A client of its own: renewals wait for nothing else.
	client, err := kube.NewClient(cl.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for leader election: %w", err)
	}
	with := replica.Options{
		Client: client, Namespace: namespace, Name: o.Election.Lease, Shards: o.Election.Shards, Pod: host(o), Log: o.Log,
		Duration: o.Election.Duration, RenewDeadline: o.Election.Duration * 2 / 3, RetryPeriod: o.Election.Duration * 2 / 15,
		Changed: op.leaderChanged,
	}
	if with.Shards > 0 {
		with.Changed = op.shards.changed
	}
	return replica.New(with)
}

// fence keeps a leader that was stopped past its Lease from sending changes before it has noticed. It ignores requests
// of runs that answer a client: every replica answers.
func (o ElectionOptions) fence(patches *rest.Config) {
	if o.replicas() {
		patches.Wrap(replica.FencedTransport)
	}
}

// fenced starts no hook for a leader whose Lease may have run out: requests that hooks send themselves cannot be held
// back.
type fenced struct{ run.Executor }

func (f fenced) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	if err := replica.Check(ctx); err != nil {
		return process.Result{}, err
	}
	return f.Executor.Execute(ctx, in)
}

func (op *operator) leaderChanged(now replica.State) {
	leader := now.Holders[0]
	if before := op.leader.Swap(&leader); before != nil && *before == leader && now.Rival == op.rival {
		return
	}
	op.rival = now.Rival
	switch {
	case now.Rival != "": // it has prepared what hooks need that answer requests
		op.log.Info("This replica is a standby", "waits", now.Waits)
		op.health.SetRole("standby: this replica waits for "+now.Waits, true)
	case now.Serving:
		op.log.Info("This replica runs the hooks", "identity", leader)
		op.health.SetRole("leader: this replica runs the hooks", false)
	case leader == "":
		op.log.Info("No replica runs the hooks")
		op.health.SetRole("standby: no replica runs the hooks", false)
	default:
		op.log.Info("Another replica runs the hooks, this one is a standby", "leader", leader)
		op.health.SetRole(fmt.Sprintf("standby: %q runs the hooks", leader), true)
	}
}

// lead runs the queues until ctx ends, without election or while this replica leads or owns its shard. When it has lost the Lease, lose is
// called, which has to end everything that runs; and the process ends. It would have to forget its queues, its metrics
// and what its bindings hold back; a new process has forgotten them.
func (op *operator) lead(ctx, runs context.Context, lose func(error)) error {
	if op.election == nil {
		return op.runQueues(ctx, runs)
	}
	serve := func(held context.Context) {
		op.effects.Sets().Drop(func(string) bool { return true }) // what comes of requests that this replica has answered as a standby
		defer context.AfterFunc(held, func() { lose(context.Cause(held)) })()
		_ = op.runQueues(ctx, op.election.Fence(runs))
	}
	var err error
	if op.shards.count == 0 {
		err = op.election.Run(ctx, serve)
	} else {
		err = op.election.RunShard(ctx, replica.Shard{Division: op.shards.division, Assigned: op.assigned, Serve: serve})
	}
	switch {
	case err == nil:
		return nil
	case op.shards.count > 0:
		lose(err) // perhaps before anything was served
		op.log.Error("This replica does not own its shard any more, it ends", "error", err.Error())
	default:
		op.log.Error("This replica does not lead any more, it ends", "error", err.Error())
	}
	return fmt.Errorf("%w: hooks that were running have been killed, and what they wrote is not carried out; the operator has to be "+
		"started again and is a standby then", err)
}

func (op *operator) runQueues(ctx, runs context.Context) error {
	if op.shards.count == 0 {
		op.meter.Leads()
	}
	close(op.leading)
	if op.shards.first() {
		close(op.once)
	}
	restoring, end := context.WithCancel(runs) // what it sends is fenced like operations
	defer context.AfterFunc(ctx, end)()
	var restores sync.WaitGroup
	defer restores.Wait()
	defer end()
	restores.Go(func() { op.effects.Restore(restoring) })
	return op.queues.Run(ctx, runs)
}
