package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/shell-operator/shell-operator/internal/replica"
)

// execAll runs the command in each Pod, the owners of shards first, and prints the shard before each output. It returns the first exit code
// that is not 0.
func (p *plugin) execAll(stdout, stderr io.Writer) (code int, err error) {
	pods, err := p.pods()
	if err != nil {
		return 0, err
	}
	if len(pods) == 0 {
		return 0, fmt.Errorf("no Pod with the labels %s: set -n, and --selector if the operator has other labels", p.selector)
	}
	roles, err := p.roles()
	if err != nil {
		return 0, err
	}
	last := "\xff" // standbys are behind the owners
	slices.SortStableFunc(pods, func(a, b string) int {
		return cmp.Or(cmp.Compare(cmp.Or(roles[a].order, last), cmp.Or(roles[b].order, last)), cmp.Compare(a, b))
	})
	for _, pod := range pods {
		fmt.Fprintf(stdout, "== %s: %s\n", cmp.Or(roles[pod].name, "standby"), pod)
		cmd := exec.Command(p.kubectl, p.call(pod)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
		var failed *exec.ExitError
		switch err := cmd.Run(); {
		case errors.As(err, &failed):
			code = cmp.Or(code, failed.ExitCode())
		case err != nil:
			return 0, fmt.Errorf("cannot run kubectl: %w: set KUBECTL to its path", err)
		}
	}
	return code, nil
}

// role is what a Pod has, by its Leases.
type role struct{ name, order string }

// roles are those of the Pods that hold a Lease.
func (p *plugin) roles() (map[string]role, error) {
	roles := map[string]role{}
	one, err := p.get("lease", p.lease, "--ignore-not-found", "--output", "json")
	if err != nil {
		return nil, err
	}
	var leader coordinationv1.Lease
	if len(one) > 0 && json.Unmarshal(one, &leader) == nil {
		roles[replica.HolderName(&leader)] = role{"leader", " "}
	}
	many, err := p.get("leases", "--selector", replica.ShardsLabel+"="+p.lease, "--output", "json")
	if err != nil {
		return nil, err
	}
	var leases coordinationv1.LeaseList
	if err := json.Unmarshal(many, &leases); err != nil {
		return nil, fmt.Errorf("cannot read the Leases of shards: %w", err)
	}
	for i := range leases.Items {
		shard, index := replica.ShardOf(&leases.Items[i])
		roles[replica.HolderName(&leases.Items[i])] = role{"shard " + shard, fmt.Sprintf("%03d", index)}
	}
	return roles, nil
}
