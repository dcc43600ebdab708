// Testcluster is a Kubernetes control plane in one file: etcd, kube-apiserver, kube-controller-manager and kubectl,
// started by tests and by the demo, on loopback only.
//
//   - `start` brings a control plane up in a few seconds and takes it down with itself: no component outlives it,
//     however it ends.
//   - All state is in one folder. Started again on that folder, the cluster has the same addresses, the same
//     certificates and the same objects.
//   - A component that is killed stays dead until `restart` asks for it, so that a test can have an outage.
//   - There are no nodes: Pods stay Pending.
//
// It is not made to be safe against other users of the machine (etcd has no password), nor against a power cut (etcd
// does not sync its files).
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const help = `testcluster is a Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager and kubectl.

Usage:
  testcluster start --dir DIR [--remove] [--feature-gates=GATES]
                                            start a control plane, print "ready", run until SIGTERM or SIGINT
  testcluster restart --dir DIR COMPONENT   start (or stop and start) one component, return when it is healthy
  testcluster kubectl ARGUMENTS             kubectl; also when this file is called kubectl

Components are etcd, kube-apiserver and kube-controller-manager.

What 'start' leaves in DIR:
  kubeconfig        for an administrator
  user.kubeconfig   for the user "alice", who may do nothing until RBAC says so
  COMPONENT.pid     while the component runs; kill it, and it stays dead until 'restart'
  COMPONENT.log     what the component said
  etcd.address      where etcd listens

--remove removes DIR at the end. Without it nothing is removed: started again on the same DIR, the cluster has the same
ports, certificates and objects; remove DIR to forget it. GATES are those of the API server, such as ShardedListAndWatch=true.

Example:
  testcluster start --dir /tmp/cluster &
  export KUBECONFIG=/tmp/cluster/kubeconfig
  testcluster kubectl get namespaces
`

// gatesFlag begins the argument with feature gates of the API server.
const gatesFlag = "--feature-gates="

func main() {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl())
	}
	if len(os.Args) > 1 {
		// A component sees the arguments that its own binary would see.
		if run, ok := programs[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// programs are the roles of this file, selected by the first argument.
var programs = map[string]func() int{
	"etcd":                    etcd,
	"kube-apiserver":          apiServer,
	"kube-controller-manager": controllerManager,
	"kubectl":                 kubectl,
}

// command runs a command of the command line and returns the exit code.
func command(args []string, stdout, stderr io.Writer) int {
	name, rest := "", args
	if len(args) > 0 {
		name, rest = args[0], args[1:]
	}
	var err error
	switch name {
	case "start":
		err = start(rest, stdout, stderr)
	case "restart":
		err = restart(rest)
	case "help", "-h", "--help", "":
		fmt.Fprint(stdout, help)
	default:
		err = usageError(fmt.Sprintf("unknown command %q", name))
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "testcluster:", err)
	if _, ok := err.(usageError); ok {
		fmt.Fprintln(stderr, "Try: testcluster --help")
		return 2
	}
	return 1
}

// usageError is a mistake on the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// parseDir reads "--dir DIR" and returns the other arguments. A flag package would accept more than help promises.
func parseDir(args []string) (dir string, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], "--dir=")
		switch {
		case joined:
			dir = value
		case args[i] == "--dir" && i+1 < len(args):
			i++
			dir = args[i]
		case args[i] == "--remove", strings.HasPrefix(args[i], gatesFlag):
			rest = append(rest, args[i])
		case strings.HasPrefix(args[i], "-"):
			return "", nil, usageError(fmt.Sprintf("unknown flag or missing value: %s", args[i]))
		default:
			rest = append(rest, args[i])
		}
	}
	if dir == "" {
		return "", nil, usageError("--dir DIR is required: the folder that holds the cluster's files")
	}
	dir, err = filepath.Abs(dir)
	return dir, rest, err
}
