package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/console"
	"github.com/shell-operator/shell-operator/internal/replica"
)

const pluginHelp = `Run a command of shell-operator in the Pod of a running operator: in the one that holds the Lease, in the only Pod,
or in all.

Usage:
  kubectl shell-operator COMMAND -n NAMESPACE [flags]
  kubectl shell-operator console [PATH] -n NAMESPACE [--listen ADDRESS] [--no-browser] [flags]

The console runs on this machine, and opens the browser. It shows one replica.

Examples:
  kubectl shell-operator status -n my-operator
  kubectl shell-operator queue retry orders -n my-operator --context staging
  kubectl shell-operator console -n my-operator

Flags, all others are those of COMMAND (kubectl shell-operator COMMAND --help -n NAMESPACE):
  -n, --namespace string    namespace of the operator
      --pod string          name of the Pod, instead of the one that is chosen
      --selector string     labels of its Pods (default "app.kubernetes.io/name=shell-operator")
      --lease string        name of its Lease (default "shell-operator")
      --program string      path of the program in the Pod (default "/shell-operator")
  -c, --container string    container of the Pod
      --context string      context of the kubeconfig
      --kubeconfig string   path of the kubeconfig

The variable KUBECTL names another program than kubectl. The exit status is that of COMMAND.
`

// calledAsPlugin reports that the program has the name of the plugin: kubectl shell-operator runs it.
func calledAsPlugin(name string) bool {
	return strings.HasPrefix(filepath.Base(name), "kubectl-shell_operator")
}

// plugin is a call by kubectl as a plugin: it runs a command of the program in the Pod of a running operator. kubectl alone talks to the
// API server, with the permissions of the user, and its exit status is passed on.
type plugin struct {
	kubectl string
	// cluster are the flags for every call of kubectl.
	cluster                                        []string
	namespace, selector, lease, program, container string
	// named is the Pod that the user has chosen; empty for none.
	named   string
	command []string
	// own are the flags above as they were given, for commands on pages.
	own []string

	mu sync.Mutex
	// shown is the Pod that a console shows, shownFlags the flag that names it.
	shown, shownFlags string
}

// runPlugin returns the exit code, unless kubectl exec replaces this process.
func runPlugin(args []string, stdout, stderr io.Writer) int {
	p, err := parsePlugin(args, os.Getenv("KUBECTL"))
	if err == nil && len(p.command) == 0 {
		_, _ = io.WriteString(stdout, pluginHelp)
		return 0
	}
	if err == nil {
		if p.kubectl, err = exec.LookPath(p.kubectl); err != nil {
			err = fmt.Errorf("cannot run kubectl: %w: set KUBECTL to its path", err)
		}
	}
	switch {
	case err != nil:
	case p.command[0] == "console":
		if err = p.console(p.command[1:], os.Stdin, stdout); err == nil {
			return 0
		}
	default:
		err = p.exec()
	}
	fmt.Fprintf(stderr, "Error: %v\n", err)
	return 1
}

// parsePlugin takes its own flags out of the arguments, up to "--".
func parsePlugin(args []string, kubectl string) (*plugin, error) {
	p := &plugin{kubectl: cmp.Or(kubectl, "kubectl"), selector: "app.kubernetes.io/name=shell-operator", lease: "shell-operator",
		program: "/shell-operator"}
	var context, kubeconfig string
	values := map[string]*string{
		"-n": &p.namespace, "--namespace": &p.namespace, "--selector": &p.selector, "--lease": &p.lease, "--program": &p.program,
		"-c": &p.container, "--container": &p.container, "--pod": &p.named, "--context": &context, "--kubeconfig": &kubeconfig,
	}
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			p.command = append(p.command, args[i+1:]...)
			break
		}
		flag, value, given := strings.Cut(args[i], "=")
		target, own := values[flag]
		switch {
		case !own:
			if args[i] != "-h" && args[i] != "--help" || len(p.command) > 0 {
				p.command = append(p.command, args[i])
			}
			continue
		case !given && i+1 == len(args):
			return nil, fmt.Errorf("%s needs a value: see kubectl shell-operator --help", flag)
		case !given:
			i++
			value = args[i]
		}
		*target = value
		p.own = append(p.own, flag, console.Quote(value))
	}
	if p.named != "" && len(validation.IsDNS1123Subdomain(p.named)) > 0 {
		return nil, fmt.Errorf("--pod %q is no name of a Pod", p.named)
	}
	for _, flag := range [][]string{{"--kubeconfig", kubeconfig}, {"--context", context}, {"--namespace", p.namespace}} {
		if flag[1] != "" {
			p.cluster = append(p.cluster, flag...)
		}
	}
	return p, nil
}

// exec replaces this process by kubectl exec.
func (p *plugin) exec() error {
	pod, _, err := p.pod()
	if err != nil {
		return err
	}
	return syscall.Exec(p.kubectl, append([]string{p.kubectl}, p.call(pod, p.command)...), os.Environ())
}

// call is the command line of kubectl exec for a Pod. Flags are those of kubectl exec.
func (p *plugin) call(pod string, command []string, flags ...string) []string {
	args := slices.Concat([]string{"exec"}, flags, p.cluster)
	if p.container != "" {
		args = append(args, "--container", p.container)
	}
	return append(append(args, pod, "--", p.program), command...)
}

// pod is the one that the user has named, the leader, of several perhaps, or the only Pod.
func (p *plugin) pod() (name string, leads bool, err error) {
	if p.named != "" {
		return p.named, false, nil
	}
	leader, err := p.leader()
	if leader != "" || err != nil {
		return leader, true, err
	}
	names, err := p.pods()
	switch {
	case err != nil:
		return "", false, err
	case len(names) == 0:
		return "", false, fmt.Errorf("no Pod with the labels %s: set -n, and --selector if the operator has other labels", p.selector)
	case len(names) > 1:
		return "", false, fmt.Errorf("%d Pods have the labels %s and no Lease %s has a holder, choose with --pod, --selector or --lease: %s",
			len(names), p.selector, p.lease, strings.Join(names[:min(5, len(names))], ", "))
	}
	return names[0], false, nil
}

// leader is the holder of the Lease; empty without one.
func (p *plugin) leader() (string, error) {
	answer, err := p.get("lease", p.lease, "--ignore-not-found", "--output", "json")
	if err != nil || len(bytes.TrimSpace(answer)) == 0 {
		return "", err
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(answer, &lease); err != nil {
		return "", fmt.Errorf("cannot read the Lease %s: %w", p.lease, err)
	}
	holder := replica.HolderName(&lease)
	// Clients that write Leases could otherwise add options to kubectl exec.
	if holder != "" && len(validation.IsDNS1123Subdomain(holder)) > 0 {
		return "", fmt.Errorf("the Lease %s has the holder %q, which is no name of a Pod: check which client writes it", p.lease, holder)
	}
	return holder, nil
}

// pods are the names of all Pods.
func (p *plugin) pods() (names []string, err error) {
	answer, err := p.get("pods", "--selector", p.selector, "--output", "name")
	for name := range strings.FieldsSeq(string(answer)) {
		names = append(names, strings.TrimPrefix(name, "pod/"))
	}
	return names, err
}

func (p *plugin) get(args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(p.kubectl, append(append([]string{"get"}, p.cluster...), args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(cmp.Or(strings.TrimSpace(stderr.String()), err.Error()))
	}
	return out, nil
}
